"""A model repository as it lies on disk: which folders are models, read once."""

from __future__ import annotations

import os
from collections import deque
from dataclasses import dataclass, field, replace
from pathlib import Path

from cropseek.triton.check.findings import Finding
from cropseek.triton.check.model import Model
from cropseek.triton.check.rules import RULES
from cropseek.triton.check.text_file import Unreadable, text_of, why_unreadable
from cropseek.triton.config import read_pbtxt
from cropseek.triton.pbtxt import Place

CONFIG = "config.pbtxt"
PROFILES = "configs"
_MAX_FOLDERS_LOOKED_AT = 2000


_NO_CONFIG, _ = read_pbtxt("")


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
    return Finding(
        RULES["R006"], "", folder, Place(1, 1), said, "move it out, or give it config.pbtxt and 1/"
    )


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
        findings.append(_unreadable(root, "", Unreadable("R002", why_unreadable(root, error))))
        return []
    folders = []
    for entry in entries:
        try:
            entry.stat()
            if entry.is_dir():
                folders.append(entry)
        except OSError as error:
            why = Unreadable("R002", why_unreadable(entry, error))
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
        why = Unreadable("R002", why_unreadable(folder, error))
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
