"""Text search as a Triton repository: ids to a vector, the vector to documents, these to an answer.

cropseek repo build docs/examples/text_search.py -o text_search
cropseek repo draw text_search
"""

from cropseek.triton.build import Ensemble, Repository, model, tensor
from cropseek.triton.config import DynamicBatching, QueuePolicy

# A queue that ends: a request waits for a second at most, and the 257th is refused at once.
BATCHING = DynamicBatching(
    max_queue_delay_microseconds=500,
    default_queue_policy=QueuePolicy("REJECT", 1_000_000, True, 256),
)
GENERATE = '''"""Writes an answer from documents; a stand-in that counts them."""

import numpy as np
import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    def execute(self, requests):
        return [self._answer(request) for request in requests]

    def _answer(self, request):
        documents = pb_utils.get_input_tensor_by_name(request, "DOCUMENT_IDS").as_numpy()
        texts = [[f"from {len(row)} documents".encode()] for row in documents]
        answer = pb_utils.Tensor("ANSWER", np.array(texts, dtype=object))
        return pb_utils.InferenceResponse([answer])
'''

embedding = model(
    "embedding",
    "tensorrt",
    max_batch_size=64,
    inputs=[tensor("IDS", "INT64", 128)],
    outputs=[tensor("VECTOR", "FP32", 768)],
    instances=2,
    on="gpu",
    dynamic_batching=BATCHING,
)
retrieval = model(
    "retrieval",
    "onnxruntime",
    max_batch_size=64,
    inputs=[tensor("VECTOR", "FP32", 768)],
    outputs=[tensor("DOCUMENT_IDS", "INT64", 5)],
    instances=4,
    on="cpu",
    dynamic_batching=BATCHING,
)
generator = model(
    "generator",
    "python",
    max_batch_size=16,
    inputs=[tensor("DOCUMENT_IDS", "INT64", 5)],
    outputs=[tensor("ANSWER", "STRING", 1)],
    dynamic_batching=BATCHING,
    files={"1/model.py": GENERATE},
)

text_search = Ensemble("text_search", max_batch_size=16, inputs=[tensor("IDS", "INT64", 128)])
vector = text_search.call(embedding, IDS=text_search["IDS"])["VECTOR"]
documents = text_search.call(retrieval, VECTOR=vector)["DOCUMENT_IDS"]
text_search.output("ANSWER", text_search.call(generator, DOCUMENT_IDS=documents)["ANSWER"])

repository = Repository([embedding, retrieval, generator, text_search])
