"""The wheel alone, in an empty environment, from another directory: the demo works."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import venv
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.mark.timeout(600)
def test_the_wheel_passes_the_demo_from_anywhere(tmp_path: Path) -> None:
    _run(sys.executable, "-m", "build", "--wheel", "--outdir", str(tmp_path / "dist"), str(ROOT))
    (wheel,) = (tmp_path / "dist").glob("*.whl")
    venv.create(tmp_path / "env", with_pip=True)
    python = str(tmp_path / "env" / "bin" / "python")
    # The lock file only says which versions: what is installed is what the wheel asks for.
    _run(python, "-m", "pip", "install", "-q", "-c", str(ROOT / "requirements.lock"), str(wheel))
    shown = _run(
        str(tmp_path / "env" / "bin" / "cropseek"),
        "demo",
        "--json",
        "--output",
        str(tmp_path / "demo"),
    )
    result = json.loads(shown)
    assert result["indexed"]["images"] >= 30
    assert result["indexed"]["items"] >= 100
    assert "wrong" not in {found["verdict"] for found in result["objects"]}
    assert (tmp_path / "demo" / "index.html").stat().st_size > 100_000


def _run(*command: str) -> str:
    environment = {name: os.environ[name] for name in ("PATH", "HOME") if name in os.environ}
    pip = {name: value for name, value in os.environ.items() if name.startswith(("PIP_", "SSL_"))}
    done = subprocess.run(
        command, cwd="/", env=environment | pip, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, f"{' '.join(command)}\n{done.stdout}{done.stderr}"
    return done.stdout
