"""Everything that knows Triton: starting it, talking to it, and what runs inside it."""
