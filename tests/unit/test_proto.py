"""The generated code is that of the proto file, made as `make proto` makes it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from cropseek.pb import cropseek_pb2 as pb

ROOT = Path(__file__).parents[2]
GENERATED = ("cropseek_pb2.py", "cropseek_pb2.pyi", "cropseek_pb2_grpc.py")


def command() -> list[str]:
    """The arguments of the Makefile's recipe for `proto`."""
    lines = (ROOT / "Makefile").read_text(encoding="utf-8").splitlines()
    start = next(number for number, line in enumerate(lines) if line.startswith("proto:"))
    recipe = []
    for line in lines[start + 1 :]:
        if not line.startswith("\t"):
            break
        recipe += line.removesuffix("\\").split()
    return recipe


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of freshly generated code."""
    target = tmp_path_factory.mktemp("proto")
    python, *arguments = command()
    assert python == "@$(PY)"
    arguments = [argument.replace("_out=service", f"_out={target}") for argument in arguments]
    assert sum(str(target) in argument for argument in arguments) == 3
    subprocess.run([sys.executable, *arguments], cwd=ROOT, check=True)
    return target / "cropseek" / "pb"


@pytest.mark.parametrize("name", GENERATED)
def test_the_committed_code_is_current(made: Path, name: str) -> None:
    """After a change of the API, or of the generator: run `make proto`."""
    committed = (ROOT / "service" / "cropseek" / "pb" / name).read_text(encoding="utf-8")
    assert committed == (made / name).read_text(encoding="utf-8"), "run: make proto"


def test_nothing_else_is_generated(made: Path) -> None:
    """Nor committed."""
    assert {path.name for path in made.iterdir()} == set(GENERATED)
    committed = (ROOT / "service" / "cropseek" / "pb").glob("*.py*")
    assert {path.name for path in committed} == {*GENERATED, "__init__.py"}


def test_the_package_is_versioned() -> None:
    """`cropseek.v1`; a second version is a second package."""
    assert pb.DESCRIPTOR.package == "cropseek.v1"
    assert list(pb.DESCRIPTOR.services_by_name) == ["CropseekService"]
