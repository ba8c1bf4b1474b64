"""The server a command talks to: one that runs, or an embedded one for the command's length."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cropseek.cli.failures import working
from cropseek.errors import InvalidInput, NotReady

if TYPE_CHECKING:
    from cropseek.client import Client
    from cropseek.settings import Settings


@dataclass(frozen=True)
class Where:
    """Which server: `target`, or where that is None an embedded one.

    Its data are in `data_dir`, or where the settings say if that is None.
    """

    target: str | None
    data_dir: Path | None


@contextmanager
def connected(where: Where) -> Iterator[Client]:
    """Yield a client of a server that is ready; raises `NotReady` or `SetupError`."""
    from cropseek.client import Client

    with ExitStack() as stack:
        target = where.target
        if target is None:
            from cropseek.rpc.server import running_server

            with working("starting an embedded server …"):
                settings = make_settings(data_dir=where.data_dir)
                target = stack.enter_context(running_server(settings)).target
        client = stack.enter_context(Client(target))
        if (status := client.health()) != "SERVING":
            raise NotReady(f"the server at {target} is not ready: {status}")
        yield client


def make_settings(**given: Any) -> Settings:
    """Return the settings, the environment's where None is given; raises `InvalidInput`."""
    from pydantic import ValidationError

    from cropseek.settings import Settings

    try:
        return Settings(**{name: value for name, value in given.items() if value is not None})
    except ValidationError as error:
        first = error.errors()[0]
        name = "_".join(str(part) for part in first["loc"])
        raise InvalidInput(f"setting {name}: {first['msg']}, got {first['input']!r}") from None
