"""In the place of the TensorRT backend."""
