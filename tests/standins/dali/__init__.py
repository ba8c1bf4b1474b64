"""In the place of the DALI backend."""
