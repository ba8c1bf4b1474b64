"""Frames out of video files."""
