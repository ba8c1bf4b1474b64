"""cropseek: detect, crop, embed and search the objects in pictures, in one call."""

__version__ = "0.1.0"
