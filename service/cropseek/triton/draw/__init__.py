"""The drawing of a model repository: its pipeline, with every finding where it is."""

from __future__ import annotations

from cropseek.triton.draw.compose import scene_of
from cropseek.triton.draw.scene import Scene
from cropseek.triton.draw.svg import to_svg
from cropseek.triton.draw.terminal import to_lines

__all__ = ["Scene", "scene_of", "to_lines", "to_svg"]
