"""Which fields of a configuration a server of some version does not know yet."""

from __future__ import annotations

from collections.abc import Iterator

from cropseek.triton.check.findings import Finding
from cropseek.triton.check.model import Model

OLDEST_KNOWN = (2, 51)  # whose own description of ModelConfig was read; it knows every other field
# From Triton's release notes.
_SINCE = {
    ("model_metrics",): (2, 52),
    ("ensemble_scheduling", "max_inflight_requests"): (2, 63),
}


def newer_findings(model: Model, triton_version: tuple[int, ...]) -> Iterator[Finding]:
    """Yield the fields that a server of this version refuses as unknown."""
    for path, since in _SINCE.items():
        if path in model.read.places and triton_version < since:
            yield model.finding(
                "S007",
                path,
                f"{path[-1]} is known since Triton {since[0]}.{since[1]}, "
                f"the server is {'.'.join(map(str, triton_version))}",
                "remove it, or use a newer server",
            )
