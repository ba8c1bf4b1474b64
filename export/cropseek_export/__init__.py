"""Weights in, served ONNX files out: NMS grafting, embedders, precision and the manifest.

Importing this package needs nothing heavy; `torch` is imported only by the functions that use it.
"""
