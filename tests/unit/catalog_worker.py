"""The other process of the catalog's tests; its arguments: MODE DATA_DIR [NUMBER]."""

from __future__ import annotations

import json
import resource
import sys
from collections.abc import Callable
from itertools import count
from pathlib import Path

from cropseek.catalog import Catalog, ChangeReader
from cropseek.errors import StorageFailed
from cropseek.index import ExactIndex, Follower
from tests.unit.catalog_builders import FINGERPRINT, put, unit_rows

SOURCES = 7
MOST_REGIONS = 4


def say(answer: object) -> None:
    """Write one line that whoever started this process reads."""
    print(json.dumps(answer), flush=True)


def hold(data_dir: Path) -> None:
    """Own the directory until stdin ends."""
    with Catalog(data_dir):
        say("open")
        sys.stdin.read()


def write(data_dir: Path, first: int) -> None:
    """Put picture after picture, from number `first` on, and tell each that is acknowledged."""
    with Catalog(data_dir) as catalog:
        collection = catalog.create_collection("pictures", FINGERPRINT)
        for number in count(first):
            source, regions = f"s{number % SOURCES}", number % MOST_REGIONS
            ids, sequence = put(catalog, collection.id, source, regions, number)
            say({"number": number, "ids": ids, "sequence": sequence})


def fill(data_dir: Path, most_bytes: int) -> None:
    """Put pictures until no file may grow any more, then look whether it still reads."""
    with Catalog(data_dir) as catalog:
        collection = catalog.create_collection("pictures", FINGERPRINT)
        resource.setrlimit(resource.RLIMIT_FSIZE, (most_bytes, most_bytes))
        for number in count():
            try:
                say(put(catalog, collection.id, "", 3, number)[0])
            except StorageFailed as error:
                say(str(error))
                break
        say(catalog.collections()[0][1])


def search(data_dir: Path) -> None:
    """For each seed on stdin tell the nearest item of collection 1 to that seed's vector."""
    follower = Follower(ChangeReader(data_dir), ExactIndex)
    for seed in sys.stdin:
        follower.catch_up(1000)
        found = follower.search(1, unit_rows(1, int(seed)), 1, -1.0)
        say([found.item_ids.tolist(), follower.sequence])


MODES: dict[str, Callable[..., None]] = {
    "hold": hold,
    "write": write,
    "fill": fill,
    "search": search,
}

if __name__ == "__main__":
    mode, directory, *numbers = sys.argv[1:]
    MODES[mode](Path(directory), *map(int, numbers))
