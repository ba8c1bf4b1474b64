"""A model repository as it lies on disk: folders, files and configurations, read once."""

from __future__ import annotations

import errno
import os
import stat
from collections import deque
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path

from cropseek.triton.check.findings import Finding
from cropseek.triton.check.rules import RULES
from cropseek.triton.check.source import Source
from cropseek.triton.codec import FieldPath
from cropseek.triton.config import ModelConfig, Read, read_pbtxt
from cropseek.triton.pbtxt import Fault, Kind, Place

CONFIG = "config.pbtxt"
PROFILES = "configs"
BLS_PARAMETER = "bls_models"  # which models a Python model calls: "a, b"
_MAX_TEXT_BYTES = 16 * 2**20
_MAX_FOLDERS_LOOKED_AT = 2000
_CODES = {
    Kind.SYNTAX: "S001",
    Kind.UNKNOWN_FIELD: "S002",
    Kind.VALUE: "S003",
    Kind.REPEATED: "S004",
    Kind.MAP_ENTRY: "S005",
}
_NO_CONFIG, _ = read_pbtxt("")


@dataclass(frozen=True)
class Model:
    """A model's folder: what lies in it, and its configuration as far as it was understood.

    `config_file` is None if there is none; `versions` has the names in each version folder;
    `ignored` are folders that look like versions and are none.
    """

    name: str
    folder: Path
    config_file: Path | None
    text: str
    read: Read
    versions: Mapping[int, frozenset[str]]
    ignored: tuple[str, ...] = ()
    faults: tuple[Fault, ...] = ()
    is_readable: bool = True  # whether the configuration, if there is one, is text

    @property
    def config(self) -> ModelConfig:
        """The configuration; empty if there is none."""
        return self.read.config

    @property
    def file(self) -> Path:
        """Where a finding about this model is shown."""
        return self.config_file or self.folder

    @cached_property
    def backend(self) -> str:
        """What runs it: "ensemble", a backend's name, or "" if nothing says so.

        A folder called `name.backend` says it too.
        """
        return backend_of(self.config) or self.name.rpartition(".")[2] * ("." in self.name)

    @cached_property
    def served_versions(self) -> tuple[int, ...]:
        """The versions that its policy serves, of those that exist."""
        policy = self.config.version_policy
        existing = sorted(self.versions)
        if policy is not None and policy.specific is not None:
            return tuple(v for v in existing if v in policy.specific.versions)
        if policy is not None and policy.all is not None:
            return tuple(existing)
        newest = (policy.latest.num_versions if policy and policy.latest else None) or 1
        return tuple(existing[-newest:])

    @cached_property
    def is_completed(self) -> bool:
        """Whether the server, or the model itself, completes what the configuration leaves out."""
        if self.config_file is None or not self.is_readable or self.backend in _SELF_DESCRIBING:
            return True
        return self.source.completes

    @cached_property
    def max_batch_size(self) -> int | None:
        """The batch size; None if it may be completed."""
        written = self.config.max_batch_size
        return None if written is None and self.is_completed else written or 0

    @cached_property
    def source(self) -> Source:
        """What the source of a Python model that is served shows; nothing for another model."""
        if self.backend != "python":
            return Source()
        for version in self.served_versions:
            file = self.folder / str(version) / (self.config.default_model_filename or "model.py")
            try:
                return Source.of(text_of(file))
            except (Unreadable, SyntaxError, ValueError, RecursionError):
                continue
        return Source()

    @cached_property
    def calls(self) -> tuple[str, ...]:
        """The models that it says it calls by BLS."""
        names = self.config.parameters.get(BLS_PARAMETER, "").split(",")
        return tuple(name.strip() for name in names if name.strip())

    @property
    def calls_models(self) -> bool:
        """Whether it calls other models: it says so, or its source makes requests."""
        return bool(self.calls) or self.source.makes_requests

    def finding(
        self,
        code: str,
        field_path: FieldPath,
        message: str,
        remedy: str = "",
        tensor: str | None = None,
    ) -> Finding:
        """Return a finding about a field of the configuration."""
        place = self.read.place(field_path)
        return Finding(
            RULES[code], self.name, self.file, place, message, remedy, field_path, tensor
        )


# Backends that complete a configuration from the model file, as their documentation says.
_SELF_DESCRIBING = ("onnxruntime", "tensorrt", "tensorflow", "openvino", "dali", "fil")
PLATFORM_BACKENDS = {
    "ensemble": "ensemble",
    "onnxruntime_onnx": "onnxruntime",
    "pytorch_libtorch": "pytorch",
    "tensorflow_graphdef": "tensorflow",
    "tensorflow_savedmodel": "tensorflow",
    "tensorrt_plan": "tensorrt",
}


def backend_of(config: ModelConfig) -> str:
    """Return what runs a model, by its `backend` or its `platform`; "" if neither is set."""
    if config.platform == "ensemble" or config.backend == "ensemble":
        return "ensemble"
    return config.backend or PLATFORM_BACKENDS.get(config.platform or "", config.platform or "")


@dataclass
class Repository:
    """Every model of a repository, under one profile, and what could not be read."""

    root: Path
    profile: str | None
    models: dict[str, Model] = field(default_factory=dict)
    findings: list[Finding] = field(default_factory=list)


def profiles_of(root: Path) -> list[str | None]:
    """Return the profiles that a repository has: None is the one of plain config.pbtxt files.

    A repository whose models have only `configs/` is served by profile alone.
    """
    named: set[str] = set()
    plain = True
    for folder in _model_folders(root, []):
        configs = [path for path in _listed(folder / PROFILES) if path.suffix == ".pbtxt"]
        named |= {path.stem for path in configs}
        plain = plain and (not configs or (folder / CONFIG).exists())
    found: list[str | None] = [*sorted(named)]
    return [None, *found] if plain else found


def read_repository(root: Path, profile: str | None = None) -> Repository:
    """Read a repository as a server with `--model-config-name=profile` would find it."""
    repository = Repository(root, profile)
    strays = []
    for folder in _model_folders(root, repository.findings):
        told = len(repository.findings)
        model = _read_model(folder, profile, repository.findings)
        if model is not None:
            repository.models[model.name] = model
        elif len(repository.findings) == told:
            strays.append(folder)
    if repository.models:
        repository.findings += [_stray(folder) for folder in strays]
    elif not repository.findings:
        repository.findings.append(_nothing_here(root))
    return repository


def _stray(folder: Path) -> Finding:
    said = "a folder that is no model: a server that loads every model refuses to start"
    return Finding(RULES["R006"], "", folder, Place(1, 1), said, "move it out of the repository")


def _nothing_here(root: Path) -> Finding:
    near = _nearby_repository(root)
    remedy = f"did you mean {near}?" if near else "each model is a folder with a config.pbtxt"
    return Finding(RULES["R001"], "", root, Place(1, 1), "no models in this folder", remedy)


def _nearby_repository(root: Path) -> Path | None:
    """Return the nearest repository further down, if there is one among the first folders."""
    waiting = deque([root])
    for _ in range(_MAX_FOLDERS_LOOKED_AT):
        if not waiting:
            return None
        folder = waiting.popleft()
        try:
            entries = sorted(os.scandir(folder), key=lambda entry: entry.name)
        except OSError:
            continue
        if any(entry.name == CONFIG for entry in entries):
            return folder.parent
        waiting.extend(folder / e.name for e in entries if e.is_dir(follow_symlinks=False))
    return None


def _listed(folder: Path) -> list[Path]:
    try:
        return sorted(folder.iterdir())
    except OSError:
        return []


def _model_folders(root: Path, findings: list[Finding]) -> list[Path]:
    try:
        entries = sorted(root.iterdir())
    except OSError as error:
        findings.append(_unreadable(root, "", Unreadable("R002", _reason(root, error))))
        return []
    folders = []
    for entry in entries:
        try:
            entry.stat()
            if entry.is_dir():
                folders.append(entry)
        except OSError as error:
            why = Unreadable("R002", _reason(entry, error))
            findings.append(_unreadable(entry, entry.name, why))
    return folders


def _unreadable(path: Path, model: str, error: Unreadable) -> Finding:
    return Finding(RULES[error.code], model, path, Place(1, 1), str(error))


def _read_model(folder: Path, profile: str | None, findings: list[Finding]) -> Model | None:
    """Return a model; None if the folder is none, or cannot be read, which is then noted."""
    try:
        entries = list(os.scandir(folder))
        versions, ignored = _versions(entries)
    except OSError as error:
        why = Unreadable("R002", _reason(folder, error))
        findings.append(_unreadable(folder, folder.name, why))
        return None
    candidates = _config_candidates(folder, profile)
    config_file = next((path for path in candidates if os.path.lexists(path)), None)
    names = {entry.name for entry in entries}
    if config_file is None and not versions and not names & {CONFIG, PROFILES}:
        return None  # a folder of something else
    model = Model(folder.name, folder, config_file, "", _NO_CONFIG, versions, ignored)
    if config_file is None:
        return model
    try:
        text = text_of(config_file)
    except Unreadable as error:
        findings.append(_unreadable(config_file, folder.name, error))
        return replace(model, is_readable=False)
    read, faults = read_pbtxt(text)
    return replace(model, text=text, read=read, faults=tuple(faults))


def _config_candidates(folder: Path, profile: str | None) -> list[Path]:
    named = [folder / PROFILES / f"{profile}.pbtxt"] if profile is not None else []
    return [*named, folder / CONFIG]


class Unreadable(Exception):
    """A file that is no text, or that the file system does not let be read; its rule and why."""

    def __init__(self, code: str, why: str) -> None:
        super().__init__(why)
        self.code = code


def text_of(path: Path) -> str:
    """Return the text of a configuration or a source; raises `Unreadable`. Never waits for a pipe.

    As bytes decoded, since Triton too takes a lone carriage return as it is.
    """
    try:
        status = path.stat()
        if not stat.S_ISREG(status.st_mode):
            raise Unreadable("S006", "expected a file of text, got something else")
        if status.st_size > _MAX_TEXT_BYTES:
            raise Unreadable("S006", f"expected text, got {status.st_size} bytes")
        raw = path.read_bytes()
    except OSError as error:
        raise Unreadable("R002", _reason(path, error)) from None
    try:
        text = raw.decode("utf-8")
    except UnicodeDecodeError as error:
        why = f"expected UTF-8 text, got byte 0x{raw[error.start]:02x} at {error.start}"
        raise Unreadable("S006", why) from None
    if "\0" in text:
        raise Unreadable("S006", f"expected text, got a zero byte at {text.index(chr(0))}")
    return text


def _reason(path: Path, error: OSError) -> str:
    reason = error.strerror or str(error)
    if error.errno == errno.ELOOP:
        reason = "a symbolic link that leads back to itself"
    elif path.is_symlink() and not path.exists():
        reason = "a symbolic link to nothing"
    return f"cannot be read: {reason}"


def _versions(
    entries: list[os.DirEntry[str]],
) -> tuple[dict[int, frozenset[str]], tuple[str, ...]]:
    versions: dict[int, frozenset[str]] = {}
    ignored = []
    for entry in entries:
        if not entry.name[:1].isdigit() or not entry.is_dir():
            continue
        name = entry.name
        if name.isdecimal() and name.isascii() and (name == "0" or not name.startswith("0")):
            versions[int(entry.name)] = frozenset(os.listdir(entry.path))
        else:
            ignored.append(entry.name)
    return versions, tuple(sorted(ignored))


def text_findings(model: Model) -> Iterator[Finding]:
    """Yield what is wrong with the text of a configuration."""
    for path, keys in model.read.map_keys.items():
        for key in sorted({key for key in keys if keys.count(key) > 1}):
            yield model.finding(
                "S008", (*path, str(key)), f"{path[-1]}: {key!r} stands twice", "remove one"
            )
    for fault in model.faults:
        yield Finding(
            RULES[_CODES[fault.kind]],
            model.name,
            model.file,
            fault.place,
            fault.message,
            fault.remedy,
        )
