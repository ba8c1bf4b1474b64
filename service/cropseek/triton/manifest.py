"""models.toml: which detector and embedder are served, from what, and their checksums."""

from __future__ import annotations

import hashlib
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cropseek.errors import ManifestError
from cropseek.types import Fingerprint

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib


@dataclass(frozen=True)
class DetectorManifest:
    """The served detector: its square input's side in pixels, and its class names by id."""

    name: str
    input_size: int
    labels: tuple[str, ...]


@dataclass(frozen=True)
class EmbedderManifest:
    """The served embedder: its square input's side in pixels, and what marks its vectors."""

    name: str
    input_size: int
    fingerprint: Fingerprint


@dataclass(frozen=True)
class Manifest:
    """What models.toml says, read and checked."""

    detector: DetectorManifest
    embedder: EmbedderManifest


def load_manifest(repository: Path) -> Manifest:
    """Read `models.toml` of a model repository and check every file it names.

    Raises `ManifestError` for a file that is missing, has another sha256, or whose labels are not
    as many as the detector's classes.
    """
    path = repository / "models.toml"
    try:
        tables = tomllib.loads(path.read_text(encoding="utf-8"))
        detector, embedder = tables["detector"], tables["embedder"]
        for table in (detector, embedder):
            _check_sha256(repository / table["file"], table["sha256"])
        _check_sha256(repository / detector["labels"], detector["labels_sha256"])
        return Manifest(_detector(repository, detector), _embedder(embedder))
    except OSError as error:
        raise ManifestError(f"{error.filename}: {error.strerror}; reinstall cropseek") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ManifestError(f"{path}: {error}") from None
    except (TypeError, AttributeError) as error:  # a value of another type
        raise ManifestError(
            f"{path}: expected what `python -m cropseek_export` writes: {error}"
        ) from None
    except KeyError as error:
        raise ManifestError(f"{path}: expected the key {error}, which is not there") from None


def _detector(repository: Path, table: dict[str, Any]) -> DetectorManifest:
    labels = tuple((repository / table["labels"]).read_text(encoding="utf-8").split("\n")[:-1])
    if len(labels) != table["num_classes"]:
        raise ManifestError(
            f"{table['labels']}: expected {table['num_classes']} class names, got {len(labels)}"
        )
    return DetectorManifest(table["name"], table["input_size"], labels)


def _embedder(table: dict[str, Any]) -> EmbedderManifest:
    fingerprint = Fingerprint(
        table["name"], table["dim"], table["source_sha256"], table["crop_recipe"]
    )
    return EmbedderManifest(table["name"], table["input_size"], fingerprint)


def _check_sha256(path: Path, expected: str) -> None:
    with path.open("rb") as file:
        actual = hashlib.sha256(file.read()).hexdigest()
    if actual != expected:
        raise ManifestError(
            f"{path}: expected sha256 {expected}, got {actual}; "
            "reinstall cropseek, or export the model again"
        )
