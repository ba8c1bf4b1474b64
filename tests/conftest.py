"""What all tests share: which skips are allowed, packages' pictures, one real server for a run."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

from tests.builders import packaged, street_frames

if TYPE_CHECKING:
    from cropseek.rpc.server import RunningServer

# Every test that may be skipped, with the reason; any other skip fails the run.
ALLOWED_SKIPS: dict[str, str] = {
    "tests/export/test_embedder.py": "the exact bytes are promised for one torch version only",
}
_skipped: list[str] = []


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Give the slow folders time: they start servers."""
    for item in items:
        if "integration" in item.path.parts or "export" in item.path.parts:
            item.add_marker(pytest.mark.timeout(300))


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """Remember skips that nobody has allowed."""
    if report.skipped and report.nodeid.split("::")[0] not in ALLOWED_SKIPS:
        _skipped.append(report.nodeid)


def pytest_collectreport(report: pytest.CollectReport) -> None:
    """Remember files that were skipped as a whole."""
    if report.skipped and report.nodeid not in ALLOWED_SKIPS:
        _skipped.append(report.nodeid)


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Fail a run that skipped what it should have tested."""
    if _skipped and session.exitstatus == 0:
        session.exitstatus = pytest.ExitCode.TESTS_FAILED
        print(f"\nskipped without being listed in tests/conftest.py: {', '.join(_skipped)}")


@pytest.fixture(scope="session")
def photos() -> dict[str, bytes]:
    """Photographs with objects that scikit-image carries, encoded, by name."""
    names = ("astronaut.png", "chelsea.png", "coffee.png", "motorcycle_left.png")
    return {name: packaged("skimage", "data", name).read_bytes() for name in names}


@pytest.fixture(scope="session")
def frames() -> list[bytes]:
    """JPEGs of a street with people and bicycles."""
    return street_frames(count=12)


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    """A server that runs until the last test is done: Triton, the service, a catalog on disk."""
    from cropseek.rpc.server import running_server
    from cropseek.settings import Settings

    with running_server(Settings(data_dir=tmp_path_factory.mktemp("server"))) as running:
        yield running
