"""What every result file says of where it came from."""

from __future__ import annotations

import platform
import subprocess
from datetime import datetime, timezone
from importlib import metadata
from pathlib import Path
from typing import Any

from cropseek.triton.cores import usable_cores

_PACKAGES = ("cropseek", "numpy", "onnxruntime", "opencv-python-headless", "nvidia-pytriton")


def description() -> dict[str, Any]:
    """Return the machine, the versions and the commit of a run."""
    return {
        "date": datetime.now(timezone.utc).isoformat(timespec="seconds"),
        "cpu": _cpu_model(),
        "cores": usable_cores(),
        "memory_gib": round(_memory_bytes() / 2**30, 1),
        "system": platform.platform(),
        "python": platform.python_version(),
        "packages": {name: metadata.version(name) for name in _PACKAGES},
        "commit": _git("rev-parse", "--short", "HEAD"),
        "uncommitted_changes": bool(_git("status", "--porcelain", "--untracked-files=no")),
    }


def _cpu_model() -> str:
    lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    return next((line.split(":", 1)[1].strip() for line in lines if "model name" in line), "?")


def _memory_bytes() -> int:
    line = Path("/proc/meminfo").read_text(encoding="utf-8").splitlines()[0]
    return int(line.split()[1]) * 1024


def _git(*arguments: str) -> str:
    done = subprocess.run(
        ["git", *arguments], cwd=Path(__file__).parent, capture_output=True, text=True, check=False
    )
    return done.stdout.strip()
