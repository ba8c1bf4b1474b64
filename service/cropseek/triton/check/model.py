"""A model of a repository: what lies in its folder, and what its configuration says."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from cropseek.triton.check.findings import Finding
from cropseek.triton.check.rules import RULES
from cropseek.triton.check.source import Source
from cropseek.triton.check.text_file import Unreadable, text_of
from cropseek.triton.codec import FieldPath
from cropseek.triton.config import ModelConfig, Read, backend_of
from cropseek.triton.pbtxt import Fault

BLS_PARAMETER = "bls_models"  # which models a Python model calls: "a, b"
# Backends that complete a configuration from the model file, as their documentation says.
_SELF_DESCRIBING = ("onnxruntime", "tensorrt", "tensorflow", "openvino", "dali", "fil")


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
        _, dot, suffix = self.name.rpartition(".")
        return backend_of(self.config) or (suffix if dot else "")

    @cached_property
    def served_versions(self) -> tuple[int, ...]:
        """The versions that its policy serves, of those that exist."""
        policy = self.config.version_policy
        existing = sorted(self.versions)
        if policy is not None and policy.specific is not None:
            return tuple(v for v in existing if v in policy.specific.versions)
        if policy is not None and policy.all is not None:
            return tuple(existing)
        newest = (policy.latest.num_versions or 0) if policy and policy.latest else 1
        return tuple(existing[-newest:]) if newest else ()

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
