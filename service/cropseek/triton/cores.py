"""How many cores there are to use; small, since every model's process imports it."""

from __future__ import annotations

import os


def usable_cores() -> int:
    """Return how many CPU cores this process may run on."""
    return len(os.sched_getaffinity(0))
