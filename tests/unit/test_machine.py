"""What the machine is checked for: this one is fit, and one that is not is told why."""

from __future__ import annotations

import platform
import shutil
import sys
from importlib import metadata, util
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from cropseek.errors import SetupError
from cropseek.settings import Settings
from cropseek.triton.machine import (
    Check,
    check_machine,
    find_tritonserver,
    libpython,
    require,
)


def check(name: str, settings: Settings | None = None) -> Check:
    """The check of that name."""
    return next(check for check in check_machine(settings) if check.name == name)


def test_this_machine_is_fit() -> None:
    """Or no other test could start a server; every check says what it saw."""
    checks = check_machine()
    assert [c for c in checks if not c.ok] == []
    assert all(c.detail for c in checks)
    assert len({c.name for c in checks}) == len(checks) == 7
    require(checks)


def test_nothing_failed_is_nothing_raised() -> None:
    """No checks, or only good ones."""
    require([])
    require([Check("a", True, "fine")])


def test_every_remedy_is_told_at_once() -> None:
    """And what is fine is left out."""
    checks = [
        Check("a", False, "seen a", "do x"),
        Check("b", True, "seen b", "do y"),
        Check("c", False, "seen c", "do z"),
    ]
    with pytest.raises(SetupError, match=r"^a: seen a; do x; c: seen c; do z$"):
        require(checks)


@pytest.mark.parametrize(
    ("system", "machine", "libc", "ok"),
    [
        ("Linux", "x86_64", ("glibc", "2.35"), True),
        ("Linux", "x86_64", ("glibc", "2.36"), True),
        ("Linux", "x86_64", ("glibc", "3.0"), True),
        ("Linux", "x86_64", ("glibc", "2.34"), False),
        ("Linux", "x86_64", ("glibc", "2.4"), False),  # older than 2.35, though 4 looks large
        ("Linux", "x86_64", ("", ""), False),  # musl
        ("Linux", "aarch64", ("glibc", "2.36"), False),
        ("Darwin", "arm64", ("", ""), False),
        ("Windows", "x86_64", ("", ""), False),
    ],
    ids=str,
)
def test_system(
    monkeypatch: pytest.MonkeyPatch, system: str, machine: str, libc: tuple[str, str], ok: bool
) -> None:
    """Linux x86-64 with glibc 2.35 or newer."""
    monkeypatch.setattr(platform, "system", lambda: system)
    monkeypatch.setattr(platform, "machine", lambda: machine)
    monkeypatch.setattr(platform, "libc_ver", lambda: libc)
    seen = check("system")
    assert seen.ok is ok
    assert seen.detail.startswith(f"{system} {machine}")
    assert "glibc 2.35" in seen.remedy


@pytest.mark.parametrize(
    ("version", "ok"),
    [
        ((3, 9, 19), False),
        ((3, 10, 0), True),
        ((3, 12, 9), True),
        ((3, 13, 0), False),
        ((4, 0, 0), False),
    ],
    ids=str,
)
def test_python(monkeypatch: pytest.MonkeyPatch, version: tuple[int, int, int], ok: bool) -> None:
    """Those that numpy<2 and Triton's stubs exist for."""
    monkeypatch.setattr(sys, "version_info", version)
    assert check("python").ok is ok


@pytest.mark.parametrize(
    ("version", "ok"), [("1.26.4", True), ("1.99.0", True), ("2.0.0", False), ("10.1.0", False)]
)
def test_numpy(monkeypatch: pytest.MonkeyPatch, version: str, ok: bool) -> None:
    """With NumPy 2 the stub reads zeros."""
    real = metadata.version
    monkeypatch.setattr(
        metadata, "version", lambda name: version if name == "numpy" else real(name)
    )
    seen = check("numpy")
    assert (seen.ok, seen.detail) == (ok, version)
    assert "numpy<2" in seen.remedy


def test_libpython_is_that_of_this_python() -> None:
    """A shared library of its version."""
    found = libpython()
    assert found is not None
    assert found.name == f"libpython{sys.version_info[0]}.{sys.version_info[1]}.so.1.0"
    assert found.exists()


def test_a_python_without_a_shared_library(monkeypatch: pytest.MonkeyPatch) -> None:
    """Says which package has it."""
    monkeypatch.setattr(sys, "version_info", (3, 99, 0))
    assert libpython() is None
    seen = check("libpython")
    assert not seen.ok
    assert seen.detail == "no shared libpython3.99"
    assert seen.remedy.startswith("apt-get install libpython3.99")


def test_an_environment_without_cropseek(monkeypatch: pytest.MonkeyPatch) -> None:
    """PYTHONPATH does not do: the stub takes its packages from the environment."""

    def version(name: str) -> str:
        if name == "cropseek":
            raise metadata.PackageNotFoundError(name)
        return "1.26.4"

    monkeypatch.setattr(metadata, "version", version)
    seen = check("package")
    assert (seen.ok, seen.detail) == (False, "cropseek is not installed")


def test_an_environment_without_a_python3(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The stub starts that one."""
    monkeypatch.setattr(sys, "prefix", str(tmp_path))
    assert not check("package").ok


@pytest.mark.parametrize(
    ("free_mib", "ok"), [(0, False), (64, False), (255, False), (256, True), (1024, True)]
)
def test_shared_memory(monkeypatch: pytest.MonkeyPatch, free_mib: int, ok: bool) -> None:
    """Docker's default of 64 MiB is too little, and is said before anything is killed by it."""

    def disk_usage(path: Any) -> SimpleNamespace:
        assert path == "/dev/shm"
        return SimpleNamespace(free=free_mib * 2**20)

    monkeypatch.setattr(shutil, "disk_usage", disk_usage)
    seen = check("/dev/shm")
    assert (seen.ok, seen.detail) == (ok, f"{free_mib} MiB free")
    assert "--shm-size" in seen.remedy


# ---- where the tritonserver is ------------------------------------------------------------------


def make_tritonserver(root: Path, *, backends: bool = True) -> Path:
    """Make what an installation looks like; returns its executable."""
    executable = root / "bin" / "tritonserver"
    executable.parent.mkdir(parents=True)
    executable.write_text("")
    if backends:
        (root / "backends" / "python").mkdir(parents=True)
    return executable


def test_the_one_that_is_set_is_taken(tmp_path: Path) -> None:
    """Before the wheel's, which is installed here."""
    executable = make_tritonserver(tmp_path / "opt")
    install = find_tritonserver(Settings(tritonserver=executable))
    assert install.executable == executable
    assert install.root == tmp_path / "opt"
    assert install.libraries is None
    assert check("tritonserver", Settings(tritonserver=executable)) == Check(
        "tritonserver", True, str(executable)
    )


def test_libraries_beside_it_are_found(tmp_path: Path) -> None:
    """As the wheel lays them out."""
    executable = make_tritonserver(tmp_path / "pytriton" / "tritonserver")
    (tmp_path / "nvidia_pytriton.libs").mkdir()
    install = find_tritonserver(Settings(tritonserver=executable))
    assert install.libraries == tmp_path / "nvidia_pytriton.libs"


def test_a_link_to_it_is_followed(tmp_path: Path) -> None:
    """Its backends are beside the file itself."""
    executable = make_tritonserver(tmp_path / "opt")
    link = tmp_path / "tritonserver"
    link.symlink_to(executable)
    assert find_tritonserver(Settings(tritonserver=link)).root == tmp_path / "opt"


def test_the_wheels_is_found_where_nothing_is_set() -> None:
    """With its Python backend and its libraries."""
    install = find_tritonserver(Settings(tritonserver=None))
    assert install.executable.is_file()
    assert (install.root / "backends" / "python").is_dir()
    if install.root != Path("/opt/tritonserver"):
        assert install.libraries is not None


@pytest.mark.parametrize("name", ["missing", "."], ids=["nothing there", "a folder"])
def test_a_path_that_is_no_executable_is_refused(tmp_path: Path, name: str) -> None:
    """The one in the wheel is not taken in its place."""
    settings = Settings(tritonserver=tmp_path / name)
    with pytest.raises(SetupError, match=r"TRITONSERVER: expected a tritonserver executable, got"):
        find_tritonserver(settings)
    seen = check("tritonserver", settings)
    assert (seen.ok, seen.detail) == (False, "none found")
    assert "TRITONSERVER" in seen.remedy


def test_an_executable_without_a_python_backend_is_refused(tmp_path: Path) -> None:
    """A Triton built without it cannot run our models."""
    executable = make_tritonserver(tmp_path, backends=False)
    with pytest.raises(SetupError, match=r"expected .*/backends/python beside"):
        find_tritonserver(Settings(tritonserver=executable))


def test_without_any_the_remedy_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither set, nor in /opt, nor installed."""
    monkeypatch.setattr(Path, "is_file", lambda path: False)
    monkeypatch.setattr(util, "find_spec", lambda name: None)
    with pytest.raises(SetupError, match="pip install nvidia-pytriton, or set TRITONSERVER"):
        find_tritonserver(Settings(tritonserver=None))
