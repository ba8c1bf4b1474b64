"""Every error cropseek raises on purpose, and what each is over gRPC.

    CropseekError
    ├── InvalidInput            INVALID_ARGUMENT     the caller's item is wrong; says which and how
    │   └── InvalidImage        INVALID_ARGUMENT     its bytes are not a picture we can read
    ├── CollectionNotFound      NOT_FOUND
    ├── EmbedderMismatch        FAILED_PRECONDITION  a collection made by another embedder
    ├── Overloaded              RESOURCE_EXHAUSTED   more in work than the server can hold
    ├── StorageFailed           RESOURCE_EXHAUSTED   the catalog's disk is full or broken
    ├── NotReady                UNAVAILABLE          starting, stopping, or Triton does not answer
    ├── DeadlineExceeded        DEADLINE_EXCEEDED
    ├── ModelFailed             INTERNAL             a model broke; details are in the log only
    └── SetupError              FAILED_PRECONDITION  this machine lacks something; says the remedy
        ├── ManifestError       FAILED_PRECONDITION  a model file is not the one its manifest names
        └── DataDirInUse        FAILED_PRECONDITION  another process owns the data directory

Anything else that escapes is a bug: it reaches a client as INTERNAL with an id to look for in the
log, never with its text.
"""

from __future__ import annotations


class CropseekError(Exception):
    """The root of the tree; `code` is the name of its gRPC status code.

    `message` is one line; `details` are lines that say more, as the end of a log.
    """

    code = "INTERNAL"

    def __init__(self, message: str = "", details: str = "") -> None:
        super().__init__(f"{message}\n{details}" if details else message)
        self.message = message
        self.details = details


class InvalidInput(CropseekError):
    """An argument is wrong: the message names the field, what was expected and what came."""

    code = "INVALID_ARGUMENT"


class InvalidImage(InvalidInput):
    """Bytes that are not a picture cropseek can read in full."""


class CollectionNotFound(CropseekError):
    """A collection nobody has created."""

    code = "NOT_FOUND"


class EmbedderMismatch(CropseekError):
    """A collection's vectors come from another embedder than the one being served."""

    code = "FAILED_PRECONDITION"


class Overloaded(CropseekError):
    """The server holds as much as it admits or has memory for; the same may pass later."""

    code = "RESOURCE_EXHAUSTED"


class StorageFailed(CropseekError):
    """The catalog could not write to its disk; nothing of the write is kept."""

    code = "RESOURCE_EXHAUSTED"


class NotReady(CropseekError):
    """The server, or Triton behind it, does not answer yet or any more."""

    code = "UNAVAILABLE"


class DeadlineExceeded(CropseekError):
    """The time the caller gave was over before the answer was there."""

    code = "DEADLINE_EXCEEDED"


class ModelFailed(CropseekError):
    """A model failed on an input that was valid."""

    code = "INTERNAL"


class SetupError(CropseekError):
    """This machine lacks something cropseek needs; the message says how to get it."""

    code = "FAILED_PRECONDITION"


class ManifestError(SetupError):
    """A model file differs from what models.toml says of it."""


class DataDirInUse(SetupError):
    """Another cropseek process owns this data directory."""


def all_errors() -> list[type[CropseekError]]:
    """Return every class of the tree, the root first."""
    found: list[type[CropseekError]] = [CropseekError]
    for cls in found:
        found.extend(cls.__subclasses__())
    return found


def from_code(code: str, message: str, reason: str = "") -> CropseekError:
    """Return the error that stands for a gRPC status code name, for clients of the service.

    `reason` is the name of its class, if the server told it; several classes share a code.
    Without one the first class of the tree with that code is taken; a code of no class is a plain
    `CropseekError` that keeps the code.
    """
    alike = [cls for cls in all_errors()[1:] if cls.code == code]
    cls = next((c for c in alike if c.__name__ == reason), alike[0] if alike else None)
    error = (cls or CropseekError)(message)
    error.code = code
    return error
