"""The service's way to Triton: one asynchronous client for `image_search`."""

from __future__ import annotations

import logging
from types import TracebackType
from typing import Any

import grpc
import numpy as np
import tritonclient.grpc as triton
import tritonclient.grpc.aio as triton_aio
from tritonclient.utils import InferenceServerException

from cropseek.errors import CropseekError, DeadlineExceeded, ModelFailed, NotReady, Overloaded
from cropseek.triton.wire import (
    BASE_OUTPUTS,
    EMBEDDING_OUTPUTS,
    NEIGHBOR_OUTPUTS,
    from_tensors,
    parse_error,
)
from cropseek.types import PictureOptions, PictureResult

MODEL = "image_search"
_DEAD_PROCESS = "is not healthy"  # "Stub process '…' is not healthy."
_NO_SHARED_MEMORY = "to increase the shared memory pool"  # "Failed … size for key '…' to 34 bytes."
_log = logging.getLogger(__name__)
_UNLIMITED = [("grpc.max_send_message_length", -1), ("grpc.max_receive_message_length", -1)]


class TritonClient:
    """Sends pictures to Triton's `image_search`; an asynchronous context manager."""

    def __init__(self, target: str) -> None:
        self._client = triton_aio.InferenceServerClient(target, channel_args=_UNLIMITED)
        self.broken = False  # a model's process has died: Triton says READY but serves no more

    async def __aenter__(self) -> TritonClient:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self._client.close()

    async def run(
        self, image: bytes, options: PictureOptions, *, embeddings: bool
    ) -> PictureResult:
        """Return what `image_search` finds in an encoded picture.

        `embeddings` asks for the vectors too. Raises the `CropseekError` of what went wrong.
        """
        outputs = list(BASE_OUTPUTS)
        if embeddings:
            outputs += EMBEDDING_OUTPUTS
        if options.collection_id is not None:
            outputs += NEIGHBOR_OUTPUTS
        try:
            response = await self._client.infer(
                MODEL,
                [image_input(image)],
                outputs=[triton.InferRequestedOutput(name) for name in outputs],
                parameters={"options": options.to_json()},
            )
        except InferenceServerException as error:
            if _DEAD_PROCESS in str(error.message()):
                self.broken = True
                raise NotReady("a model's process has died; the server must start again") from None
            raise as_cropseek_error(error) from None
        return from_tensors({name: response.as_numpy(name) for name in outputs})


def image_input(image: bytes) -> Any:
    """Return the IMAGE input `[1, n]` of an encoded picture."""
    tensor = triton.InferInput("IMAGE", [1, len(image)], "UINT8")
    tensor.set_data_from_numpy(np.frombuffer(image, np.uint8)[None])
    return tensor


def as_cropseek_error(error: InferenceServerException) -> CropseekError:
    """Return the error of cropseek's tree that a failed request to Triton is."""
    message = str(error.message())
    if _NO_SHARED_MEMORY in message:  # in ours too, where a model called by BLS had none
        _log.warning("%s", message)
        return Overloaded(
            "the server's shared memory is full: send fewer or smaller pictures at once, "
            "or give /dev/shm more (Docker: --shm-size)"
        )
    ours = parse_error(message)
    if ours is not None:
        return ours
    code = str(error.status()).removeprefix("StatusCode.")
    if code == grpc.StatusCode.UNAVAILABLE.name:
        return NotReady(f"Triton does not answer: {message}")
    if code in (grpc.StatusCode.DEADLINE_EXCEEDED.name, grpc.StatusCode.CANCELLED.name):
        return DeadlineExceeded("the time given was over before the answer was there")
    return ModelFailed(message)
