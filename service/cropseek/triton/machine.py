"""What a machine must have before Triton's Python stub can run on it, checked before it starts.

Each trap here fails late and silently or late and cryptically otherwise: with NumPy 2 the stub of
Triton 2.51 reads inputs as zeros; without a shared libpython it dies before it can log.
"""

from __future__ import annotations

import platform
import shutil
import sys
import sysconfig
from dataclasses import dataclass
from importlib import metadata, util
from pathlib import Path

from cropseek.errors import SetupError
from cropseek.settings import Settings

_MIN_SHM_BYTES = 256 * 2**20
_PYTHONS = ((3, 10), (3, 12))
_MIN_GLIBC = (2, 35)


@dataclass(frozen=True)
class Check:
    """One thing looked at: whether it is as needed, what was seen, and what to do if not."""

    name: str
    ok: bool
    detail: str
    remedy: str = ""


@dataclass(frozen=True)
class TritonInstall:
    """A tritonserver: its executable, its root (with `backends/`), its own libraries or None."""

    executable: Path
    root: Path
    libraries: Path | None


def check_machine(settings: Settings | None = None) -> list[Check]:
    """Look at everything the server needs of this machine."""
    settings = settings or Settings()
    return [
        _check_system(),
        _check_python(),
        _check_numpy(),
        _check_libpython(),
        _check_package(),
        _check_tritonserver(settings),
        _check_shm(),
    ]


def require(checks: list[Check]) -> None:
    """Raise `SetupError` with every remedy if a check failed."""
    failed = [check for check in checks if not check.ok]
    if failed:
        raise SetupError("; ".join(f"{c.name}: {c.detail}; {c.remedy}" for c in failed))


def _check_system() -> Check:
    system, machine = platform.system(), platform.machine()
    libc, version = platform.libc_ver()
    numbers = tuple(int(part) for part in version.split(".")[:2] if part.isdigit())
    ok = (system, machine, libc) == ("Linux", "x86_64", "glibc") and numbers >= _MIN_GLIBC
    return Check(
        "system",
        ok,
        f"{system} {machine}, {libc or 'no glibc'} {version}".rstrip(),
        "the server's wheel needs Linux x86-64 with glibc 2.35 or newer; "
        "elsewhere use the Dockerfile's cpu target",
    )


def _check_python() -> Check:
    return Check(
        "python",
        _PYTHONS[0] <= sys.version_info[:2] <= _PYTHONS[1],
        platform.python_version(),
        "use Python 3.10, 3.11 or 3.12",
    )


def _check_numpy() -> Check:
    version = metadata.version("numpy")
    return Check(
        "numpy",
        int(version.split(".")[0]) < 2,
        version,
        "Triton 2.51's Python stub is silently wrong with NumPy 2: pip install 'numpy<2'",
    )


def _check_libpython() -> Check:
    found = libpython()
    name = f"libpython{sys.version_info[0]}.{sys.version_info[1]}"
    return Check(
        "libpython",
        found is not None,
        str(found or f"no shared {name}"),
        f"apt-get install {name}, or build Python with --enable-shared",
    )


def libpython() -> Path | None:
    """Return the shared libpython of the running Python, which the stub loads."""
    name = f"libpython{sys.version_info[0]}.{sys.version_info[1]}.so.1.0"
    folders = [
        sysconfig.get_config_var("LIBDIR"),
        str(Path(sys.base_prefix) / "lib"),
        f"/usr/lib/{platform.machine()}-linux-gnu",
        "/usr/lib",
        "/usr/local/lib",
    ]
    paths = (Path(folder) / name for folder in folders if folder)
    return next((path for path in paths if path.exists()), None)


def _check_package() -> Check:
    """The stub starts the `python3` of a bin folder and imports cropseek from its packages."""
    python = Path(sys.prefix) / "bin" / "python3"
    try:
        detail = f"cropseek {metadata.version('cropseek')} in {sys.prefix}"
        installed = python.exists()
    except metadata.PackageNotFoundError:
        detail, installed = "cropseek is not installed", False
    return Check("package", installed, detail, "pip install cropseek, in a virtual environment")


def _check_tritonserver(settings: Settings) -> Check:
    try:
        return Check("tritonserver", True, str(find_tritonserver(settings).executable))
    except SetupError as error:
        return Check("tritonserver", False, "none found", str(error))


def _check_shm() -> Check:
    free = shutil.disk_usage("/dev/shm").free
    return Check(
        "/dev/shm",
        free >= _MIN_SHM_BYTES,
        f"{free // 2**20} MiB free",
        f"the models need {_MIN_SHM_BYTES // 2**20} MiB; with Docker: --shm-size=1g",
    )


def find_tritonserver(settings: Settings) -> TritonInstall:
    """Find a tritonserver: the one set, the one in /opt/tritonserver, or the wheel's.

    Raises `SetupError` if there is none.
    """
    if settings.tritonserver is not None:
        path = settings.tritonserver
        if not path.is_file():
            raise SetupError(f"TRITONSERVER: expected a tritonserver executable, got {path}")
        return _install(path)
    container = Path("/opt/tritonserver/bin/tritonserver")
    if container.is_file():
        return _install(container)
    spec = util.find_spec("pytriton")
    if spec is None or spec.origin is None:
        raise SetupError("pip install nvidia-pytriton, or set TRITONSERVER to the executable")
    return _install(Path(spec.origin).parent / "tritonserver" / "bin" / "tritonserver")


def _install(executable: Path) -> TritonInstall:
    root = executable.resolve().parent.parent
    if not (root / "backends" / "python").is_dir():
        raise SetupError(
            f"TRITONSERVER: expected {root}/backends/python beside {executable}, which is not there"
        )
    wheels = root.parent.parent / "nvidia_pytriton.libs"
    return TritonInstall(executable, root, wheels if wheels.is_dir() else None)
