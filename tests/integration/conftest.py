"""One real server for the whole run: Triton from the wheel, the gRPC service, a catalog on disk."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from cropseek.client import Client
from cropseek.rpc.server import RunningServer, running_server
from cropseek.settings import Settings
from tests.builders import street_frames


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    """A server that runs until the last test is done."""
    data_dir = tmp_path_factory.mktemp("server")
    with running_server(Settings(data_dir=data_dir)) as running:
        yield running


@pytest.fixture(scope="session")
def client(server: RunningServer) -> Iterator[Client]:
    """A client of that server."""
    with Client(server.target) as connected:
        yield connected


@pytest.fixture(scope="session")
def frames() -> list[bytes]:
    """JPEGs of a street with people and bicycles."""
    return street_frames(count=12)
