"""Pixels and boxes: pure functions on NumPy arrays, no server in sight."""
