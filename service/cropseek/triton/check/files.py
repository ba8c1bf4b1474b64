"""Rules about what lies in a model's folder: versions, model files, labels, DALI's second file."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator

from cropseek.triton.check.findings import Finding
from cropseek.triton.check.model import Model
from cropseek.triton.check.repository import CONFIG, PROFILES
from cropseek.triton.check.text_file import Unreadable, text_of
from cropseek.triton.config import read_pbtxt

# What a backend loads from a version folder unless the configuration names another; any of them.
_DEFAULT_FILES: dict[str, tuple[str, ...]] = {
    "dali": ("model.dali", "dali.py"),
    "onnxruntime": ("model.onnx",),
    "openvino": ("model.xml",),
    "python": ("model.py",),
    "pytorch": ("model.pt",),
    "tensorrt": ("model.plan",),
    "vllm": ("model.json",),
}
_TENSORFLOW: dict[str, tuple[str, ...]] = {
    "tensorflow_graphdef": ("model.graphdef",),
    "tensorflow_savedmodel": ("model.savedmodel",),
}
_COMPLETED_FROM = frozenset(  # files by which the server knows the backend where nothing names it
    name for names in (*_DEFAULT_FILES.values(), *_TENSORFLOW.values()) for name in names
) - {"dali.py", "model.dali", "model.json"}


def config_findings(model: Model) -> Iterator[Finding]:
    """Yield what is wrong with where the configuration lies, and whether it says what runs it."""
    for version, names in model.versions.items():
        if CONFIG in names:
            yield model.finding(
                "R005", (), f"{CONFIG} in the version folder {version}/", "move it one folder up"
            )
    known_by_file = any(names & _COMPLETED_FROM for names in model.versions.values())
    if not model.is_readable or model.backend or known_by_file:
        return
    if model.config_file is None:
        yield model.finding("R003", (), f"no {CONFIG}, and no file that says what this model is")
    elif not model.faults:  # else what was not understood may have said it
        yield model.finding("M001", (), "neither backend nor platform is set", 'backend: "…"')


def version_findings(model: Model) -> Iterator[Finding]:
    """Yield what is wrong with the version folders and the files in them."""
    for name in model.ignored:
        yield model.finding(
            "V004", (), f"the folder {name!r} is no version and is ignored", "name it 1, 2, …"
        )
    policy = model.config.version_policy
    pinned = policy.specific.versions if policy is not None and policy.specific else ()
    for number, version in enumerate(pinned):
        if version not in model.versions:
            existing = ", ".join(map(str, sorted(model.versions))) or "none"
            yield model.finding(
                "V005" if model.served_versions else "V002",
                ("version_policy", "specific", "versions", number),
                f"version {version} has no folder",
                f"there are: {existing}",
            )
    if model.versions and not model.served_versions and not pinned:
        yield model.finding("V002", ("version_policy",), "version_policy serves no version")
    if not model.versions:
        yield model.finding(
            "V001",
            (),
            "no version folder",
            f"mkdir {model.folder / '1'}; git keeps it only with a file in it",
        )
    wanted = _model_files(model)
    for version in model.served_versions:
        if wanted and not any(_is_there(model, version, name) for name in wanted):
            there = ", ".join(_visible(model.versions[version])) or "nothing"
            yield model.finding(
                "V003",
                ("default_model_filename",)
                if model.config.default_model_filename
                else ("backend",),
                f"version {version} has no {' or '.join(wanted)}",
                f"put it into {version}/, which holds {there}",
            )


def _is_there(model: Model, version: int, name: str) -> bool:
    if model.backend == "python":  # a source is a file, where others' models may be folders
        return (model.folder / str(version) / name).is_file()
    return (model.folder / str(version) / name).exists()


def _visible(names: Iterable[str]) -> list[str]:
    return sorted(name for name in names if not name.startswith((".", "__")))


def _model_files(model: Model) -> tuple[str, ...]:
    """Return the files of which a version needs one; none if that is not known."""
    named = model.config.default_model_filename
    default = _TENSORFLOW.get(model.config.platform or "", _DEFAULT_FILES.get(model.backend, ()))
    if model.backend == "ensemble":
        return ()
    return (named,) if named else default


def label_findings(model: Model) -> Iterator[Finding]:
    """Yield label files that are not there."""
    for number, output in enumerate(model.config.output):
        name = (output.label_filename or "").lstrip("/")  # the server looks in the folder anyhow
        if name and not (model.folder / name).is_file():
            yield model.finding(
                "T009",
                ("output", number, "label_filename"),
                f"no file {output.label_filename} in the model's folder",
            )


def dali_findings(model: Model) -> Iterator[Finding]:
    """Yield what the DALI backend, which reads a file of its own, would find wrong."""
    file = model.config_file
    if model.backend != "dali" or file is None or file.parent.name != PROFILES:
        return
    root = model.folder / CONFIG
    wanted = model.config.max_batch_size or 0
    if not os.path.lexists(root):
        said = f"DALI reads max_batch_size from {CONFIG} beside {PROFILES}/, which is not there"
        remedy = f"add one with max_batch_size: {wanted}"
        yield model.finding("X001", ("max_batch_size",), said, remedy)
        return
    try:
        read, _ = read_pbtxt(text_of(root))
    except Unreadable as error:
        said = f"DALI reads max_batch_size from {CONFIG}, which {error}"
        yield model.finding("X001", ("max_batch_size",), said)
        return
    there = read.config.max_batch_size or 0
    if there != wanted:
        yield model.finding(
            "X001",
            ("max_batch_size",),
            f"max_batch_size is {wanted} here and {there} in {CONFIG}, which DALI reads",
            "make them equal",
        )
