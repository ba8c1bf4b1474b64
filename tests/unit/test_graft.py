"""The grafted detector: suppression on made-up heads, the real file, and the committed files."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
import onnxruntime as ort
import pytest
from onnx import ModelProto, TensorProto, helper, numpy_helper

from cropseek_export import graft, publish
from cropseek_export.dfl import simplify_dfl
from cropseek_export.manifest import read_manifest

Floats = npt.NDArray[np.float32]

REPOSITORY = Path(__file__).parents[2] / "model_repository"
REGENERATE = "run: python -m cropseek_export all --repository model_repository"
SIDE_PX = 32  # of the pictures that the made-up heads ignore, but for one pixel
ANCHORS = 400
CLASSES = 3
NAMES = "{0: 'cat', 1: 'dog', 2: 'cup'}"


# ---- made-up heads: the value of a picture's first pixel says which head it gets ----------------


def empty_head() -> Floats:
    """A head `[4 + classes, anchors]` that has found nothing."""
    return np.zeros((4 + CLASSES, ANCHORS), np.float32)


def head_of(*objects: tuple[tuple[float, float, float, float], float, int]) -> Floats:
    """A head with these (x1 y1 x2 y2, score, class) objects on its first anchors."""
    head = empty_head()
    for anchor, ((x1, y1, x2, y2), score, class_id) in enumerate(objects):
        head[:4, anchor] = ((x1 + x2) / 2, (y1 + y2) / 2, x2 - x1, y2 - y1)
        head[4 + class_id, anchor] = score
    return head


def crowded_head(seed: int) -> Floats:
    """A head of overlapping boxes around a few places, all with different scores."""
    rng = np.random.default_rng(seed)
    head = empty_head()
    places = rng.uniform(50, 590, (12, 2))
    head[:2] = places[rng.integers(0, 12, ANCHORS)].T + rng.normal(0, 8, (2, ANCHORS))
    head[2:4] = rng.uniform(30, 90, (2, ANCHORS))
    scores = rng.permutation(CLASSES * ANCHORS) / (CLASSES * ANCHORS)
    head[4:] = (scores.reshape(CLASSES, ANCHORS) ** 4).astype(np.float32)
    return head


def raw_model(heads: list[Floats], names: str = NAMES, opset: int = 17) -> ModelProto:
    """A raw detector that answers with `heads[first pixel]`, as Ultralytics would export it."""
    nodes = [
        helper.make_node("Slice", ["images", "from", "to", "axes"], ["pixel"]),
        helper.make_node("Reshape", ["pixel", "flat"], ["grey"]),
        helper.make_node("Mul", ["grey", "white"], ["scaled"]),
        helper.make_node("Round", ["scaled"], ["rounded"]),
        helper.make_node("Cast", ["rounded"], ["number"], to=TensorProto.INT64),
        helper.make_node("Gather", ["heads", "number"], ["output0"], axis=0),
    ]
    constants: dict[str, npt.NDArray[Any]] = {
        "from": np.zeros(3, np.int64),
        "to": np.ones(3, np.int64),
        "axes": np.array([1, 2, 3]),
        "flat": np.array([-1]),
        "white": np.array(255, np.float32),
        "heads": np.stack(heads),
    }
    graph = helper.make_graph(
        nodes,
        "raw",
        [value_info("images", ["batch", 3, "height", "width"])],
        [value_info("output0", ["batch", heads[0].shape[0], "anchors"])],
        [numpy_helper.from_array(value, name) for name, value in constants.items()],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8)
    if names:
        model.metadata_props.append(onnx.StringStringEntryProto(key="names", value=names))
    return model


def value_info(name: str, shape: Sequence[int | str], kind: int = TensorProto.FLOAT) -> Any:
    """A graph input or output."""
    return helper.make_tensor_value_info(name, kind, shape)


def session(model: ModelProto | Path) -> ort.InferenceSession:
    """Load a model on the CPU."""
    source = str(model) if isinstance(model, Path) else model.SerializeToString()
    return ort.InferenceSession(source, providers=["CPUExecutionProvider"])


def detect(
    heads: list[Floats], settings: graft.NmsSettings | None = None, opset: int = 17
) -> Floats:
    """Graft onto these heads and run them as one batch: `[heads, max_detections, 6]`."""
    model = graft.graft_detector(raw_model(heads, opset=opset), settings, input_size_px=SIDE_PX)
    pictures = np.zeros((len(heads), 3, SIDE_PX, SIDE_PX), np.uint8)
    pictures[:, 0, 0, 0] = np.arange(len(heads))
    return run(session(model), pictures)


def run(detector: ort.InferenceSession, pictures: npt.NDArray[np.uint8]) -> Floats:
    """Run a grafted detector on `[n, 3, S, S]`."""
    result: Floats = detector.run(["DETECTIONS"], {"LETTERBOXED": pictures})[0]
    return result


# ---- the same suppression, written as loops -----------------------------------------------------


def reference_rows(head: Floats, settings: graft.NmsSettings) -> Floats:
    """Greedy suppression of one head, class by class: `[max_detections, 6]`."""
    scores, classes = head[4:].max(0), head[4:].argmax(0)
    half = head[2:4] / 2
    boxes = np.concatenate([head[:2] - half, head[:2] + half]).T
    kept: list[int] = []
    for anchor in np.argsort(-scores, kind="stable"):
        if scores[anchor] <= settings.score_floor or len(kept) == settings.max_detections:
            break
        rivals = [other for other in kept if classes[other] == classes[anchor]]
        if all(iou(boxes[anchor], boxes[other]) <= settings.iou_threshold for other in rivals):
            kept.append(int(anchor))
    rows = np.zeros((settings.max_detections, 6), np.float32)
    rows[: len(kept)] = np.column_stack([boxes[kept], scores[kept], classes[kept]])
    return rows


def iou(one: Floats, other: Floats) -> float:
    """Intersection over union of two xyxy boxes."""
    width, height = np.minimum(one[2:], other[2:]) - np.maximum(one[:2], other[:2])
    overlap = max(width, 0) * max(height, 0)
    areas = [(box[2] - box[0]) * (box[3] - box[1]) for box in (one, other)]
    return float(overlap / (sum(areas) - overlap))


# ---- suppression --------------------------------------------------------------------------------

FAR_LEFT, NEAR_IT, FAR_RIGHT = (10, 10, 110, 110), (12, 10, 112, 110), (400, 10, 500, 110)


@pytest.mark.parametrize(
    ("objects", "expected"),
    [
        ([], []),  # a picture of nothing
        ([(FAR_LEFT, 0.9, 1)], [(FAR_LEFT, 0.9, 1)]),  # one object
        ([(FAR_LEFT, 0.5, 1), (NEAR_IT, 0.9, 1)], [(NEAR_IT, 0.9, 1)]),  # same class, overlapping
        (  # different class, overlapping: both stay, best first
            [(FAR_LEFT, 0.5, 1), (NEAR_IT, 0.9, 2)],
            [(NEAR_IT, 0.9, 2), (FAR_LEFT, 0.5, 1)],
        ),
        (  # same class, apart: both stay
            [(FAR_LEFT, 0.9, 0), (FAR_RIGHT, 0.5, 0)],
            [(FAR_LEFT, 0.9, 0), (FAR_RIGHT, 0.5, 0)],
        ),
        ([(FAR_LEFT, 0.001, 1)], []),  # at the floor is not above it
        ([(FAR_LEFT, 0.0011, 1)], [(FAR_LEFT, 0.0011, 1)]),  # just above the floor
    ],
)
def test_rows_of_a_few_objects(objects: list[Any], expected: list[Any]) -> None:
    """Each case gives its rows, then zeros."""
    rows = detect([head_of(*objects)])[0]
    wanted = np.zeros((300, 6), np.float32)
    for row, (box, score, class_id) in zip(wanted, expected, strict=False):
        row[:] = (*box, score, class_id)
    np.testing.assert_allclose(rows, wanted, rtol=1e-6)


def test_more_than_300_objects_keep_the_300_best() -> None:
    """400 boxes that touch nobody: the best 300, in order."""
    objects = [
        ((x, y, x + 20.0, y + 20.0), 0.1 + 0.002 * (index * 7 % ANCHORS), index % CLASSES)
        for index, (x, y) in enumerate((25.0 * (i % 20), 25.0 * (i // 20)) for i in range(ANCHORS))
    ]
    rows = detect([head_of(*objects)])[0]
    best = sorted((score for _, score, _ in objects), reverse=True)[:300]
    np.testing.assert_allclose(rows[:, 4], best, rtol=1e-6)


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize(
    "settings",
    [
        graft.NmsSettings(),
        graft.NmsSettings(iou_threshold=0.45, score_floor=0.25, max_detections=20),
        graft.NmsSettings(iou_threshold=1.0, score_floor=0.0, max_detections=ANCHORS),
    ],
)
def test_crowds_match_the_loops(seed: int, settings: graft.NmsSettings) -> None:
    """Crowded heads give what greedy suppression in NumPy gives."""
    head = crowded_head(seed)
    rows = detect([head], settings)[0]
    np.testing.assert_allclose(rows, reference_rows(head, settings), rtol=0, atol=2e-4)


def test_a_batch_gives_each_picture_its_own_result() -> None:
    """Rows of a batch of eight, two of them empty, are the bits of eight batches of one."""
    heads = [crowded_head(seed) for seed in range(8)]
    heads[3] = heads[7] = empty_head()
    together = detect(heads)
    alone = np.concatenate([detect([head]) for head in heads])
    np.testing.assert_array_equal(together, alone)
    assert not together[3].any()
    assert together[2].any()


@pytest.mark.parametrize("opset", [13, 17, 18, 21])
def test_any_opset_from_13_on(opset: int) -> None:
    """Operators whose attributes became inputs are written for the model's own version."""
    head = crowded_head(1)
    np.testing.assert_allclose(
        detect([head], opset=opset)[0],
        reference_rows(head, graft.NmsSettings()),
        rtol=0,
        atol=2e-4,
    )


# ---- what is refused, what is kept --------------------------------------------------------------


@pytest.mark.parametrize(
    ("field", "value"),
    [("iou_threshold", 1.5), ("iou_threshold", -0.1), ("score_floor", 2.0), ("max_detections", 0)],
)
def test_settings_out_of_range_are_refused(field: str, value: float) -> None:
    """The message names the field and what came."""
    with pytest.raises(ValueError, match=rf"{field}: expected .* got {value}"):
        graft.NmsSettings(**{field: value})  # type: ignore[arg-type]


def other_input(model: ModelProto, kind: int = TensorProto.FLOAT, rank: int = 4) -> None:
    """Replace the declared input."""
    shape: list[int | str] = ["n", 3, 8, 8]
    model.graph.input[0].CopyFrom(value_info("images", shape[:rank], kind))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda model: model.metadata_props.pop(), "metadata 'names'.*got none"),
        (lambda model: model.opset_import[0].CopyFrom(helper.make_opsetid("", 12)), "opset.*12"),
        (lambda model: model.graph.output.append(model.graph.input[0]), "got 1 and 2"),
        (lambda model: other_input(model, TensorProto.FLOAT16), "input 'images'.*FLOAT16"),
        (lambda model: other_input(model, rank=3), "input 'images'.*rank 4.*3"),
        (
            lambda model: model.graph.output[0].CopyFrom(value_info("output0", ["n", 9, "a"])),
            r"expected 4 \+ 3 channels.*got 9",
        ),
        (
            lambda model: model.graph.output[0].CopyFrom(value_info("output0", ["n", 7, 299])),
            "anchors: expected at least 300.*299",
        ),
    ],
)
def test_a_model_that_is_no_raw_detector_is_refused(change: Any, message: str) -> None:
    """The message says what was expected and what came."""
    raw = raw_model([empty_head()])
    change(raw)
    with pytest.raises(ValueError, match=message):
        graft.graft_detector(raw)


@pytest.mark.parametrize("names", ["cat, dog", "['cat']", "{}", "{1: 'cat'}", "{'a': 'cat'}"])
def test_unreadable_class_names_are_refused(names: str) -> None:
    """Names must be a mapping of 0..n-1."""
    with pytest.raises(ValueError, match="metadata 'names'"):
        graft.class_names(raw_model([empty_head()], names))


def test_names_and_settings_travel_with_the_model_and_the_raw_one_is_left_alone() -> None:
    """Metadata keeps the class names and gains the suppression settings."""
    raw = raw_model([empty_head()])
    before = raw.SerializeToString()
    served = graft.graft_detector(raw, graft.NmsSettings(0.5, 0.01, 100))
    assert raw.SerializeToString() == before
    assert graft.class_names(served) == ["cat", "dog", "cup"]
    settings = {entry.key: entry.value for entry in served.metadata_props}
    assert settings["cropseek.iou_threshold"] == "0.5"
    assert settings["cropseek.score_floor"] == "0.01"
    assert settings["cropseek.max_detections"] == "100"


# ---- the real detector --------------------------------------------------------------------------


@pytest.fixture(scope="module")
def pictures() -> npt.NDArray[np.uint8]:
    """Eight pictures `[8, 3, 640, 640]`: photographs, their mirror images, noise and plain grey."""
    data = pytest.importorskip("skimage.data")
    photos = [fit(getattr(data, name)()) for name in ("astronaut", "chelsea", "coffee")]
    noise = np.random.default_rng(0).integers(0, 256, (640, 640, 3), np.uint8)
    grey = np.full((640, 640, 3), 114, np.uint8)
    every = [*photos, grey, *(photo[:, ::-1] for photo in photos), noise]
    return np.ascontiguousarray(np.stack(every).transpose(0, 3, 1, 2))


def fit(photo: npt.NDArray[np.uint8]) -> npt.NDArray[np.uint8]:
    """Cut or pad a photograph to 640 x 640."""
    canvas = np.full((640, 640, 3), 114, np.uint8)
    part = photo[:640, :640]
    canvas[: part.shape[0], : part.shape[1]] = part
    return canvas


@pytest.fixture(scope="module")
def served() -> ort.InferenceSession:
    """The committed detector."""
    return session(REPOSITORY / "detector/1/model.onnx")


def test_the_served_detector_has_the_agreed_signature(served: ort.InferenceSession) -> None:
    """One uint8 input, one float32 output, the batch open, the names inside."""
    (given,), (found,) = served.get_inputs(), served.get_outputs()
    assert (given.name, given.type, given.shape) == (
        "LETTERBOXED",
        "tensor(uint8)",
        ["batch", 3, 640, 640],
    )
    assert (found.name, found.type, found.shape) == (
        "DETECTIONS",
        "tensor(float)",
        ["batch", 300, 6],
    )
    assert "'person'" in served.get_modelmeta().custom_metadata_map["names"]


def test_eight_real_pictures_in_a_batch_equal_one_by_one(
    served: ort.InferenceSession, pictures: npt.NDArray[np.uint8]
) -> None:
    """Row i of a batch is the result of picture i; plain grey has no row at all."""
    together = run(served, pictures)
    alone = np.concatenate([run(served, picture[None]) for picture in pictures])
    np.testing.assert_allclose(together, alone, rtol=0, atol=1e-3)
    assert (together[:3, 0, 4] > 0.5).all()  # an astronaut, a cat, a cup
    assert not (together[3, :, 4] > 0.05).any()


def test_the_served_detector_equals_loops_on_its_own_raw_head(
    served: ort.InferenceSession, pictures: npt.NDArray[np.uint8]
) -> None:
    """Raw head of the packaged file + NumPy suppression = the graft, to a thousandth of a pixel."""
    raw = session(publish.RAW_DETECTOR.locate())
    heads: Floats = raw.run(None, {"images": pictures[:3].astype(np.float32) / 255})[0]
    wanted = np.stack([reference_rows(head, graft.NmsSettings()) for head in heads])
    found = run(served, pictures[:3])
    confident = wanted[..., 4] > 0.01  # below, equal scores may swap places
    np.testing.assert_allclose(found[confident], wanted[confident], rtol=0, atol=2e-3)


def test_the_cheaper_box_decoding_gives_the_same_head(pictures: npt.NDArray[np.uint8]) -> None:
    """Without DFL's softmax: the same boxes to a thousandth of a pixel, the same scores."""
    raw = onnx.load(publish.RAW_DETECTOR.locate())
    simpler = simplify_dfl(raw)
    assert len(simpler.graph.node) != len(raw.graph.node)
    images = pictures[:2].astype(np.float32) / 255
    wanted, found = (session(model).run(None, {"images": images})[0] for model in (raw, simpler))
    np.testing.assert_allclose(found, wanted, rtol=0, atol=1e-3)


def test_a_model_without_dfl_is_left_as_it_is() -> None:
    """No decoder, no change."""
    raw = raw_model([empty_head()])
    assert simplify_dfl(raw) == raw


# ---- the committed files ------------------------------------------------------------------------


def sha256(path: Path) -> str:
    """Of a file, in hex."""
    return hashlib.sha256(path.read_bytes()).hexdigest()


def test_regenerating_the_detector_gives_the_committed_file() -> None:
    """The committed detector is what the code makes from the packaged weights, to the byte."""
    table = read_manifest(REPOSITORY)["detector"]
    settings = graft.NmsSettings(
        table["iou_threshold"], table["score_floor"], table["max_detections"]
    )
    made = hashlib.sha256(publish.detector_bytes(settings)).hexdigest()
    assert made == table["sha256"], REGENERATE


@pytest.mark.parametrize(
    ("role", "file", "digest"),
    [
        ("detector", "file", "sha256"),
        ("detector", "labels", "labels_sha256"),
        ("embedder", "file", "sha256"),
    ],
)
def test_the_manifest_names_the_committed_files(role: str, file: str, digest: str) -> None:
    """Every file that models.toml names is there, with the sha256 that it says."""
    table = read_manifest(REPOSITORY)[role]
    assert sha256(REPOSITORY / table[file]) == table[digest], REGENERATE


def test_the_manifest_tells_the_detector_apart() -> None:
    """Source, labels and counts agree with the packaged file and the served one."""
    table = read_manifest(REPOSITORY)["detector"]
    assert sha256(publish.RAW_DETECTOR.locate()) == table["source_sha256"]
    names = graft.class_names(onnx.load(REPOSITORY / table["file"]))
    labels = (REPOSITORY / table["labels"]).read_text(encoding="utf-8").splitlines()
    assert labels == names
    assert table["num_classes"] == len(names) == 80


def test_no_machine_path_is_in_a_committed_file() -> None:
    """The served models say nothing of the machine that made them."""
    for role in ("detector", "embedder"):
        data = (REPOSITORY / read_manifest(REPOSITORY)[role]["file"]).read_bytes()
        for place in (str(Path.home()), str(Path(__file__).parents[2]), os.sep + "tmp" + os.sep):
            assert place.encode() not in data
