"""Triton's own statistics say that every picture and crop went through its models."""

from __future__ import annotations

from pathlib import Path

import tritonclient.grpc as triton

from cropseek.client import Client
from cropseek.rpc.server import RunningServer, running_server
from cropseek.settings import Settings


def _counts(target: str) -> dict[str, int]:
    with triton.InferenceServerClient(target) as client:
        statistics = client.get_inference_statistics().model_stats
    return {model.name: model.inference_count for model in statistics}


def _assert_counted(server: RunningServer, client: Client, pictures: list[bytes]) -> None:
    before = _counts(server.triton_target)
    crops = sum(len(client.embed(picture).detections) for picture in pictures)
    after = _counts(server.triton_target)
    done = {name: after[name] - before[name] for name in after}
    for model in ("image_search", "preprocess", "detector"):
        assert done[model] == len(pictures), model
    assert done["embedder"] == crops


def test_a_server(server: RunningServer, client: Client, frames: list[bytes]) -> None:
    _assert_counted(server, client, frames)


def test_an_embedded_server(frames: list[bytes], tmp_path: Path) -> None:
    with running_server(Settings(data_dir=tmp_path)) as local, Client(local.target) as client:
        _assert_counted(local, client, frames[:5])
