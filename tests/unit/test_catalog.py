from __future__ import annotations

import json
import os
import random
import signal
import sqlite3
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from cropseek.catalog import Catalog, Change, ChangeReader, NewItem
from cropseek.errors import (
    CollectionNotFound,
    DataDirInUse,
    EmbedderMismatch,
    InvalidInput,
    ModelFailed,
    SetupError,
)
from cropseek.index import ExactIndex, Follower
from cropseek.types import Fingerprint, Item
from tests.unit.catalog_builders import DIM, FINGERPRINT, put, regions, unit_rows
from tests.unit.catalog_worker import MOST_REGIONS, SOURCES

ROOT = Path(__file__).parents[2]
ALL = 10**9


@pytest.fixture
def catalog(tmp_path: Path) -> Iterator[Catalog]:
    with Catalog(tmp_path) as opened:
        yield opened


@pytest.fixture
def collection_id(catalog: Catalog) -> int:
    return catalog.create_collection("pictures", FINGERPRINT).id


@contextmanager
def worker(mode: str, *arguments: object) -> Iterator[subprocess.Popen[str]]:
    """Run the other process; it is dead at the end."""
    with subprocess.Popen(
        [sys.executable, "-m", "tests.unit.catalog_worker", mode, *map(str, arguments)],
        cwd=ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        try:
            yield process
        finally:
            process.kill()


def hear(process: subprocess.Popen[str]) -> Any:
    assert process.stdout is not None
    line = process.stdout.readline()
    assert line, "the other process has died"
    return json.loads(line)


def changes_in(data_dir: Path) -> list[Change]:
    reader = ChangeReader(data_dir)
    try:
        return reader.changes(0, ALL)
    finally:
        reader.close()


# Collections


def test_no_collection(catalog: Catalog) -> None:
    assert catalog.collections() == []
    assert catalog.head() == 0
    with pytest.raises(CollectionNotFound, match="'shoes'; none has been created yet"):
        catalog.collection("shoes")


def test_create_collection_twice_is_once(catalog: Catalog) -> None:
    made = catalog.create_collection("shoes", FINGERPRINT)
    assert catalog.create_collection("shoes", FINGERPRINT) == made == catalog.collection("shoes")
    assert catalog.collections() == [(made, 0)]


@pytest.mark.parametrize(
    ("other", "told"),
    [
        (Fingerprint("tiny", 16, "ab" * 32, "square-v1"), "dim 16"),
        (Fingerprint("other", DIM, "ab" * 32, "square-v1"), "other"),
        (Fingerprint("tiny", DIM, "cd" * 32, "square-v1"), "cdcdcdcdcdcd"),  # same name, trained on
        (Fingerprint("tiny", DIM, "ab" * 32, "square-v2"), "square-v2"),
    ],
)
def test_another_embedder_is_refused(catalog: Catalog, other: Fingerprint, told: str) -> None:
    made = catalog.create_collection("shoes", FINGERPRINT)
    with pytest.raises(EmbedderMismatch) as caught:
        catalog.create_collection("shoes", other)
    assert "'shoes' holds vectors of tiny (dim 8, source abababababab, crops square-v1)" in str(
        caught.value
    )
    assert told in str(caught.value)
    assert catalog.collections() == [(made, 0)]


@pytest.mark.parametrize("name", ["a", "A.b-c_9", "x" * 64, "..."])
def test_names_that_are_one(catalog: Catalog, name: str) -> None:
    assert catalog.create_collection(name, FINGERPRINT).name == name


@pytest.mark.parametrize("name", ["", " ", "a b", "a/b", "ü", "a\n", "x" * 65, "x" * 10**6, "a\0"])
def test_names_that_are_none(catalog: Catalog, name: str) -> None:
    with pytest.raises(InvalidInput, match=r"^collection: expected a name of 1 to 64") as caught:
        catalog.create_collection(name, FINGERPRINT)
    assert len(str(caught.value)) < 300
    with pytest.raises(CollectionNotFound):
        catalog.collection(name)


def test_not_found_tells_a_few_that_exist(catalog: Catalog) -> None:
    for number in range(8):
        catalog.create_collection(f"c{number}", FINGERPRINT)
    with pytest.raises(CollectionNotFound, match=r"'x'; there are: c0, c1, c2, c3, c4 and 3 more$"):
        catalog.collection("x")


# Items


def test_put_and_read_back(catalog: Catalog, collection_id: int) -> None:
    stored = [NewItem((0.5, 1, 2, 3), 0.25, "cat"), NewItem((4, 5, 6, 7), 1, "")]
    metadata = {"shop": "Zürich", "": "\0 and 'quotes'"}
    ids, sequence = catalog.put_image(
        collection_id, "a.mp4", 1.5, stored, unit_rows(2, 0), metadata
    )
    assert sequence == catalog.head() == 2
    assert catalog.items(ids) == {
        ids[0]: Item(ids[0], "a.mp4", 1.5, (0.5, 1, 2, 3), 0.25, "cat", metadata),
        ids[1]: Item(ids[1], "a.mp4", 1.5, (4, 5, 6, 7), 1, "", metadata),
    }


def test_numbers_of_numpy_are_stored(catalog: Catalog, collection_id: int) -> None:
    box = np.array([1.5, 2, 3, 4], dtype=np.float32)
    x1, y1, x2, y2 = box
    new = NewItem((x1, y1, x2, y2), 0.5, "cat")
    ids, _ = catalog.put_image(collection_id, "a", None, [new], unit_rows(1, 0), {})
    assert catalog.items(np.array(ids))[ids[0]].box_xyxy == (1.5, 2, 3, 4)


@pytest.mark.parametrize("count", [0, 1, 499, 500, 501, 40_000])
def test_many_ids(catalog: Catalog, collection_id: int, count: int) -> None:
    ids, _ = put(catalog, collection_id, "", 600, 0)
    wanted = [number - 5 for number in range(count)]  # the first and the last do not exist
    assert sorted(catalog.items(wanted * 2)) == sorted(set(wanted) & set(ids))


@pytest.mark.parametrize(
    ("source", "time_s", "again"),
    [
        ("a.jpg", None, True),
        ("a.mp4", 0.0, True),
        ("a.mp4", 1.5, True),
        ("", None, False),  # without a source a picture is always new
        ("", 1.5, False),
    ],
)
def test_a_source_again_replaces_its_items(
    catalog: Catalog, collection_id: int, source: str, time_s: float | None, again: bool
) -> None:
    first, _ = catalog.put_image(collection_id, source, time_s, regions(2), unit_rows(2, 0), {})
    second, sequence = catalog.put_image(
        collection_id, source, time_s, regions(3), unit_rows(3, 1), {}
    )
    assert not set(first) & set(second)
    left = second if again else first + second
    assert sorted(catalog.items(first + second)) == left
    assert sequence == (7 if again else 5)
    assert catalog.collections()[0][1] == len(left)


def test_other_pictures_are_left_alone(catalog: Catalog, collection_id: int) -> None:
    other = catalog.create_collection("other", FINGERPRINT).id
    kept: list[int] = []
    for where, source, time_s in [
        (collection_id, "a", 1.0),
        (collection_id, "a", 2.0),
        (collection_id, "A", None),
        (other, "a", None),
    ]:
        ids, _ = catalog.put_image(where, source, time_s, regions(1), unit_rows(1, 0), {})
        kept += ids
    replaced, _ = put(catalog, collection_id, "a", 1, 0)
    put(catalog, collection_id, "a", 1, 0)
    assert sorted(catalog.items(kept + replaced)) == kept


def test_no_regions(catalog: Catalog, collection_id: int) -> None:
    assert put(catalog, collection_id, "a", 0, 0) == ([], 0)
    ids, _ = put(catalog, collection_id, "a", 2, 0)
    none = np.empty((0, 0), dtype=np.float32)
    assert catalog.put_image(collection_id, "", None, [], none, {}) == ([], 2)
    assert catalog.put_image(collection_id, "a", None, [], none, {}) == ([], 4)  # two deletes
    assert catalog.items(ids) == {}


def test_ids_and_numbers_are_never_given_again(catalog: Catalog, collection_id: int) -> None:
    seen: list[int] = []
    for seed in range(5):  # each time the newest items are deleted
        ids, _ = put(catalog, collection_id, "a", 3, seed)
        seen += ids
    assert len(set(seen)) == 15
    assert catalog.head() == 15 + 12
    assert sorted(catalog.items(seen)) == seen[-3:]


@pytest.mark.parametrize(
    ("vectors", "error", "told"),
    [
        (unit_rows(2, 0, dim=16), EmbedderMismatch, r"expected \[n, 8\].*got \[2, 16\]"),
        (unit_rows(2, 0).ravel()[:2], EmbedderMismatch, r"got \[2\]"),
        (unit_rows(3, 0), ValueError, "expected 2, got 3"),
        (unit_rows(2, 0) * np.float32(2), ModelFailed, "length 2, not 1"),
        (np.full((2, DIM), np.nan, dtype=np.float32), ModelFailed, "length nan"),
        (np.zeros((2, DIM), dtype=np.float32), ModelFailed, "length 0"),
    ],
)
def test_wrong_vectors_change_nothing(
    catalog: Catalog, collection_id: int, vectors: Any, error: type[Exception], told: str
) -> None:
    ids, sequence = put(catalog, collection_id, "a", 1, 0)
    with pytest.raises(error, match=told):
        catalog.put_image(collection_id, "a", None, regions(2), vectors, {})
    assert list(catalog.items(ids)) == ids
    assert catalog.head() == sequence
    assert put(catalog, collection_id, "b", 1, 0)[1] == sequence + 1


@pytest.mark.parametrize("time_s", [float("nan"), float("inf")])
def test_endless_time_is_refused(catalog: Catalog, collection_id: int, time_s: float) -> None:
    with pytest.raises(InvalidInput, match=r"^time_s: expected a finite number"):
        catalog.put_image(collection_id, "a", time_s, [], unit_rows(0, 0), {})


def test_put_into_no_collection(catalog: Catalog) -> None:
    with pytest.raises(CollectionNotFound, match="id 7"):
        put(catalog, 7, "a", 1, 0)


def test_a_failure_half_way_changes_nothing(catalog: Catalog, collection_id: int) -> None:
    ids, sequence = put(catalog, collection_id, "a", 2, 0)
    bad = [*regions(1), NewItem((0, 0, float("nan"), 1), 0.5, "")]
    with pytest.raises(sqlite3.IntegrityError):
        catalog.put_image(collection_id, "a", None, bad, unit_rows(2, 1), {})
    assert sorted(catalog.items(range(100))) == ids
    assert catalog.head() == sequence


def test_writers_and_readers_at_once(catalog: Catalog, collection_id: int, tmp_path: Path) -> None:
    acknowledged: list[int] = []
    failures: list[Exception] = []

    def work(number: int) -> None:
        try:
            for turn in range(25):
                ids, sequence = put(catalog, collection_id, f"{number}/{turn}", 2, turn)
                assert sorted(catalog.items(ids)) == ids
                assert catalog.head() >= sequence
                acknowledged.extend(ids)
        except Exception as error:
            failures.append(error)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []
    assert len(set(acknowledged)) == 4 * 25 * 2
    assert [change.seq for change in changes_in(tmp_path)] == list(range(1, 201))


# The change log


def test_reader_waits_for_a_catalog(tmp_path: Path) -> None:
    reader = ChangeReader(tmp_path / "later")
    for _ in range(2):
        assert (reader.data_version(), reader.head(), reader.changes(0, 10)) == (None, 0, [])
    (tmp_path / "later").mkdir()
    (tmp_path / "later" / "catalog.sqlite3").touch()  # a catalog that is just being made
    assert (reader.data_version(), reader.head(), reader.changes(0, 10)) == (None, 0, [])
    with Catalog(tmp_path / "later") as catalog:
        empty = reader.data_version()
        assert empty is not None
        assert (reader.head(), reader.changes(0, 10)) == (0, [])
        put(catalog, catalog.create_collection("a", FINGERPRINT).id, "", 1, 0)
        assert reader.data_version() != empty
        assert reader.head() == len(reader.changes(0, 10)) == 1
    reader.close()


def test_changes(catalog: Catalog, collection_id: int, tmp_path: Path) -> None:
    (first, second), _ = put(catalog, collection_id, "a", 2, 0)
    (third,), _ = put(catalog, collection_id, "a", 1, 1)
    log = changes_in(tmp_path)
    assert [change[:4] for change in log] == [
        (1, "add", collection_id, first),
        (2, "add", collection_id, second),
        (3, "delete", collection_id, first),
        (4, "delete", collection_id, second),
        (5, "add", collection_id, third),
    ]
    assert [change.vector is None for change in log] == [True, True, True, True, False]
    assert log[-1].vector is not None
    np.testing.assert_array_equal(log[-1].vector, unit_rows(1, 1)[0])


@pytest.mark.parametrize(
    ("after", "limit", "numbers"),
    [(0, 0, []), (0, 2, [1, 2]), (1, 10, [2, 3]), (3, 10, []), (99, 10, [])],
)
def test_changes_in_bites(
    catalog: Catalog,
    collection_id: int,
    tmp_path: Path,
    after: int,
    limit: int,
    numbers: list[int],
) -> None:
    put(catalog, collection_id, "a", 3, 0)
    reader = ChangeReader(tmp_path)
    assert [change.seq for change in reader.changes(after, limit)] == numbers
    reader.close()


def test_reader_sees_a_catalog_that_was_closed(tmp_path: Path) -> None:
    with Catalog(tmp_path) as catalog:
        put(catalog, catalog.create_collection("a", FINGERPRINT).id, "a", 2, 0)
    assert not (tmp_path / "catalog.sqlite3-wal").exists()
    reader = ChangeReader(tmp_path)
    assert reader.head() == 2
    with Catalog(tmp_path) as catalog:  # and one that comes back
        put(catalog, catalog.collection("a").id, "a", 1, 0)
        assert reader.head() == 5
    reader.close()


# The data directory


def test_what_is_acknowledged_is_on_disk(catalog: Catalog) -> None:
    # 2 is FULL: each commit syncs the log, so it outlives the power too.
    assert catalog._writer.execute("PRAGMA synchronous").fetchone() == (2,)
    assert catalog._writer.execute("PRAGMA journal_mode").fetchone() == ("wal",)


def test_second_owner_in_the_same_process(catalog: Catalog, tmp_path: Path) -> None:
    for _ in range(2):
        with pytest.raises(DataDirInUse, match=f"cropseek process {os.getpid()}: stop that one"):
            Catalog(tmp_path)


def test_second_process_and_the_lock_of_a_dead_one(tmp_path: Path) -> None:
    with worker("hold", tmp_path) as process:
        assert hear(process) == "open"
        with pytest.raises(DataDirInUse, match=f"{tmp_path} is in use .* {process.pid}: "):
            Catalog(tmp_path)
        process.send_signal(signal.SIGKILL)
        process.wait()
    assert (tmp_path / "catalog.lock").read_text() == f"{process.pid}\n"
    Catalog(tmp_path).close()


def test_an_old_lock_file_is_no_obstacle(tmp_path: Path) -> None:
    (tmp_path / "catalog.lock").write_text(f"{os.getppid()}\n")  # a process that lives
    with Catalog(tmp_path):
        assert (tmp_path / "catalog.lock").read_text() == f"{os.getpid()}\n"


def test_a_newer_catalog_is_refused(tmp_path: Path) -> None:
    Catalog(tmp_path).close()
    database = sqlite3.connect(tmp_path / "catalog.sqlite3")
    database.execute("PRAGMA user_version = 99")
    database.close()
    for _ in range(2):  # nothing stays open or locked
        with pytest.raises(SetupError, match=r"newer cropseek \(schema 99, this one knows 1\)"):
            Catalog(tmp_path)
    with pytest.raises(SetupError, match="schema 99"):
        ChangeReader(tmp_path).head()


def test_a_file_that_is_no_catalog_is_refused(tmp_path: Path) -> None:
    (tmp_path / "catalog.sqlite3").write_bytes(b"no database " * 1000)
    with pytest.raises(SetupError, match="file is not a database"):
        Catalog(tmp_path)


def test_a_file_in_the_place_of_the_directory(tmp_path: Path) -> None:
    (tmp_path / "data").touch()
    with pytest.raises(SetupError, match=r"data directory .*data: .*exists"):
        Catalog(tmp_path / "data")


def test_any_directory_name(tmp_path: Path) -> None:
    odd = tmp_path / "a b?mode=rw#%41" / "ü"
    with Catalog(odd) as catalog:
        put(catalog, catalog.create_collection("a", FINGERPRINT).id, "a", 1, 0)
        assert len(changes_in(odd)) == 1


def test_full_disk(tmp_path: Path) -> None:
    with worker("fill", tmp_path, 200_000) as process:
        acknowledged: list[int] = []
        while isinstance(answer := hear(process), list):
            acknowledged += answer
        assert answer in (
            "the catalog could not write: disk I/O error",
            "the catalog could not write: database or disk is full",
        )
        assert hear(process) == len(acknowledged) > 0
    with Catalog(tmp_path) as catalog:
        assert list(catalog.items(acknowledged)) == acknowledged
        assert catalog.collections()[0][1] == len(acknowledged)
        put(catalog, catalog.collection("pictures").id, "after", 1, 0)


# Killed


NEVER = 0  # a picture without regions leaves the same behind as none at all


def test_killed_at_any_moment_loses_nothing_acknowledged(tmp_path: Path) -> None:
    """What was acknowledged is there; what was not is there in whole or not at all."""
    chance = random.Random(0)
    possible = {f"s{number}": {NEVER} for number in range(SOURCES)}  # pictures it may hold
    ids_of: dict[int, list[int]] = {}
    next_number = 1
    reader = ChangeReader(tmp_path)  # the search goes on whatever happens to the writer
    follower = Follower(reader, ExactIndex)
    for _ in range(8):
        acknowledged = write_until_killed(tmp_path, next_number, chance.randint(1, 60))
        for told in acknowledged:
            possible[f"s{told['number'] % SOURCES}"] = {told["number"]}
            ids_of[told["number"]] = told["ids"]
        in_flight = acknowledged[-1]["number"] + 1
        possible[f"s{in_flight % SOURCES}"].add(in_flight)
        next_number = in_flight + 1
        seen = ids_found(follower)
        assert follower.sequence >= acknowledged[-1]["sequence"]
        with Catalog(tmp_path) as catalog:
            live = live_ids(tmp_path)
            assert live == seen == ids_found(follower)
            assert catalog.head() == follower.sequence
            check_items(catalog, live, possible, ids_of)
    reader.close()
    every_id = [item_id for ids in ids_of.values() for item_id in ids]
    assert len(set(every_id)) == len(every_id) > 0


def write_until_killed(data_dir: Path, first: int, count: int) -> list[Any]:
    """Return what was acknowledged: `count` pictures or a few more."""
    with worker("write", data_dir, first) as process:
        acknowledged = [hear(process) for _ in range(count)]
        process.kill()
        assert process.stdout is not None
        rest = [json.loads(line) for line in process.stdout if line.endswith("\n")]
    return acknowledged + rest


def check_items(
    catalog: Catalog,
    live: list[int],
    possible: dict[str, set[int]],
    ids_of: dict[int, list[int]],
) -> None:
    items = catalog.items(live)
    assert sorted(items) == live
    assert catalog.collections()[0][1] == len(live)
    for source, pictures in possible.items():
        stored = [items[item_id] for item_id in live if items[item_id].source == source]
        of = {int(item.metadata["seed"]) for item in stored}
        if stored:
            (picture,) = of & pictures
            assert of == {picture}
            assert len(stored) == picture % MOST_REGIONS
            assert [item.id for item in stored] == ids_of.get(picture, [item.id for item in stored])
        else:
            assert any(picture % MOST_REGIONS == 0 for picture in pictures)


def live_ids(data_dir: Path) -> list[int]:
    """Check the log; return the ids of the items that are there."""
    log = changes_in(data_dir)
    assert [change.seq for change in log] == list(range(1, len(log) + 1))
    added = [change.item_id for change in log if change.op == "add"]
    deleted = [change.item_id for change in log if change.op == "delete"]
    assert len(set(added)) == len(added)
    assert len(set(deleted)) == len(deleted)
    live = sorted(change.item_id for change in log if change.vector is not None)
    assert live == sorted(set(added) - set(deleted))
    return live


def ids_found(follower: Follower) -> list[int]:
    while follower.catch_up(10):
        pass
    found = follower.search(1, unit_rows(1, 0), ALL, -1.0)
    return sorted(found.item_ids.ravel().tolist())


def test_another_process_sees_what_was_acknowledged(tmp_path: Path) -> None:
    """A search asked after an acknowledgement reads it, also the first after a long time."""
    with Catalog(tmp_path) as catalog, worker("search", tmp_path) as process:
        assert process.stdin is not None
        collection = catalog.create_collection("a", FINGERPRINT)
        assert collection.id == 1
        for seed in range(40):
            (item_id,), sequence = put(catalog, collection.id, f"s{seed % 3}", 1, seed)
            process.stdin.write(f"{seed}\n")
            process.stdin.flush()
            assert hear(process) == [[[item_id]], sequence]
