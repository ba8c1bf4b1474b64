"""gRPC failures as cropseek errors whose message says what to do."""

from __future__ import annotations

import grpc

from cropseek.errors import (
    CropseekError,
    DeadlineExceeded,
    InvalidInput,
    NotReady,
    from_code,
)

# How gRPC itself words an UNAVAILABLE, as opposed to one that a cropseek server sent.
_NO_CONNECTION = (
    "failed to connect",
    "errors resolving",
    "dns resolution failed",
    "empty address list",
)
_LOST_CONNECTION = (
    "socket closed",
    "recvmsg",
    "sendmsg",
    "connection reset",
    "goaway",
    "cancelling",
)


_REASON_KEY = "cropseek-reason"


def to_cropseek_error(error: grpc.RpcError, target: str, timeout_s: float | None) -> CropseekError:
    """Return the error to raise for a failed call to `target`."""
    code = error.code().name
    details = error.details() or ""
    text = details.lower()
    if code == "UNAVAILABLE" and text.startswith(_NO_CONNECTION):
        return NotReady(
            f"no cropseek server at {target}; start one with `cropseek serve`, or use --local"
        )
    told_by_server = bool(_reason(error))  # it may tell of a connection of its own
    if code == "UNAVAILABLE" and not told_by_server and any(w in text for w in _LOST_CONNECTION):
        return NotReady(f"lost the connection to the server at {target}: {details}")
    if code == "UNIMPLEMENTED":
        return from_code(code, f"the server at {target} is not this version's cropseek: {details}")
    if code == "DEADLINE_EXCEEDED" and not told_by_server and "deadline exceeded" in text:
        return DeadlineExceeded(f"no answer from {target} within {timeout_s or 0:g} s")
    if code == "RESOURCE_EXHAUSTED" and "message larger than max" in text:
        return InvalidInput(
            f"{details}: ask for less, or raise max_message_bytes on the client and the server"
        )
    return from_code(code, details or f"the server at {target} answered {code}", _reason(error))


def _reason(error: grpc.RpcError) -> str:
    """Return the name of the server's error, empty if it told none."""
    metadata = error.trailing_metadata() or ()
    return next((str(entry.value) for entry in metadata if entry.key == _REASON_KEY), "")
