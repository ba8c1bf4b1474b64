"""Errors on their way to the client: one status code each, and never a traceback."""

from __future__ import annotations

import logging
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import grpc
import grpc.aio

from cropseek.errors import CropseekError

_log = logging.getLogger(__name__)
_OURS = "/cropseek.v1."
REASON_KEY = "cropseek-reason"  # trailing metadata: which of our errors it is


class ErrorInterceptor(grpc.aio.ServerInterceptor):
    """Ends a call that raised with the status of its error."""

    async def intercept_service(
        self,
        continuation: Callable[[grpc.HandlerCallDetails], Awaitable[Any]],
        handler_call_details: grpc.HandlerCallDetails,
    ) -> Any:
        """Wrap the handler of one of our methods."""
        handler = await continuation(handler_call_details)
        if handler is None or not handler_call_details.method.startswith(_OURS):
            return handler
        if handler.unary_unary is not None:
            return grpc.unary_unary_rpc_method_handler(
                _unary(handler.unary_unary),
                handler.request_deserializer,
                handler.response_serializer,
            )
        return grpc.stream_stream_rpc_method_handler(
            _stream(handler.stream_stream),
            handler.request_deserializer,
            handler.response_serializer,
        )


def public_error(error: Exception) -> CropseekError:
    """Return what a client may see of an error: itself, or for a fault of ours an id in the log."""
    if isinstance(error, CropseekError) and error.code != "INTERNAL":
        return error
    number = uuid.uuid4().hex[:12]
    _log.error("error %s", number, exc_info=error)
    return CropseekError(f"internal error {number}; the server's log says more")


def _unary(handler: Callable[[Any, Any], Awaitable[Any]]) -> Callable[[Any, Any], Awaitable[Any]]:
    async def guarded(request: Any, context: grpc.aio.ServicerContext[Any, Any]) -> Any:
        try:
            return await handler(request, context)
        except Exception as error:  # a bug too ends as a status with an id
            await _abort(context, error)

    return guarded


def _stream(
    handler: Callable[[Any, Any], AsyncIterator[Any]],
) -> Callable[[Any, Any], AsyncIterator[Any]]:
    async def guarded(
        requests: Any, context: grpc.aio.ServicerContext[Any, Any]
    ) -> AsyncIterator[Any]:
        try:
            async for answer in handler(requests, context):
                yield answer
        except Exception as error:  # a bug too ends as a status with an id
            await _abort(context, error)

    return guarded


async def _abort(context: grpc.aio.ServicerContext[Any, Any], error: Exception) -> None:
    if isinstance(error, grpc.aio.AbortError):
        raise error
    shown = public_error(error)
    reason = ((REASON_KEY, type(shown).__name__),)
    await context.abort(grpc.StatusCode[shown.code], str(shown), trailing_metadata=reason)
