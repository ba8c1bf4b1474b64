"""Dims as Triton compares them: -1 is any size, and the batch dimension is not written."""

from __future__ import annotations

from collections.abc import Sequence

Dims = tuple[int, ...]


def fit(one: Sequence[int], other: Sequence[int]) -> bool:
    """Return whether two shapes can be the same: as many dims, each equal or one of them -1."""
    return len(one) == len(other) and all(
        a == b or -1 in (a, b) for a, b in zip(one, other, strict=True)
    )


def full(dims: Sequence[int], max_batch_size: int) -> Dims:
    """Return dims with the batch dimension in front if the model batches."""
    return (-1, *dims) if max_batch_size > 0 else tuple(dims)


def text(dims: Sequence[int]) -> str:
    """Return dims as config.pbtxt has them."""
    return f"[ {', '.join(map(str, dims))} ]" if dims else "[ ]"
