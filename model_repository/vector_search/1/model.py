"""The nearest items for rows of vectors, from an index that follows the catalog."""

import threading

import numpy as np
import triton_python_backend_utils as pb_utils

from cropseek.catalog import ChangeReader
from cropseek.errors import CropseekError
from cropseek.index import ExactIndex, Follower, Query, set_threads
from cropseek.settings import Settings
from cropseek.triton.bls import failed, logged_fault
from cropseek.triton.cores import usable_cores

_BITE = 2048  # changes, 7 to 20 µs each: the most a search reads before it answers
_POLL_S = 0.2


class TritonPythonModel:
    """One follower; ready when it has read the whole log."""

    def initialize(self, args):
        set_threads(max(1, usable_cores() // 2))
        self._follower = Follower(ChangeReader(Settings().data_dir), ExactIndex)
        while self._follower.catch_up(_BITE):
            pass
        self._stop = threading.Event()
        self._thread = threading.Thread(
            target=self._follower.follow, args=(self._stop, _BITE, _POLL_S), daemon=True
        )
        self._thread.start()

    def execute(self, requests):
        try:
            self._follower.catch_up(_BITE)
            sequence = self._follower.sequence
            answers = self._follower.search_all([_query(request) for request in requests])
        except Exception:  # a raise here would fail with its traceback
            answers = [logged_fault("vector_search")] * len(requests)
            sequence = 0
        return [_response(answer, sequence) for answer in answers]

    def finalize(self):
        self._stop.set()
        self._thread.join()


def _query(request):
    vectors, collection, top_k, min_similarity = (
        pb_utils.get_input_tensor_by_name(request, name).as_numpy()
        for name in ("QUERIES", "COLLECTION", "TOP_K", "MIN_SIMILARITY")
    )
    return Query(int(collection[0, 0]), vectors, int(top_k[0, 0]), float(min_similarity[0, 0]))


def _response(answer, sequence):
    if isinstance(answer, CropseekError):
        return failed(answer)
    outputs = {
        "ITEM_IDS": answer.item_ids,
        "SIMILARITIES": answer.similarities,
        "INDEX_SEQUENCE": np.full((len(answer.item_ids), 1), sequence, dtype=np.int64),
    }
    return pb_utils.InferenceResponse(
        [pb_utils.Tensor(name, array) for name, array in outputs.items()]
    )
