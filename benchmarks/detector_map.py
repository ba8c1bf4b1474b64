"""Detection quality over a COCO-style folder: mAP50-95 of cropseek, and of Ultralytics beside it.

    cropseek detect --json PICTURES > cropseek.jsonl
    python -m benchmarks.detector_map --images PICTURES --instances instances.json \\
        --detections cropseek.jsonl --ultralytics yolo11n.onnx --json OUT.json

Rules: every picture of the instances file counts, found or not; at most 300 boxes a picture down to
score 0.001 are handed in (COCO itself looks at the best 100); one label a box on both sides, as
Ultralytics' `predict` does; Ultralytics runs the raw weights on the same pictures at 640x640.
Needs pycocotools, and ultralytics for the comparison (extras `bench` and `export`).
"""

from __future__ import annotations

import argparse
import contextlib
import hashlib
import importlib
import io
import json
import os
import sys
from collections.abc import Iterable, Mapping, Sequence
from importlib import metadata
from pathlib import Path
from typing import Any, TypedDict

PREDICT = {"conf": 0.001, "iou": 0.7, "max_det": 300, "imgsz": 640, "rect": False}
PACKAGES = ("pycocotools", "ultralytics", "onnxruntime", "numpy")


class Detection(TypedDict):
    """One box: x1, y1, x2, y2 in upright picture pixels; class_id 0..79."""

    box: list[float]
    score: float
    label: str
    class_id: int


class Line(TypedDict):
    """One picture of `cropseek detect --json`."""

    image: str
    detections: list[Detection]


def read_lines(path: Path) -> list[Line]:
    """Read the lines that `cropseek detect --json` wrote, one picture a line.

    Raises ValueError naming the line when one is not such an object.
    """
    lines: list[Line] = []
    for number, text in enumerate(path.read_text(encoding="utf-8").splitlines(), start=1):
        if not text.strip():
            continue
        try:
            line = json.loads(text)
            lines.append({"image": line["image"], "detections": line["detections"]})
        except (ValueError, KeyError, TypeError) as error:
            raise ValueError(f"{path}:{number}: expected image and detections: {error}") from error
    return lines


def ultralytics_lines(model_path: Path, pictures: Iterable[Path]) -> list[Line]:
    """What Ultralytics' own predictor finds in these pictures, in the same form.

    model_path: a raw (not grafted) ONNX export. Raises ImportError without ultralytics.
    """
    os.environ.setdefault("YOLO_AUTOINSTALL", "false")
    ultralytics: Any = importlib.import_module("ultralytics")
    model = ultralytics.YOLO(str(model_path), task="detect")
    lines: list[Line] = []
    for picture in pictures:
        (result,) = model.predict(str(picture), verbose=False, device="cpu", **PREDICT)
        detections = [
            Detection(
                box=row[:4], score=row[4], label=result.names[int(row[5])], class_id=int(row[5])
            )
            for row in result.boxes.data.tolist()
        ]
        lines.append({"image": picture.name, "detections": detections})
    return lines


def coco_results(
    lines: Iterable[Line], image_ids: Mapping[str, int], category_ids: Mapping[str, int]
) -> list[dict[str, Any]]:
    """Turn lines into COCO result rows: boxes as x, y, width, height; categories by name.

    image_ids: by file name, every picture that must be there. category_ids: COCO's 1..90, by name.
    Raises ValueError when a picture is missing, unknown or twice there, or a label is not COCO's.
    """
    rows: list[dict[str, Any]] = []
    seen: set[str] = set()
    for line in lines:
        name = Path(line["image"]).name
        if name in seen or name not in image_ids:
            raise ValueError(f"picture {name}: {'twice there' if name in seen else 'not expected'}")
        seen.add(name)
        for found in line["detections"]:
            if found["label"] not in category_ids:
                raise ValueError(f"picture {name}: label {found['label']!r} is not a COCO category")
            x1, y1, x2, y2 = found["box"]
            rows.append(
                {
                    "image_id": image_ids[name],
                    "category_id": category_ids[found["label"]],
                    "bbox": [x1, y1, x2 - x1, y2 - y1],
                    "score": found["score"],
                }
            )
    missing = sorted(set(image_ids) - seen)
    if missing:
        raise ValueError(f"{len(missing)} of {len(image_ids)} pictures have no line: {missing[:3]}")
    return rows


class Truth:
    """The instances file, and the measuring of lines against it."""

    def __init__(self, instances: Path) -> None:
        """Load a COCO instances file; raises ImportError without pycocotools."""
        coco: Any = importlib.import_module("pycocotools.coco")
        with contextlib.redirect_stdout(io.StringIO()):
            self._coco = coco.COCO(str(instances))
        self.image_ids: dict[str, int] = {
            image["file_name"]: image["id"] for image in self._coco.dataset["images"]
        }
        self.category_ids: dict[str, int] = {
            category["name"]: category["id"] for category in self._coco.dataset["categories"]
        }

    def measure(self, lines: Iterable[Line]) -> dict[str, float]:
        """Mean average precision over IoU 0.50:0.95, at 0.50 and 0.75, and the number of boxes."""
        cocoeval: Any = importlib.import_module("pycocotools.cocoeval")
        rows = coco_results(lines, self.image_ids, self.category_ids)
        if not rows:  # pycocotools refuses an empty list
            return {"map50_95": 0.0, "map50": 0.0, "map75": 0.0, "boxes": 0}
        with contextlib.redirect_stdout(io.StringIO()):
            evaluation = cocoeval.COCOeval(self._coco, self._coco.loadRes(rows), "bbox")
            evaluation.params.imgIds = sorted(self.image_ids.values())
            evaluation.evaluate()
            evaluation.accumulate()
            evaluation.summarize()
        overall, at_50, at_75 = (float(value) for value in evaluation.stats[:3])
        return {"map50_95": overall, "map50": at_50, "map75": at_75, "boxes": len(rows)}


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure, print one line a side and their difference, write the JSON; returns the status."""
    options = _parser().parse_args(arguments)
    truth = Truth(options.instances)
    report: dict[str, Any] = {
        "benchmark": "detector_map",
        "pictures": len(truth.image_ids),
        "instances_sha256": _sha256(options.instances),
        "detections_sha256": _sha256(options.detections),
        "versions": _versions(),
        "cropseek": truth.measure(read_lines(options.detections)),
    }
    if options.ultralytics is not None:
        pictures = [options.images / name for name in sorted(truth.image_ids)]
        report["ultralytics"] = truth.measure(ultralytics_lines(options.ultralytics, pictures))
        report["ultralytics_settings"] = PREDICT
        report["difference_map50_95"] = (
            report["cropseek"]["map50_95"] - report["ultralytics"]["map50_95"]
        )
    options.json.write_text(json.dumps(report, indent=1) + "\n", encoding="utf-8")
    for side in ("cropseek", "ultralytics"):
        if side in report:
            numbers = report[side]
            print(
                f"{side:<12} mAP50-95 {numbers['map50_95']:.4f}  mAP50 {numbers['map50']:.4f}  "
                f"{numbers['boxes']} boxes in {report['pictures']} pictures"
            )
    if "difference_map50_95" in report:
        print(f"difference   mAP50-95 {report['difference_map50_95']:+.4f}")
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.detector_map")
    parser.add_argument("--images", type=Path, required=True, help="folder of the pictures")
    parser.add_argument("--instances", type=Path, required=True, help="COCO instances file")
    parser.add_argument(
        "--detections", type=Path, required=True, help="output of `cropseek detect --json`"
    )
    parser.add_argument("--ultralytics", type=Path, help="raw ONNX export to compare with")
    parser.add_argument("--json", type=Path, required=True, help="where to write the result")
    return parser


def _sha256(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def _versions() -> dict[str, str]:
    """Of the packages that are installed, of those that matter here."""
    found: dict[str, str] = {"python": sys.version.split()[0]}
    for name in PACKAGES:
        with contextlib.suppress(metadata.PackageNotFoundError):
            found[name] = metadata.version(name)
    return found


if __name__ == "__main__":
    sys.exit(main())
