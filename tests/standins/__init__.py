"""Python-based backends in the place of NVIDIA's, so that GPU profiles can be loaded on a CPU."""
