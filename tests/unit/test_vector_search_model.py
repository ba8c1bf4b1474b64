"""The Triton model of the search, with a stand-in for the module that Triton's stub brings."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from cropseek.catalog import Catalog
from cropseek.types import Float32Array
from tests.unit.catalog_builders import DIM, FINGERPRINT, put, unit_rows
from tests.unit.fake_stub import Tensor, TritonError, load_model


def request(
    collection_id: int, vectors: Float32Array, k: int = 3, min_similarity: float = -1.0
) -> dict[str, Tensor]:
    rows = (len(vectors), 1)
    return {
        "QUERIES": Tensor("QUERIES", vectors),
        "COLLECTION": Tensor("COLLECTION", np.full(rows, collection_id, dtype=np.int64)),
        "TOP_K": Tensor("TOP_K", np.full(rows, k, dtype=np.int32)),
        "MIN_SIMILARITY": Tensor("MIN_SIMILARITY", np.full(rows, min_similarity, np.float32)),
    }


@pytest.fixture
def model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """The model, ready, over the catalog in `tmp_path`."""
    monkeypatch.setenv("CROPSEEK_DATA_DIR", str(tmp_path))
    made = load_model("vector_search", monkeypatch).TritonPythonModel()
    made.initialize({})
    yield made
    made.finalize()


def test_before_there_is_a_catalog(model: Any) -> None:
    (answer,) = model.execute([request(1, unit_rows(4, 0))])
    assert answer["ITEM_IDS"].shape == answer["SIMILARITIES"].shape == (4, 0)
    assert answer["INDEX_SEQUENCE"].tolist() == [[0]] * 4


def test_a_batch_of_requests(model: Any, tmp_path: Path) -> None:
    with Catalog(tmp_path) as catalog:
        collection_id = catalog.create_collection("a", FINGERPRINT).id
        ids, sequence = put(catalog, collection_id, "a", 5, 0)
        nan = np.full((2, DIM), np.nan, dtype=np.float32)
        first, wrong, large, last = model.execute(
            [
                request(collection_id, unit_rows(5, 0), k=3),
                request(collection_id, nan),
                request(collection_id, unit_rows(1, 0), k=1000),
                request(collection_id, unit_rows(5, 0)[2:], k=3, min_similarity=0.99),
            ]
        )
    assert wrong.error == TritonError(
        "INVALID_ARGUMENT: queries: expected finite numbers [n, D], got NaN or infinity",
        "INVALID_ARG",
    )
    assert first["ITEM_IDS"][:, 0].tolist() == ids
    assert first["ITEM_IDS"].shape == (5, 3)
    assert first["INDEX_SEQUENCE"].tolist() == [[sequence]] * 5
    assert sorted(large["ITEM_IDS"][0].tolist()) == ids
    assert last["ITEM_IDS"].tolist() == [[item_id, -1, -1] for item_id in ids[2:]]
    for answer in (first, large, last):
        types = [str(tensor.array.dtype) for tensor in answer.output_tensors]
        assert types == ["int64", "float32", "int64"]
        assert all(tensor.array.flags.c_contiguous for tensor in answer.output_tensors)


def test_a_broken_catalog_is_an_error_with_a_number(
    model: Any, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "catalog.sqlite3").write_bytes(b"no database " * 1000)
    answers = model.execute([request(1, unit_rows(1, 0))] * 2)
    assert len(answers) == 2
    for answer in answers:
        assert answer.error.code == "INTERNAL"
        number = answer.error.message.split()[3]
        assert answer.error.message == f"INTERNAL: vector_search: error {number} in the log"
        assert number in caplog.text
    assert "file is not a database" in caplog.text
