"""The repository and the backends that a server reads, made from the packaged ones."""

from __future__ import annotations

import os
from contextlib import nullcontext
from pathlib import Path

import pytest
from google.protobuf import text_format
from tritonclient.grpc.model_config_pb2 import ModelConfig

from cropseek.errors import SetupError
from cropseek.triton.repository import (
    PICTURES_PER_CORE,
    prepare_backends,
    prepare_repository,
    require_backends,
)

REPOSITORY = Path(__file__).parents[2] / "model_repository"


def config(path: Path) -> ModelConfig:
    """Parse a configuration."""
    return text_format.Parse(path.read_text(encoding="utf-8"), ModelConfig())


@pytest.mark.parametrize("cores", [1, 2, 48])
def test_a_server_reads_the_packaged_models(tmp_path: Path, cores: int) -> None:
    """Linked, with the configurations of one profile; only instance counts follow the cores."""
    target = tmp_path / "run" / "models"
    prepare_repository(REPOSITORY, target, "cpu", cores)
    sources = {path.name: path for path in REPOSITORY.iterdir() if path.is_dir()}
    assert {path.name for path in target.iterdir()} == set(sources)
    for name, source in sources.items():
        made = target / name
        assert {path.name for path in made.iterdir()} == {path.name for path in source.iterdir()}
        assert (made / "1").is_symlink()
        assert (made / "1").resolve() == (source / "1").resolve()
        assert [path.name for path in (made / "configs").iterdir()] == ["cpu.pbtxt"]
        was, is_ = (config(path / "configs" / "cpu.pbtxt") for path in (source, made))
        for group_was, group_is in zip(was.instance_group, is_.instance_group, strict=True):
            counts = {"image_search": {PICTURES_PER_CORE * cores}, "vector_search": {1}}
            assert group_is.count in counts.get(name, {group_was.count, cores})
            group_was.count = group_is.count
        assert is_ == was


@pytest.mark.parametrize("group", ["instance_group [ { count: 4 } ]", ""])
def test_the_packaged_files_stay_as_they_are(tmp_path: Path, group: str) -> None:
    """They may be shared by several servers; one that says no count is given one all the same."""
    source = tmp_path / "source"
    folder = source / "image_search" / "configs"
    folder.mkdir(parents=True)
    text = f'name: "image_search"\n{group}\n'
    (folder / "cpu.pbtxt").write_text(text)
    (folder / "t4.pbtxt").write_text("")
    (source / "models.toml").write_text("")
    for stray in (".git", "__pycache__"):
        (source / stray).mkdir()
    prepare_repository(source, tmp_path / "target", "cpu", 3)
    assert (folder / "cpu.pbtxt").read_text() == text
    made = tmp_path / "target" / "image_search" / "configs" / "cpu.pbtxt"
    assert config(made).instance_group[0].count == 6
    assert [path.name for path in (tmp_path / "target").iterdir()] == ["image_search"]


@pytest.mark.parametrize("profile", ["t4", "a100", "h100"])
def test_a_gpu_profile_is_served_as_it_is(tmp_path: Path, profile: str) -> None:
    """Its instances are per GPU: the cores have no part in them."""
    prepare_repository(REPOSITORY, tmp_path, profile, 48)
    for made in tmp_path.iterdir():
        path = Path(made.name, "configs", f"{profile}.pbtxt")
        assert (tmp_path / path).read_text() == (REPOSITORY / path).read_text()


def test_links_hold_wherever_they_are_read_from(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also if the repository was given relative to where the server was started."""
    monkeypatch.chdir(REPOSITORY.parent)
    prepare_repository(Path("model_repository"), tmp_path / "models", "cpu", 1)
    monkeypatch.chdir(tmp_path)
    assert (tmp_path / "models" / "detector" / "1" / "model.onnx").is_file()


def test_a_profile_that_is_not_there_is_refused(tmp_path: Path) -> None:
    """By name, with those that are."""
    with pytest.raises(SetupError, match=r"profile: expected one of cpu.*, got 'abacus': no .*/"):
        prepare_repository(REPOSITORY, tmp_path / "models", "abacus", 1)


@pytest.mark.parametrize("profile", ["t4", "a100", "h100"])
def test_a_profile_for_backends_that_are_not_there_is_refused(tmp_path: Path, profile: str) -> None:
    """Before Triton says so, at length, of each model."""
    models, backends = tmp_path / "models", tmp_path / "backends"
    prepare_repository(REPOSITORY, models, profile, 1)
    for name in ("onnxruntime", "python"):
        (backends / name).mkdir(parents=True)
    wanted = (
        f"profile '{profile}': expected models for the backends onnxruntime, python; "
        "detector needs tensorrt, embedder needs tensorrt, preprocess needs dali"
    )
    with pytest.raises(SetupError, match=wanted):
        require_backends(models, profile, backends)
    for name in ("dali", "tensorrt"):
        (backends / name).mkdir(parents=True)
    require_backends(models, profile, backends)


@pytest.mark.parametrize(
    ("text", "refused"),
    [
        ('platform: "tensorrt_plan"', "m needs tensorrt"),
        ('backend: "openvino"', "m needs openvino"),
        ('platform: "onnxruntime_onnx"', None),
        ('platform: "ensemble"', None),
        ('backend: "python" no_such_field: 1', None),
        ("", None),
    ],
)
def test_a_backend_is_read_as_triton_reads_it(
    tmp_path: Path, text: str, refused: str | None
) -> None:
    """By platform too; what cannot be read, or says nothing, is Triton's to judge."""
    models, backends = tmp_path / "models", tmp_path / "backends"
    (models / "m" / "configs").mkdir(parents=True)
    (models / "m" / "configs" / "cpu.pbtxt").write_text(text)
    for name in ("onnxruntime", "python"):
        (backends / name).mkdir(parents=True)
    with pytest.raises(SetupError, match=refused) if refused else nullcontext():
        require_backends(models, "cpu", backends)


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (b'backend: "python"\nno_such_field: 1\n', "line 2: .*no_such_field"),
        (b'backend: "\xff"\n', "'utf-8' codec"),
    ],
)
def test_a_configuration_that_cannot_be_adapted_is_named(
    tmp_path: Path, body: bytes, message: str
) -> None:
    """With its place, and what tells more."""
    path = tmp_path / "source" / "detector" / "configs" / "cpu.pbtxt"
    path.parent.mkdir(parents=True)
    path.write_bytes(body)
    with pytest.raises(SetupError, match=rf"detector/configs/cpu.pbtxt: {message}.*repo check"):
        prepare_repository(tmp_path / "source", tmp_path / "target", "cpu", 1)


# ---- backends -----------------------------------------------------------------------------------


def make_server(root: Path, *, stub: bool) -> None:
    """Make a server's folders: its Python backend, and as in the wheel a stub for 3.11."""
    python = root / "backends" / "python"
    (python / "__pycache__").mkdir(parents=True)
    (python / "libtriton_python.so").write_text("library")
    (python / "triton_python_backend_utils.py").write_text("utils")
    (python / "triton_python_backend_stub").write_text("stub of the container's Python")
    if stub:
        folder = root / "python_backend_stubs" / "3.11"
        folder.mkdir(parents=True)
        (folder / "triton_python_backend_stub").write_text("stub for 3.11")
        (folder / "triton_python_backend_stub").chmod(0o755)


@pytest.mark.parametrize(
    ("stub", "version", "expected"),
    [
        (True, "3.11", "stub for 3.11"),
        (True, "3.12", "stub of the container's Python"),
        (False, "3.11", "stub of the container's Python"),
    ],
    ids=["the wheel", "a Python the wheel has none for", "the container"],
)
def test_the_python_backend_has_the_stub_of_this_python(
    tmp_path: Path, stub: bool, version: str, expected: str
) -> None:
    """Copied, since Triton refuses a library that a link leads out to."""
    make_server(tmp_path / "server", stub=stub)
    target = tmp_path / "run" / "backends"
    prepare_backends(tmp_path / "server", version, target)
    python = target / "python"
    assert {path.name: path.read_text() for path in python.iterdir()} == {
        "libtriton_python.so": "library",
        "triton_python_backend_utils.py": "utils",
        "triton_python_backend_stub": expected,
    }
    assert not any(path.is_symlink() for path in python.iterdir())
    if stub and version == "3.11":
        assert os.access(python / "triton_python_backend_stub", os.X_OK)


def test_the_onnxruntime_backend_is_ours(tmp_path: Path) -> None:
    """A Python-based backend: Triton looks for its `model.py`."""
    make_server(tmp_path / "server", stub=True)
    prepare_backends(tmp_path / "server", "3.11", tmp_path / "backends")
    model = tmp_path / "backends" / "onnxruntime" / "model.py"
    assert "class TritonPythonModel" in model.read_text(encoding="utf-8")


def test_other_python_based_backends_may_be_added(tmp_path: Path) -> None:
    """Beside ours, each by its name."""
    make_server(tmp_path / "server", stub=True)
    model = tmp_path / "model.py"
    model.write_text("another")
    prepare_backends(tmp_path / "server", "3.11", tmp_path / "backends", {"other": model})
    names = {path.name for path in (tmp_path / "backends").iterdir()}
    assert names == {"python", "onnxruntime", "other"}
    assert (tmp_path / "backends" / "other" / "model.py").read_text() == "another"
