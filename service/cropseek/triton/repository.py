"""The model repository that one running server reads: links to the packaged one, counts adapted."""

from __future__ import annotations

import shutil
from pathlib import Path

from google.protobuf import text_format
from tritonclient.grpc.model_config_pb2 import ModelConfig

from cropseek.errors import SetupError

# What was tried is in docs/performance.md, "The thread plan".
PICTURES_PER_CORE = 2  # a BLS instance works on one picture, and waits for models most of the time
_INSTANCES_PER_CORE = {"image_search": PICTURES_PER_CORE, "detector": 1, "embedder": 1}


def prepare_repository(source: Path, target: Path, profile: str, cores: int) -> None:
    """Make `target` the repository a server reads: `source` with instance counts for `cores`.

    Everything is linked; only the configurations of `profile` are written anew. Raises `SetupError`
    if a model has none for it.
    """
    for model in sorted(path for path in source.iterdir() if path.is_dir()):
        (target / model.name / "configs").mkdir(parents=True)
        for part in model.iterdir():
            if part.name != "configs":
                (target / model.name / part.name).symlink_to(part.resolve())
        config = model / "configs" / f"{profile}.pbtxt"
        if not config.is_file():
            known = ", ".join(sorted(path.stem for path in config.parent.glob("*.pbtxt")))
            raise SetupError(
                f"profile: expected one of {known or '(none)'}, got {profile!r}: no {config}"
            )
        text = config.read_text(encoding="utf-8")
        if model.name in _INSTANCES_PER_CORE:
            text = _with_instances(text, _INSTANCES_PER_CORE[model.name] * cores)
        (target / model.name / "configs" / config.name).write_text(text, encoding="utf-8")


def _with_instances(text: str, count: int) -> str:
    config = text_format.Parse(text, ModelConfig())
    config.instance_group[0].count = count
    return str(text_format.MessageToString(config))


def prepare_backends(server_root: Path, python_version: str, target: Path) -> None:
    """Make `target` a backend directory: the server's Python backend with its stub, and ours.

    `server_root` holds `backends/python` and, in the wheel, `python_backend_stubs/<version>`.
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
    ours = Path(__file__).parent / "backends" / "onnxruntime" / "model.py"
    (target / "onnxruntime").mkdir()
    (target / "onnxruntime" / "model.py").symlink_to(ours)
