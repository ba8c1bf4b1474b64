"""The gRPC service: what is asked, what is answered, and how errors look on the wire."""
