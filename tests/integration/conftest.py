"""A client of the one real server that tests/conftest.py starts."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from cropseek.client import Client
from cropseek.rpc.server import RunningServer


@pytest.fixture(scope="session")
def client(server: RunningServer) -> Iterator[Client]:
    """A client of that server."""
    with Client(server.target) as connected:
        yield connected
