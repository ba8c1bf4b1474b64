"""Our detector against Ultralytics' own predictor on bus.jpg (needs the `export` extra).

`python tests/export/test_ultralytics.py` writes tests/golden/bus_ultralytics.json anew.
"""

from __future__ import annotations

import hashlib
import importlib
import json
import os
import tempfile
from importlib import metadata
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import onnxruntime as ort
import pytest

from cropseek_export import graft, publish
from cropseek_export.manifest import read_manifest

cv2: Any = pytest.importorskip("cv2")

ROOT = Path(__file__).parents[2]
REPOSITORY = ROOT / "model_repository"
GOLDEN = ROOT / "tests/golden/bus_ultralytics.json"
SETTINGS = {"rect": False, "imgsz": 640, "conf": 0.25, "iou": 0.7}
REGENERATE = "run: python tests/export/test_ultralytics.py"


def ultralytics_detections(picture: Path) -> list[dict[str, Any]]:
    """What Ultralytics finds with the raw packaged file, best score first."""
    ultralytics: Any = importlib.import_module("ultralytics")
    model = ultralytics.YOLO(str(publish.RAW_DETECTOR.locate()), task="detect")
    (result,) = model.predict(str(picture), verbose=False, device="cpu", **SETTINGS)
    rows = sorted(result.boxes.data.tolist(), key=lambda row: -float(row[4]))
    return [detection(row, result.names[int(row[5])]) for row in rows]


def our_detections(picture: Path) -> list[dict[str, Any]]:
    """What the committed detector finds behind a letterbox like Ultralytics'."""
    image_bgr = cv2.imread(str(picture))
    letterboxed, scale_xy, left, top = letterbox(image_bgr)
    path = REPOSITORY / read_manifest(REPOSITORY)["detector"]["file"]
    session = ort.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    rows = session.run(["DETECTIONS"], {"LETTERBOXED": letterboxed})[0][0].copy()
    height, width = image_bgr.shape[:2]
    rows[:, :4] = (rows[:, :4] - (left, top, left, top)) / (*scale_xy, *scale_xy)
    rows[:, :4] = rows[:, :4].clip(0, (width, height, width, height))
    names = (REPOSITORY / "detector/labels.txt").read_text().splitlines()
    return [detection(row, names[int(row[5])]) for row in rows[rows[:, 4] > SETTINGS["conf"]]]


def letterbox(image_bgr: Any) -> tuple[npt.NDArray[np.uint8], tuple[float, float], int, int]:
    """Fit a picture into a grey 640-pixel square.

    Returns (uint8 RGB `[1, 3, 640, 640]`, the scale that each axis really got after rounding its
    length, pixels padded on the left, and on top).
    """
    height, width = image_bgr.shape[:2]
    side = graft.INPUT_SIZE_PX
    scale = side / max(height, width)
    new_width, new_height = round(width * scale), round(height * scale)
    left, top = round((side - new_width) / 2 - 0.1), round((side - new_height) / 2 - 0.1)
    canvas = np.full((side, side, 3), 114, np.uint8)
    canvas[top : top + new_height, left : left + new_width] = cv2.resize(
        image_bgr, (new_width, new_height), interpolation=cv2.INTER_LINEAR
    )
    picture = np.ascontiguousarray(canvas[:, :, ::-1].transpose(2, 0, 1)[None])
    return picture, (new_width / width, new_height / height), left, top


def detection(row: Any, label: str) -> dict[str, Any]:
    """One row (box in picture pixels, score, class) as JSON would have it."""
    box = [round(float(side), 2) for side in row[:4]]
    score, class_id = round(float(row[4]), 4), int(row[5])
    return {"box": box, "score": score, "label": label, "class_id": class_id}


def assert_same(found: list[dict[str, Any]], wanted: list[dict[str, Any]]) -> None:
    """The same objects in the same order: boxes within 2 pixels, scores within 0.02."""
    assert [one["label"] for one in found] == [one["label"] for one in wanted]
    assert [one["class_id"] for one in found] == [one["class_id"] for one in wanted]
    pixels, score = (
        np.abs(np.array([one[key] for one in found]) - [one[key] for one in wanted]).max()
        for key in ("box", "score")
    )
    print(f"largest distance: {pixels:.3f} pixels, {score:.5f} in score")
    assert pixels <= 2
    assert score <= 0.02


def golden_text(picture: Path) -> str:
    """The golden file's text, from Ultralytics as it is installed."""
    golden = {
        "picture": "ultralytics/assets/bus.jpg",
        "picture_sha256": hashlib.sha256(picture.read_bytes()).hexdigest(),
        "model": publish.RAW_DETECTOR.path,
        "made_with": f"ultralytics {metadata.version('ultralytics')}",
        "settings": SETTINGS,
        "detections": ultralytics_detections(picture),
    }
    return json.dumps(golden, indent=1) + "\n"


def bus_picture() -> Path:
    """bus.jpg as it ships in the ultralytics wheel."""
    return publish.PackagedFile("ultralytics", "ultralytics/assets/bus.jpg").locate()


@pytest.fixture(scope="module")
def bus(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The picture, with Ultralytics kept from installing things and from writing to the home."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("YOLO_AUTOINSTALL", "false")
        patch.setenv("YOLO_CONFIG_DIR", str(tmp_path_factory.mktemp("ultralytics")))
        pytest.importorskip("ultralytics")
    return bus_picture()


def test_we_find_what_ultralytics_finds(bus: Path) -> None:
    """On the same raw weights, at the same settings, now."""
    wanted = ultralytics_detections(bus)
    assert len(wanted) == 5
    assert_same(our_detections(bus), wanted)


def test_we_find_what_the_golden_file_says(bus: Path) -> None:
    """One bus and four persons, written down when the file was made."""
    golden = json.loads(GOLDEN.read_text())
    assert hashlib.sha256(bus.read_bytes()).hexdigest() == golden["picture_sha256"], REGENERATE
    assert_same(our_detections(bus), golden["detections"])


def test_the_golden_file_is_what_ultralytics_says(bus: Path) -> None:
    """Regenerating it changes nothing beyond the tolerances."""
    golden = json.loads(GOLDEN.read_text())
    again = json.loads(golden_text(bus))
    assert_same(again.pop("detections"), golden.pop("detections"))
    again.pop("made_with"), golden.pop("made_with")
    assert again == golden, REGENERATE


if __name__ == "__main__":
    os.environ["YOLO_AUTOINSTALL"] = "false"
    with tempfile.TemporaryDirectory() as scratch:
        os.environ["YOLO_CONFIG_DIR"] = scratch
        GOLDEN.write_text(golden_text(bus_picture()))
