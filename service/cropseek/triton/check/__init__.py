"""The checker of model repositories: what a server would refuse, or would fail at later.

Only what the files show is reported: a model that leaves its tensors to the server's
auto-completion is not held to them, and files of unknown backends are not looked for.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from cropseek.triton.check.backend import backend_findings, ensemble_findings
from cropseek.triton.check.calls import call_findings, member_findings
from cropseek.triton.check.files import (
    config_findings,
    dali_findings,
    label_findings,
    version_findings,
)
from cropseek.triton.check.findings import Finding, Rule, Severity
from cropseek.triton.check.model import Model
from cropseek.triton.check.onnx import onnx_findings
from cropseek.triton.check.repository import Repository, profiles_of, read_repository
from cropseek.triton.check.rules import RULES
from cropseek.triton.check.scheduling import instance_findings, scheduling_findings
from cropseek.triton.check.suppression import is_suppressed, suppressions
from cropseek.triton.check.syntax import text_findings
from cropseek.triton.check.tensors import tensor_findings
from cropseek.triton.check.versions import newer_findings
from cropseek.triton.check.warmup import warmup_findings
from cropseek.triton.check.wiring import wiring_findings

__all__ = [
    "RULES",
    "Finding",
    "Options",
    "Repository",
    "Rule",
    "Severity",
    "check_repository",
    "profiles_of",
    "read_repository",
]


@dataclass(frozen=True)
class Options:
    """What is known of the machine and the server that the repository is for; None: nothing."""

    triton_version: tuple[int, ...] | None = None
    cores: int | None = None
    gpus: int | None = None


def check_repository(repository: Repository, options: Options | None = None) -> list[Finding]:
    """Return every finding about a repository that is not suppressed, in order of place.

    `# noqa: E009` at the end of a line suppresses a rule there, `# noqa-file: E009` in the file.
    """
    options = options or Options()
    findings = list(repository.findings)
    for model in repository.models.values():
        findings += _about(model, options)
        findings += wiring_findings(model, repository.models)
    findings += member_findings(repository.models)
    findings += call_findings(repository.models)
    suppressed = {model.file: suppressions(model.text) for model in repository.models.values()}
    kept = [f for f in findings if not is_suppressed(f, suppressed.get(f.file))]
    return sorted(kept, key=lambda f: (str(f.file), f.place, f.rule.code, f.message))


def _about(model: Model, options: Options) -> Iterator[Finding]:
    yield from text_findings(model)
    yield from config_findings(model)
    yield from backend_findings(model)
    yield from tensor_findings(model)
    yield from ensemble_findings(model)
    yield from scheduling_findings(model)
    yield from instance_findings(model, options.cores, options.gpus)
    yield from warmup_findings(model)
    yield from version_findings(model)
    yield from label_findings(model)
    yield from dali_findings(model)
    yield from onnx_findings(model)
    if options.triton_version is not None:
        yield from newer_findings(model, options.triton_version)
