"""The GPU profiles' configurations, loaded and asked in a real Triton on a CPU.

Stand-ins (tests/standins) run the ONNX files for TensorRT's backend and the DALI pipeline for
DALI's, KIND_GPU, which Triton refuses without a GPU, becomes KIND_CPU, and `preprocess` waits for
more pictures; all else is served as committed, the fields for CUDA included.
"""

from __future__ import annotations

import shutil
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import tritonclient.grpc as triton
from PIL import Image
from tritonclient.utils import InferenceServerException

from cropseek.errors import ModelFailed
from cropseek.rpc.server import RunningServer
from cropseek.settings import Settings
from cropseek.triton.client import TritonClient, image_input
from cropseek.triton.config import ModelConfig
from cropseek.triton.launcher import TritonServer
from cropseek.triton.profiles import model_configs
from cropseek.types import PictureOptions, PictureResult, Regions
from tests.builders import encoded, iou, noise

STANDINS = {
    path.parent.name: path for path in (Path(__file__).parents[1] / "standins").glob("*/model.py")
}
PROFILES = ("t4", "a100", "h100")


@pytest.fixture(scope="module", params=PROFILES)
def served(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[str, str]]:
    """A profile, and the address of a Triton that serves it."""
    profile: str = request.param
    folder = tmp_path_factory.mktemp(profile)
    repository = folder / "models"
    shutil.copytree(Settings().model_repository, repository)
    for path in repository.glob(f"*/configs/{profile}.pbtxt"):
        config = ModelConfig.from_pbtxt(path.read_text(encoding="utf-8"))
        text = _as_served(config).to_pbtxt().replace("KIND_GPU", "KIND_CPU")
        path.write_text(text, encoding="utf-8")
    settings = Settings(data_dir=folder / "data", model_repository=repository, profile=profile)
    with TritonServer(settings, STANDINS) as server:
        yield profile, server.target


def _as_served(config: ModelConfig) -> ModelConfig:
    """Let `preprocess` wait, so that pictures that are sent together meet in a batch."""
    if config.name != "preprocess" or config.dynamic_batching is None:
        return config
    waiting = replace(config.dynamic_batching, max_queue_delay_microseconds=200_000)
    return replace(config, dynamic_batching=waiting)


async def _run(target: str, requests: list[tuple[bytes, PictureOptions]]) -> list[PictureResult]:
    async with TritonClient(target) as client:
        return [await client.run(*request, embeddings=True) for request in requests]


async def test_a_gpu_profile_finds_what_the_cpu_profile_finds(
    served: tuple[str, str], server: RunningServer, frames: list[bytes], photos: dict[str, bytes]
) -> None:
    """The same objects; a grey level in the detector's square may move a box by a little."""
    pictures = [frames[0], frames[6], *photos.values()]
    requests = [(picture, PictureOptions()) for picture in pictures]
    expected = await _run(server.triton_target, requests)
    assert sum(len(result.detections) for result in expected) > len(pictures)
    for result, wanted in zip(await _run(served[1], requests), expected, strict=True):
        assert result.size_wh == wanted.size_wh
        assert result.detections.class_ids.tolist() == wanted.detections.class_ids.tolist()
        boxes = (r.detections.boxes_xyxy.tolist() for r in (result, wanted))
        assert all(iou(box, other) >= 0.99 for box, other in zip(*boxes, strict=True))


async def test_a_damaged_picture_is_refused_and_the_next_is_served(
    served: tuple[str, str], frames: list[bytes]
) -> None:
    """DALI's pipeline is of no use after an error, and made anew."""
    with pytest.raises(ModelFailed, match="Failed to decode"):
        await _run(served[1], [(frames[0][:5000], PictureOptions())])
    (result,) = await _run(served[1], [(frames[0], PictureOptions())])
    assert len(result.detections)


def test_pictures_that_meet_in_a_batch_are_told_apart(served: tuple[str, str]) -> None:
    """Each request has its own picture's rows."""
    sizes = [(90 + 10 * number, 70 + number) for number in range(8)]
    pictures = [encoded(Image.fromarray(noise(*size)), "PNG") for size in sizes]
    with triton.InferenceServerClient(served[1]) as client:
        pictures_before, batches_before = _counts(client)
        answers = _preprocessed(client, pictures)
        while (counted := _counts(client))[0] < pictures_before + len(pictures):
            time.sleep(0.01)  # Triton counts after it has answered
    assert counted[1] < batches_before + len(pictures), "they did not meet"
    for size, answer in zip(sizes, answers, strict=True):
        assert isinstance(answer, triton.InferResult)
        assert answer.as_numpy("FITTED")[0, :2].tolist() == [*size]
        np.testing.assert_array_equal(answer.as_numpy("FRAME")[0], noise(*size))


def test_a_damaged_picture_fails_those_that_it_meets_and_no_more(
    served: tuple[str, str], frames: list[bytes]
) -> None:
    """So does DALI; Triton lives on."""
    with triton.InferenceServerClient(served[1]) as client:
        answers = _preprocessed(client, [*frames[:7], frames[7][:5000]])
        failed = [answer for answer in answers if isinstance(answer, InferenceServerException)]
        assert len(failed) > 1, "they did not meet"
        assert all("Failed to decode" in str(error.message()) for error in failed)
        assert isinstance(answers[-1], InferenceServerException)
        (after,) = _preprocessed(client, frames[:1])
        assert isinstance(after, triton.InferResult)


def _counts(client: triton.InferenceServerClient) -> tuple[int, int]:
    """Return how many pictures `preprocess` has answered, and in how many batches."""
    (model,) = client.get_inference_statistics("preprocess").model_stats
    return model.inference_count, model.execution_count


def _preprocessed(
    client: triton.InferenceServerClient, pictures: list[bytes]
) -> list[triton.InferResult | InferenceServerException]:
    """Send pictures to `preprocess`, all at once."""

    def send(picture: bytes) -> triton.InferResult | InferenceServerException:
        try:
            return client.infer("preprocess", [image_input(picture)], client_timeout=60)
        except InferenceServerException as error:
            return error

    with ThreadPoolExecutor(len(pictures)) as threads:
        return list(threads.map(send, pictures))


def _batched(client: triton.InferenceServerClient) -> int:
    """Return how many batches of more than one picture `preprocess` has run."""
    (model,) = client.get_inference_statistics("preprocess").model_stats
    return sum(b.compute_infer.count for b in model.batch_stats if b.batch_size > 1)


async def test_a_box_has_the_vector_that_it_has_in_the_cpu_profile(
    served: tuple[str, str], server: RunningServer, frames: list[bytes], photos: dict[str, bytes]
) -> None:
    """What is cut from the frame is the same, and so are its vectors."""
    boxes = PictureOptions(Regions.BOXES, ((10, 20, 200, 180), (30.5, 5.25, 90, 200)))
    requests = [(picture, boxes) for picture in (frames[0], frames[6], *photos.values())]
    expected = await _run(server.triton_target, requests)
    for result, wanted in zip(await _run(served[1], requests), expected, strict=True):
        assert result.embeddings is not None
        assert wanted.embeddings is not None
        cosines = np.sum(result.embeddings * wanted.embeddings, axis=1)
        assert (cosines > 0.9999).all()


def test_triton_serves_the_configurations_of_the_profile(served: tuple[str, str]) -> None:
    """Not those of the root, nor of another profile; every field that was written is in force."""
    profile, target = served
    with triton.InferenceServerClient(target) as client:
        for name, config in model_configs(profile).items():
            message = client.get_model_config(name).config
            assert _written(ModelConfig.from_proto(message)) == _written(_as_served(config))


def _written(config: ModelConfig) -> dict[str, object]:
    """What our configurations set, without what Triton adds: names, defaults, other kinds."""
    batching = config.dynamic_batching
    if batching and not batching.preferred_batch_size:
        # Seen here: of a model that prefers no batch, Triton says that it prefers the largest.
        batching = replace(batching, preferred_batch_size=(config.max_batch_size or 0,))
    return {
        "kind": (config.platform, config.backend, config.max_batch_size),
        "tensors": (config.input, config.output),
        "steps": config.ensemble_scheduling,
        "batching": batching,
        "counts": [group.count for group in config.instance_group],
        "cuda": config.optimization and config.optimization.cuda,
        "parameters": config.parameters,
        "warmup": config.model_warmup,
    }


def test_a_request_that_does_not_want_every_output_is_refused(served: tuple[str, str]) -> None:
    """As DALI does; so the ensemble, which works, asks for all."""
    with (
        triton.InferenceServerClient(served[1]) as client,
        pytest.raises(InferenceServerException, match="expected a request for"),
    ):
        client.infer(
            "preprocess", [image_input(b"")], outputs=[triton.InferRequestedOutput("FRAME")]
        )
