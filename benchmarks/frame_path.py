"""How the full frame should reach the crops on this machine: the ways there are, measured.

    python -m benchmarks.frame_path --images DIR --json OUT [--rounds 5]

- `frame`: as shipped: the ensemble hands frames up to 1920 x 1080 to BLS, which cuts the crops, and
  BLS decodes larger pictures again;
- `always`: the ensemble hands over every frame, whatever its size;
- `decode`: BLS decodes the picture again, the frame crosses no process border;
- `crop_model`: a model inside the ensemble cuts every box of score 0.25 or more, BLS gets crops.

Each is a whole server. They run one after another within a round, in an order that rotates.
Reported for each: pictures/s at concurrency 8 and lone p50 over the photos of DIR, then
pictures/s at concurrency 4 over 12-megapixel pictures made from them, with the largest /dev/shm
and the proportional set size (PSS) of all of the server's processes after it.
"""

from __future__ import annotations

import argparse
import json
import shutil
import tempfile
from dataclasses import asdict
from pathlib import Path

from benchmarks.end_to_end import closed_loop
from benchmarks.footprint import enlarged
from benchmarks.machine import description
from benchmarks.memory import PeakMemory
from benchmarks.statistics import ratio
from cropseek.client import Client
from cropseek.rpc.server import running_server
from cropseek.settings import Settings

WAYS = ("frame", "always", "decode", "crop_model")

_DECODE = """
from cropseek.vision.crop import crop_boxes
from cropseek.vision.decode import decode_image

class Pipeline(Pipeline):
    detect_outputs = ("DETECTIONS", "FITTED")

    def crop(self, image, found, boxes_xyxy):
        return crop_boxes(decode_image(image), boxes_xyxy, self.crop_side)
"""
_FROM_CROP_MODEL = """
class Pipeline(Pipeline):
    detect_outputs = ("DETECTIONS", "FITTED", "CROPS")

    def crop(self, image, found, boxes_xyxy):
        return found["CROPS"][0]
"""
_CROP_MODEL = """
import numpy as np
import triton_python_backend_utils as pb_utils
from cropseek.types import PictureOptions
from cropseek.vision.crop import crop_boxes
from cropseek.vision.detection import select_regions
from cropseek.vision.geometry import Letterbox

class TritonPythonModel:
    def execute(self, requests):
        return [self._crop(request) for request in requests]

    def _crop(self, request):
        frame, rows, fitted = (
            pb_utils.get_input_tensor_by_name(request, name).as_numpy()[0]
            for name in ("FRAME", "DETECTIONS", "FITTED")
        )
        regions, _ = select_regions(rows, Letterbox.from_array(fitted), PictureOptions())
        boxes = regions.boxes_xyxy
        if not len(boxes):  # the launcher's first picture asks for the whole of it
            boxes = np.array([[0, 0, frame.shape[1], frame.shape[0]]], np.float32)
        crops = crop_boxes(frame, boxes, 224)
        return pb_utils.InferenceResponse([pb_utils.Tensor("CROPS", crops[None])])
"""
_CROP_CONFIG = """
name: "crop" backend: "python" max_batch_size: 1
input [
  { name: "FRAME" data_type: TYPE_UINT8 dims: [ -1, -1, 3 ] },
  { name: "DETECTIONS" data_type: TYPE_FP32 dims: [ 300, 6 ] },
  { name: "FITTED" data_type: TYPE_INT32 dims: [ 6 ] }
]
output [ { name: "CROPS" data_type: TYPE_UINT8 dims: [ -1, 3, 224, 224 ] } ]
instance_group [ { kind: KIND_CPU count: 2 } ]
"""
_CROP_STEP = """,
    {
      model_name: "crop" model_version: -1
      input_map { key: "FRAME" value: "FRAME" }
      input_map { key: "DETECTIONS" value: "DETECTIONS" }
      input_map { key: "FITTED" value: "FITTED" }
      output_map { key: "CROPS" value: "CROPS" }
    }
  ]
}
"""
_FRAME_OUTPUT = '{ name: "FRAME" data_type: TYPE_UINT8 dims: [ -1, -1, 3 ] }'
_CROPS_OUTPUT = '{ name: "CROPS" data_type: TYPE_UINT8 dims: [ -1, 3, 224, 224 ] }'


def main() -> None:
    """Measure, print, and write the JSON."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--images", type=Path, required=True)
    parser.add_argument("--json", type=Path, required=True)
    parser.add_argument("--rounds", type=int, default=5)
    arguments = parser.parse_args()
    photos = [path.read_bytes() for path in sorted(arguments.images.glob("*.jpg"))]
    large = [enlarged(photo) for photo in photos[:16]]
    rounds = []
    for number in range(arguments.rounds):
        turn = number % len(WAYS)
        results = {way: _measure(way, photos, large) for way in WAYS[turn:] + WAYS[:turn]}
        rounds.append({way: results[way] for way in WAYS})
        print(f"round {number + 1}: {json.dumps(rounds[-1])}", flush=True)
    ratios = {
        f"{way}/frame {figure}": asdict(
            ratio([r[way][figure] for r in rounds], [r["frame"][figure] for r in rounds])
        )
        for way in WAYS[1:]
        for figure in rounds[0]["frame"]
    }
    result = {"machine": description(), "rounds": rounds, "ratios": ratios}
    arguments.json.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")
    for name, interval in ratios.items():
        print(f"{name}: {interval['mean']:.3f} [{interval['low']:.3f}, {interval['high']:.3f}]")


def _measure(way: str, photos: list[bytes], large: list[bytes]) -> dict[str, float]:
    with tempfile.TemporaryDirectory() as folder:
        repository = Path(folder) / "models"
        shutil.copytree(Settings().model_repository, repository)
        _change(repository, way)
        settings = Settings(data_dir=Path(folder) / "data", model_repository=repository)
        with running_server(settings) as server, Client(server.target) as client:
            closed_loop(client.embed, photos, 8)
            busy = closed_loop(client.embed, photos * 2, 8)
            lone = closed_loop(client.embed, photos, 1)
            with PeakMemory() as peak:
                many = closed_loop(client.embed, large, 4)
            return {
                "pictures_per_s": busy["pictures_per_s"],
                "lone_p50_ms": lone["p50_ms"],
                "large_per_s": many["pictures_per_s"],
                "peak_shm_mib": peak.shm_mib,
                "peak_pss_mib": peak.pss_mib,
            }


def _change(repository: Path, way: str) -> None:
    """Rewrite a copy of the model repository so that the frame goes another way."""
    model = repository / "image_search" / "1" / "model.py"
    ensemble = repository / "detect" / "configs" / "cpu.pbtxt"
    if way in ("always", "crop_model"):
        _replace(repository / "preprocess" / "1" / "model.py", "to_send(frame)", "frame")
    if way == "decode":
        _insert_before_class(model, _DECODE)
        _replace(ensemble, f",\n  {_FRAME_OUTPUT}", "")
        _replace(ensemble, '      output_map { key: "FRAME" value: "FRAME" }\n', "")
    if way == "crop_model":
        _insert_before_class(model, _FROM_CROP_MODEL)
        _replace(ensemble, _FRAME_OUTPUT, _CROPS_OUTPUT)
        _replace(ensemble, "\n  ]\n}\n", _CROP_STEP)
        (repository / "crop" / "1").mkdir(parents=True)
        (repository / "crop" / "configs").mkdir()
        (repository / "crop" / "1" / "model.py").write_text(_CROP_MODEL)
        (repository / "crop" / "configs" / "cpu.pbtxt").write_text(_CROP_CONFIG)


def _insert_before_class(path: Path, text: str) -> None:
    _replace(path, "\n\nclass TritonPythonModel", f"\n{text}\n\nclass TritonPythonModel")


def _replace(path: Path, old: str, new: str) -> None:
    text = path.read_text(encoding="utf-8")
    assert text.count(old) == 1, f"{path}: expected once: {old!r}"
    path.write_text(text.replace(old, new), encoding="utf-8")


if __name__ == "__main__":
    main()
