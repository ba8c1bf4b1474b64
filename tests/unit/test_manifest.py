"""models.toml as the service reads it: every file checked before anything is served."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest

from cropseek.errors import ManifestError
from cropseek.triton.manifest import load_manifest
from cropseek.types import Fingerprint
from cropseek.vision.crop import CROP_RECIPE

REPOSITORY = Path(__file__).parents[2] / "model_repository"


def sha256(path: Path) -> str:
    """The digest of a file."""
    return hashlib.sha256(path.read_bytes()).hexdigest()


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """A small repository whose manifest is right."""
    for name, data in {
        "detector/1/model.onnx": b"a detector",
        "embedder/1/model.onnx": b"an embedder",
        "detector/labels.txt": "person\ncafé\nwine glass\n".encode(),
    }.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
    (tmp_path / "models.toml").write_text(
        f"""
        [detector]
        name = "d"
        file = "detector/1/model.onnx"
        sha256 = "{sha256(tmp_path / "detector/1/model.onnx")}"
        input_size = 640
        labels = "detector/labels.txt"
        labels_sha256 = "{sha256(tmp_path / "detector/labels.txt")}"
        num_classes = 3
        [embedder]
        name = "e"
        file = "embedder/1/model.onnx"
        sha256 = "{sha256(tmp_path / "embedder/1/model.onnx")}"
        source_sha256 = "{"ab" * 32}"
        input_size = 224
        dim = 7
        crop_recipe = "whole"
        """,
        encoding="utf-8",
    )
    return tmp_path


def edit(repository: Path, old: str, new: str) -> None:
    """Change the manifest's text."""
    path = repository / "models.toml"
    text = path.read_text(encoding="utf-8")
    assert old in text
    path.write_text(text.replace(old, new), encoding="utf-8")


def test_the_manifest_is_read(repository: Path) -> None:
    """Labels in their order, accents and spaces included."""
    manifest = load_manifest(repository)
    assert (manifest.detector.name, manifest.detector.input_size) == ("d", 640)
    assert manifest.detector.labels == ("person", "café", "wine glass")
    assert (manifest.embedder.name, manifest.embedder.input_size) == ("e", 224)
    assert manifest.embedder.fingerprint == Fingerprint("e", 7, "ab" * 32, "whole")


def test_the_served_manifest_is_right() -> None:
    """The files in the repository are those it names, cropped as this code crops."""
    manifest = load_manifest(REPOSITORY)
    assert len(manifest.detector.labels) == 80
    assert manifest.detector.labels[0] == "person"
    assert len(set(manifest.detector.labels)) == 80
    assert manifest.embedder.fingerprint.crop_recipe == CROP_RECIPE


@pytest.mark.parametrize(
    "name", ["models.toml", "detector/1/model.onnx", "embedder/1/model.onnx", "detector/labels.txt"]
)
def test_a_missing_file_is_named(repository: Path, name: str) -> None:
    """With what to do."""
    (repository / name).unlink()
    with pytest.raises(ManifestError, match=f"{name}: No such file or directory; reinstall"):
        load_manifest(repository)


@pytest.mark.parametrize(
    "name", ["detector/1/model.onnx", "embedder/1/model.onnx", "detector/labels.txt"]
)
@pytest.mark.parametrize("data", [b"", b"another file\n"], ids=["emptied", "exchanged"])
def test_another_file_is_refused(repository: Path, name: str, data: bytes) -> None:
    """By its digest: the message says which was expected and which came."""
    expected = sha256(repository / name)
    (repository / name).write_bytes(data)
    actual = hashlib.sha256(data).hexdigest()
    with pytest.raises(ManifestError, match=f"{name}: expected sha256 {expected}, got {actual}"):
        load_manifest(repository)


@pytest.mark.parametrize(
    ("num_classes", "text", "got"),
    [
        (80, "person\ncafé\nwine glass\n", 3),
        (2, "person\ncafé\nwine glass\n", 3),
        (3, "", 0),
        (3, "person\ncafé\nwine glass", 2),  # the last line has no end: it may be cut
    ],
    ids=["too few", "too many", "none", "cut"],
)
def test_labels_are_as_many_as_classes(
    repository: Path, num_classes: int, text: str, got: int
) -> None:
    """Or nothing starts: else a class would have no name, or another's."""
    labels = repository / "detector/labels.txt"
    before = sha256(labels)
    labels.write_text(text, encoding="utf-8")
    edit(repository, before, sha256(labels))
    edit(repository, "num_classes = 3", f"num_classes = {num_classes}")
    with pytest.raises(ManifestError, match=f"expected {num_classes} class names, got {got}"):
        load_manifest(repository)


@pytest.mark.parametrize(
    "line", ["[embedder]", "num_classes = 3", "dim = 7", 'labels = "detector/labels.txt"']
)
def test_a_missing_key_is_named(repository: Path, line: str) -> None:
    """And the file."""
    key = line.strip("[]").split(" ")[0]
    edit(repository, line, "[other]" if line.startswith("[") else "")
    with pytest.raises(ManifestError, match=rf"models.toml: expected the key '{key}'"):
        load_manifest(repository)


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"[detector\n",
        b'[detector]\nname = "\xe9"\n',
        b'detector = 3\nembedder = "a"\n',
        b'[detector]\nfile = 3\nsha256 = "a"\n[embedder]\n',
    ],
    ids=["empty", "not TOML", "not UTF-8", "no tables", "not a path"],
)
def test_a_broken_manifest_is_refused(repository: Path, data: bytes) -> None:
    """As a fault of the installation, not with a traceback."""
    (repository / "models.toml").write_bytes(data)
    with pytest.raises(ManifestError, match=r"models.toml: "):
        load_manifest(repository)
