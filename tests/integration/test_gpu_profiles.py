"""The GPU profiles' configurations, loaded and asked in a real Triton on a CPU.

Stand-ins (tests/standins) take the place of TensorRT and DALI, and KIND_GPU becomes KIND_CPU, which
Triton refuses without a GPU; all else is served as committed, the fields for CUDA included.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import tritonclient.grpc as triton
from tritonclient.utils import InferenceServerException

from cropseek.rpc.server import RunningServer
from cropseek.settings import Settings
from cropseek.triton.client import TritonClient, image_input
from cropseek.triton.config import ModelConfig
from cropseek.triton.launcher import TritonServer
from cropseek.triton.profiles import model_configs
from cropseek.types import PictureOptions, PictureResult
from tests.builders import iou

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
        text = path.read_text(encoding="utf-8")
        path.write_text(text.replace("KIND_GPU", "KIND_CPU"), encoding="utf-8")
    settings = Settings(data_dir=folder / "data", model_repository=repository, profile=profile)
    with TritonServer(settings, STANDINS) as server:
        yield profile, server.target


async def _run(target: str, pictures: list[bytes]) -> list[PictureResult]:
    async with TritonClient(target) as client:
        return [await client.run(p, PictureOptions(), embeddings=True) for p in pictures]


async def test_a_gpu_profile_finds_what_the_cpu_profile_finds(
    served: tuple[str, str], server: RunningServer, frames: list[bytes], photos: dict[str, bytes]
) -> None:
    """The same objects, and the same vectors."""
    pictures = [frames[0], frames[6], *photos.values()]
    expected = await _run(server.triton_target, pictures)
    assert sum(len(result.detections) for result in expected) > len(pictures)
    for result, wanted in zip(await _run(served[1], pictures), expected, strict=True):
        assert result.size_wh == wanted.size_wh
        assert result.detections.class_ids.tolist() == wanted.detections.class_ids.tolist()
        boxes = (r.detections.boxes_xyxy.tolist() for r in (result, wanted))
        assert all(iou(box, other) >= 0.99 for box, other in zip(*boxes, strict=True))
        assert result.embeddings is not None
        assert wanted.embeddings is not None
        cosines = np.sum(result.embeddings * wanted.embeddings, axis=1)
        assert (cosines > 0.999).all()


def test_triton_serves_the_configurations_of_the_profile(served: tuple[str, str]) -> None:
    """Not those of the root, nor of another profile; every field that was written is in force."""
    profile, target = served
    with triton.InferenceServerClient(target) as client:
        for name, config in model_configs(profile).items():
            message = client.get_model_config(name).config
            assert _written(ModelConfig.from_proto(message)) == _written(config)


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
