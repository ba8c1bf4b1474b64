"""Graft scaling and non-maximum suppression onto a raw YOLO head.

In:  `[batch, 3, height, width]` float32 0..1  ->  raw head `[batch, 4 + classes, anchors]`
Out: `LETTERBOXED` uint8 `[batch, 3, 640, 640]` ->  `DETECTIONS` float32 `[batch, 300, 6]`

The suffix, tensor by tensor (b = batch, a = anchors, c = classes, n = kept boxes in the batch):

    head [b, 4+c, a] ─┬─ boxes_xywh [b, a, 4] ── boxes_xyxy ──┬─ + class * 7680 ─┐
                      └─ class_scores [b, c, a] ─ best class ─┤                  │
                                               best score ────┤  NonMaxSuppression
                                                              │      kept [n, 2]
                                     rows [b, a, 6] ──────────┤                  │
                                                              │   scores scattered into zeros [b, a]
                                                              │        TopK 300
                                                       GatherND rows ── zero where score is 0

Why (2026-11-29): moving every class into its own far-away square lets one class-agnostic
NonMaxSuppression do the work of one per class, and scattering the survivors' scores back into a
dense `[batch, anchors]` turns its ragged output into a fixed shape without a loop, so the graph is
right for any batch size and for pictures with no object at all. Each anchor keeps only its best
class and the shift is 7680 pixels, because that is what Ultralytics' own suppression does.
"""

from __future__ import annotations

import ast
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
from onnx import ModelProto, TensorProto, helper, numpy_helper

from cropseek_export.dfl import simplify_dfl
from cropseek_export.onnx_passes import opset_version

INPUT_NAME = "LETTERBOXED"
OUTPUT_NAME = "DETECTIONS"
INPUT_SIZE_PX = 640
CLASS_SHIFT_PX = 7680.0  # larger than any letterboxed side, so boxes of two classes never overlap
MIN_OPSET = 13  # Squeeze and friends take their axes as inputs from here on
PREFIX = "cropseek/"


@dataclass(frozen=True)
class NmsSettings:
    """What suppression keeps.

    `iou_threshold` (0..1): of two boxes of one class whose IoU is above it, the weaker one goes.
    `score_floor` (0..1): anchors that do not score above it are never candidates.
    `max_detections`: rows per picture in the output.
    Raises ValueError for values outside these ranges.
    """

    iou_threshold: float = 0.7
    score_floor: float = 0.001
    max_detections: int = 300

    def __post_init__(self) -> None:
        for name in ("iou_threshold", "score_floor"):
            value = getattr(self, name)
            if not 0.0 <= value <= 1.0:
                raise ValueError(f"{name}: expected a number from 0 to 1, got {value}")
        if self.max_detections < 1:
            raise ValueError(f"max_detections: expected at least 1, got {self.max_detections}")


@dataclass
class _Suffix:
    """Collects nodes and constants; every method that adds one returns the new tensor's name."""

    nodes: list[onnx.NodeProto] = field(default_factory=list)
    constants: list[onnx.TensorProto] = field(default_factory=list)

    def op(self, op_type: str, inputs: Sequence[str], output: str, **attributes: Any) -> str:
        """Add one node with one output."""
        return self.ops(op_type, inputs, [output], **attributes)[0]

    def ops(
        self, op_type: str, inputs: Sequence[str], outputs: Sequence[str], **attributes: Any
    ) -> list[str]:
        """Add one node with several outputs."""
        names = [name if name in (INPUT_NAME, OUTPUT_NAME) else PREFIX + name for name in outputs]
        node = helper.make_node(op_type, list(inputs), names, name=names[0] + "/op", **attributes)
        self.nodes.append(node)
        return names

    def constant(self, name: str, value: npt.ArrayLike, dtype: npt.DTypeLike) -> str:
        """Add one constant tensor."""
        tensor = numpy_helper.from_array(np.asarray(value, dtype=dtype), PREFIX + name)
        self.constants.append(tensor)
        return PREFIX + name

    def slice_channels(self, tensor: str, start: int, end: int, output: str) -> str:
        """Add `tensor[:, start:end]`."""
        bounds = [
            self.constant(f"{output}/{part}", [value], np.int64)
            for part, value in (("start", start), ("end", end), ("axis", 1))
        ]
        return self.op("Slice", [tensor, *bounds], output)


def graft_detector(
    raw: ModelProto, settings: NmsSettings | None = None, input_size_px: int = INPUT_SIZE_PX
) -> ModelProto:
    """Turn a raw YOLO export into the detector that is served.

    raw: input float32 `[batch, 3, H, W]` (RGB, 0..1), one output float32
        `[batch, 4 + classes, anchors]` (centre x, centre y, width, height in input pixels, then one
        0..1 score a class), class names in its metadata. It is not changed.
    settings: IoU limit, score floor and row count; the defaults are the served ones.
    Returns a model with input `LETTERBOXED` uint8 `[batch, 3, S, S]` and output `DETECTIONS`
        float32 `[batch, max_detections, 6]`: x1, y1, x2, y2 (letterboxed pixels, not clipped),
        score, class; best score first, all-zero rows as padding.
    Raises ValueError when `raw` is not such a model.
    Source of the recipe: `non_max_suppression` of Ultralytics 8.4 (one label an anchor,
        `max_wh=7680`), restated as a graph.
    """
    settings = settings or NmsSettings()
    model = simplify_dfl(raw)
    num_classes = len(class_names(model))
    _check_raw(model, num_classes, settings.max_detections)

    graph = model.graph
    prefix = _scaling_nodes(graph.input[0].name)
    suffix = _suppression_nodes(graph.output[0].name, num_classes, settings)
    nodes = [*prefix.nodes, *graph.node, *suffix.nodes]
    del graph.node[:], graph.input[:], graph.output[:], graph.value_info[:]
    graph.node.extend(nodes)
    graph.initializer.extend([*prefix.constants, *suffix.constants])
    side = input_size_px
    graph.input.append(
        helper.make_tensor_value_info(INPUT_NAME, TensorProto.UINT8, ["batch", 3, side, side])
    )
    graph.output.append(
        helper.make_tensor_value_info(
            OUTPUT_NAME, TensorProto.FLOAT, ["batch", settings.max_detections, 6]
        )
    )
    _record_settings(model, settings)
    onnx.checker.check_model(model)
    return model


def class_names(model: ModelProto) -> list[str]:
    """Read the class names that Ultralytics writes into a model's metadata.

    Returns one name a class, in class order.
    Raises ValueError when the entry is missing or is not a mapping of 0..n-1 to text.
    """
    entries = {entry.key: entry.value for entry in model.metadata_props}
    if "names" not in entries:
        raise ValueError("metadata 'names': expected a mapping of class id to name, got none")
    try:
        names = ast.literal_eval(entries["names"])
    except (SyntaxError, ValueError) as error:
        raise ValueError(f"metadata 'names': not readable: {entries['names'][:80]!r}") from error
    if not isinstance(names, dict) or sorted(names) != list(range(len(names))) or not names:
        raise ValueError(f"metadata 'names': expected ids 0..n-1, got {entries['names'][:80]!r}")
    return [str(names[index]) for index in range(len(names))]


def _check_raw(model: ModelProto, num_classes: int, max_detections: int) -> None:
    """Raise ValueError unless the model has the one input and the one raw head that we graft on."""
    opset = opset_version(model)
    if opset < MIN_OPSET:
        raise ValueError(f"opset: expected at least {MIN_OPSET}, got {opset}")
    graph = model.graph
    constants = {tensor.name for tensor in graph.initializer}
    inputs = [value for value in graph.input if value.name not in constants]
    if len(inputs) != 1 or len(graph.output) != 1:
        raise ValueError(
            f"inputs/outputs: expected one of each, got {len(inputs)} and {len(graph.output)}"
        )
    _check_float(inputs[0], "input", rank=4)
    _check_float(graph.output[0], "output", rank=3)
    channels = graph.output[0].type.tensor_type.shape.dim[1]
    if channels.HasField("dim_value") and channels.dim_value != 4 + num_classes:
        raise ValueError(
            f"output '{graph.output[0].name}': expected 4 + {num_classes} channels "
            f"for the {num_classes} class names, got {channels.dim_value}"
        )
    anchors = graph.output[0].type.tensor_type.shape.dim[2]
    if anchors.HasField("dim_value") and anchors.dim_value < max_detections:
        raise ValueError(
            f"anchors: expected at least {max_detections} (max_detections), got {anchors.dim_value}"
        )


def _check_float(value: onnx.ValueInfoProto, role: str, rank: int) -> None:
    tensor = value.type.tensor_type
    got = (TensorProto.DataType.Name(tensor.elem_type), len(tensor.shape.dim))
    if got != ("FLOAT", rank):
        raise ValueError(f"{role} '{value.name}': expected FLOAT of rank {rank}, got {got}")


def _scaling_nodes(raw_input: str) -> _Suffix:
    """uint8 0..255 -> float32 0..1, into the tensor that was the raw model's input."""
    part = _Suffix()
    as_float = part.op("Cast", [INPUT_NAME], "pixels", to=TensorProto.FLOAT)
    white = part.constant("white", 255.0, np.float32)
    part.nodes.append(
        helper.make_node("Div", [as_float, white], [raw_input], name=PREFIX + "scaled/op")
    )
    return part


def _suppression_nodes(head: str, num_classes: int, settings: NmsSettings) -> _Suffix:
    """Raw head `[b, 4 + c, a]` -> `DETECTIONS [b, max_detections, 6]`."""
    part = _Suffix()
    boxes_xyxy = _boxes_xyxy(part, head)
    best_score, best_class = _best_class(part, head, num_classes)
    kept_scores = _suppress(part, boxes_xyxy, best_score, best_class, settings)
    _top_rows(part, boxes_xyxy, best_score, best_class, kept_scores, settings.max_detections)
    return part


def _boxes_xyxy(part: _Suffix, head: str) -> str:
    """Centre and size in channels 0..3 -> corners `[b, a, 4]`, as centre ± size / 2."""
    centre = part.slice_channels(head, 0, 2, "centre")
    size = part.slice_channels(head, 2, 4, "size")
    half = part.op("Div", [size, part.constant("two", 2.0, np.float32)], "half")
    top_left = part.op("Sub", [centre, half], "top_left")
    bottom_right = part.op("Add", [centre, half], "bottom_right")
    corners = part.op("Concat", [top_left, bottom_right], "corners", axis=1)
    return part.op("Transpose", [corners], "boxes_xyxy", perm=[0, 2, 1])


def _best_class(part: _Suffix, head: str, num_classes: int) -> tuple[str, str]:
    """Class channels -> best score `[b, 1, a]` and its class, float32 `[b, 1, a]`."""
    scores = part.slice_channels(head, 4, 4 + num_classes, "class_scores")
    index = part.op("ArgMax", [scores], "best_index", axis=1, keepdims=1)
    best_score = part.op("GatherElements", [scores, index], "best_score", axis=1)
    best_class = part.op("Cast", [index], "best_class", to=TensorProto.FLOAT)
    return best_score, best_class


def _suppress(
    part: _Suffix, boxes_xyxy: str, best_score: str, best_class: str, settings: NmsSettings
) -> str:
    """One NonMaxSuppression; returns `[b, a]`: an anchor's score if it survived, else 0."""
    shift = part.op(
        "Mul", [best_class, part.constant("shift_px", CLASS_SHIFT_PX, np.float32)], "shift"
    )
    shift_column = part.op("Transpose", [shift], "shift_column", perm=[0, 2, 1])
    shifted = part.op("Add", [boxes_xyxy, shift_column], "shifted_boxes")
    limits = [
        part.constant("max_detections", [settings.max_detections], np.int64),
        part.constant("iou_threshold", [settings.iou_threshold], np.float32),
        part.constant("score_floor", [settings.score_floor], np.float32),
    ]
    selected = part.op("NonMaxSuppression", [shifted, best_score, *limits], "selected")
    batch_and_anchor = part.constant("batch_and_anchor", [0, 2], np.int64)
    kept = part.op("Gather", [selected, batch_and_anchor], "kept", axis=1)

    class_axis = part.constant("class_axis", [1], np.int64)
    scores = part.op("Squeeze", [best_score, class_axis], "scores")
    shape = part.op("Shape", [scores], "scores_shape")
    zeros = part.op(
        "ConstantOfShape", [shape], "zeros", value=numpy_helper.from_array(np.zeros(1, np.float32))
    )
    kept_scores = part.op("GatherND", [scores, kept], "kept_scores")
    return part.op("ScatterND", [zeros, kept, kept_scores], "surviving_scores")


def _top_rows(
    part: _Suffix,
    boxes_xyxy: str,
    best_score: str,
    best_class: str,
    surviving_scores: str,
    max_detections: int,
) -> None:
    """The best rows `[b, max_detections, 6]`, zeroed where nothing survived."""
    score_and_class = part.op("Concat", [best_score, best_class], "score_and_class", axis=1)
    columns = part.op("Transpose", [score_and_class], "score_class_columns", perm=[0, 2, 1])
    rows = part.op("Concat", [boxes_xyxy, columns], "rows", axis=2)
    count = part.constant("row_count", [max_detections], np.int64)
    top_scores, anchors = part.ops(
        "TopK", [surviving_scores, count], ["top_scores", "top_anchors"], axis=1
    )
    last_axis = part.constant("last_axis", [2], np.int64)
    anchor_column = part.op("Unsqueeze", [anchors, last_axis], "anchor_column")
    top_rows = part.op("GatherND", [rows, anchor_column], "top_rows", batch_dims=1)
    zero = part.constant("zero", 0.0, np.float32)
    alive = part.op("Greater", [top_scores, zero], "alive")
    alive_column = part.op("Unsqueeze", [alive, last_axis], "alive_column")
    part.op("Where", [alive_column, top_rows, zero], OUTPUT_NAME)


def _record_settings(model: ModelProto, settings: NmsSettings) -> None:
    """Write the suppression settings next to the class names, for checks at load."""
    for key, value in (
        ("cropseek.iou_threshold", f"{settings.iou_threshold:g}"),
        ("cropseek.score_floor", f"{settings.score_floor:g}"),
        ("cropseek.max_detections", str(settings.max_detections)),
    ):
        model.metadata_props.append(onnx.StringStringEntryProto(key=key, value=value))
