"""The model repository that one running server reads: links to the packaged one, counts adapted."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from cropseek.errors import SetupError
from cropseek.triton.config import InstanceGroup, ModelConfig, backend_of, read_pbtxt

# What was tried is in docs/performance.md, "The thread plan".
PICTURES_PER_CORE = 2  # a BLS instance works on one picture, and waits for models most of the time
_INSTANCES_PER_CORE = {"image_search": PICTURES_PER_CORE, "detector": 1, "embedder": 1}
_OURS = {"onnxruntime": Path(__file__).parent / "backends" / "onnxruntime" / "model.py"}


def prepare_repository(source: Path, target: Path, profile: str, cores: int) -> None:
    """Make `target` the repository a server reads: `source` with the configurations of `profile`.

    Everything else is linked. In the profile `cpu` there are as many instances as suits `cores`; a
    GPU profile's counts are per GPU. Raises `SetupError` if a model has none for the profile, or
    one to adapt that cannot be read.
    """
    for model in sorted(path for path in source.iterdir() if _is_model(path)):
        (target / model.name / "configs").mkdir(parents=True)
        for part in model.iterdir():
            if part.name != "configs":
                (target / model.name / part.name).symlink_to(part.resolve())
        config = model / "configs" / f"{profile}.pbtxt"
        if not config.is_file():
            stems = (path.stem for path in config.parent.glob("*.pbtxt"))
            known = ", ".join(sorted(stems, key=lambda stem: (stem != "cpu", stem)))
            raise SetupError(
                f"profile: expected one of {known or '(none)'}, got {profile!r}: no {config}"
            )
        try:
            text = config.read_text(encoding="utf-8")
            if profile == "cpu" and model.name in _INSTANCES_PER_CORE:
                text = _with_instances(text, _INSTANCES_PER_CORE[model.name] * cores)
        except ValueError as error:  # no UTF-8, or no configuration
            raise SetupError(f"{config}: {error}; see `cropseek repo check`") from None
        (target / model.name / "configs" / config.name).write_text(text, encoding="utf-8")


def _is_model(path: Path) -> bool:
    return path.is_dir() and not path.name.startswith((".", "__"))  # .git, __pycache__


def require_backends(models: Path, profile: str, backends: Path) -> None:
    """Raise `SetupError` if `models` need a backend that is not among the folders of `backends`."""
    there = {path.name for path in backends.iterdir()} | {"ensemble", ""}
    missing = []
    for path in sorted(models.glob(f"*/configs/{profile}.pbtxt")):
        read, _ = read_pbtxt(path.read_text(encoding="utf-8"))  # its faults are Triton's to judge
        backend = backend_of(read.config)
        if backend not in there:
            missing.append(f"{path.parents[1].name} needs {backend}")
    if missing:
        known = ", ".join(sorted(there - {"ensemble", ""}))
        raise SetupError(
            f"profile {profile!r}: expected models for the backends {known}; {', '.join(missing)}"
        )


def _with_instances(text: str, count: int) -> str:
    config = ModelConfig.from_pbtxt(text)
    first, *others = config.instance_group or (InstanceGroup(),)
    groups = (replace(first, count=count), *others)
    return replace(config, instance_group=groups).to_pbtxt()


def prepare_backends(
    server_root: Path,
    python_version: str,
    target: Path,
    extra: Mapping[str, Path] | None = None,
) -> None:
    """Make `target` a backend directory: the server's Python backend with its stub, and ours.

    `server_root` holds `backends/python` and, in the wheel, `python_backend_stubs/<version>`.
    `extra` are more Python-based backends: the `model.py` of each, by its name.
    """
    python = target / "python"
    python.mkdir(parents=True)
    stub = server_root / "python_backend_stubs" / python_version / "triton_python_backend_stub"
    sources = [*(server_root / "backends" / "python").iterdir()]
    if stub.exists():
        sources = [path for path in sources if path.name != stub.name] + [stub]
    for path in sources:
        if path.is_file():  # copied: Triton refuses a library that a link leads out to
            shutil.copy2(path, python)
    for name, model in (_OURS | dict(extra or {})).items():
        (target / name).mkdir()
        (target / name / "model.py").symlink_to(model.resolve())
