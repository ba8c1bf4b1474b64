"""The committed embedder against the PyTorch model it was made from (needs the `export` extra)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import onnxruntime as ort
import pytest

from cropseek_export import embedder, publish
from cropseek_export.manifest import read_manifest
from cropseek_export.onnx_passes import serialise, sha256_hex

torch: Any = pytest.importorskip("torch")
cv2: Any = pytest.importorskip("cv2")
photographs: Any = pytest.importorskip("skimage.data")
pytest.importorskip("efficientnet_lite_pytorch")

Crops = npt.NDArray[np.uint8]
Vectors = npt.NDArray[np.float32]

REPOSITORY = Path(__file__).parents[2] / "model_repository"


@pytest.fixture(scope="module")
def crops() -> Crops:
    """Two plain pictures, then five photographs in quarters and whole: `[27, 3, 224, 224]`, RGB."""
    names = ("astronaut", "chelsea", "coffee", "rocket", "immunohistochemistry")
    parts: list[Crops] = [np.full((64, 64, 3), level, np.uint8) for level in (0, 255)]
    for photo in (getattr(photographs, name)() for name in names):
        middle_y, middle_x = photo.shape[0] // 2, photo.shape[1] // 2
        for rows in (slice(None, middle_y), slice(middle_y, None)):
            parts += [photo[rows, :middle_x], photo[rows, middle_x:]]
        parts.append(photo)
    resized = [cv2.resize(part, (224, 224), interpolation=cv2.INTER_AREA) for part in parts]
    return np.ascontiguousarray(np.stack(resized).transpose(0, 3, 1, 2))


@pytest.fixture(scope="module")
def original(crops: Crops) -> Vectors:
    """What the PyTorch model says, straight from its own layers, with nothing of ours between."""
    backbone = embedder.load_backbone()
    with torch.no_grad():
        features = backbone.extract_features((torch.from_numpy(crops).float() - 127) / 128)
        pooled = features.mean(dim=(2, 3))
        vectors: Vectors = (pooled / pooled.norm(dim=1, keepdim=True)).numpy()
    return vectors


@pytest.fixture(scope="module")
def served() -> ort.InferenceSession:
    """The committed embedder on the CPU."""
    path = REPOSITORY / read_manifest(REPOSITORY)["embedder"]["file"]
    return ort.InferenceSession(str(path), providers=["CPUExecutionProvider"])


def embed(session: ort.InferenceSession, crops: Crops) -> Vectors:
    """Run an embedder."""
    vectors: Vectors = session.run(["EMBEDDINGS"], {"CROPS": crops})[0]
    return vectors


def cosines(one: Vectors, other: Vectors) -> Vectors:
    """Row by row, of unit vectors."""
    result: Vectors = (one.astype(np.float64) * other).sum(axis=1)
    return result


def test_the_signature_is_the_agreed_one(served: ort.InferenceSession) -> None:
    """One uint8 input, one float32 output, the batch open."""
    (given,), (found,) = served.get_inputs(), served.get_outputs()
    assert (given.name, given.type, given.shape) == (
        "CROPS",
        "tensor(uint8)",
        ["batch", 3, 224, 224],
    )
    assert (found.name, found.type, found.shape) == ("EMBEDDINGS", "tensor(float)", ["batch", 1280])


def test_the_committed_file_says_what_pytorch_says(
    served: ort.InferenceSession, crops: Crops, original: Vectors
) -> None:
    """Cosine above 0.999 on every crop, and unit length."""
    vectors = embed(served, crops)
    lowest = cosines(vectors, original).min()
    print(f"lowest cosine to PyTorch on {len(crops)} crops: {lowest:.6f}")
    assert lowest > 0.999
    np.testing.assert_allclose(np.linalg.norm(vectors, axis=1), 1, atol=1e-5)


def test_a_row_of_a_batch_is_the_result_of_its_crop(
    served: ort.InferenceSession, crops: Crops
) -> None:
    """Cosine above 0.9999 between a crop alone and the same crop among others."""
    alone = np.concatenate([embed(served, crop[None]) for crop in crops])
    lowest = cosines(embed(served, crops), alone).min()
    print(f"lowest cosine of a batch row to the crop alone: {lowest:.7f}")
    assert lowest > 0.9999


def test_it_tells_pictures_apart(served: ort.InferenceSession, crops: Crops) -> None:
    """Different photographs are not near-copies of each other, so the cosines above mean something.

    The whole photographs are every fifth crop after the two plain ones.
    """
    whole = embed(served, crops[6::5])
    between = (whole @ whole.T)[np.triu_indices(len(whole), 1)]
    assert len(whole) == 5
    assert between.max() < 0.9


def test_grey_127_is_still_a_unit_vector(served: ort.InferenceSession) -> None:
    """A flat picture of exactly 127 normalises to zeros: no features to speak of, but no NaN.

    Its pooled features have a length of 0.005 (a photograph's: 6 to 17), so rounding turns its
    direction: 0.9975 to PyTorch. No other crop tried comes below 0.9999.
    """
    vector = embed(served, np.full((1, 3, 224, 224), 127, np.uint8))
    np.testing.assert_allclose(np.linalg.norm(vector), 1, atol=1e-5)


def test_exporting_again_gives_the_files_of_the_manifest() -> None:
    """The same torch gives the same source and served bytes; another torch, the same vectors."""
    table = read_manifest(REPOSITORY)["embedder"]
    source, served_again = publish.embedder_models()
    found = (sha256_hex(serialise(source)), sha256_hex(serialise(served_again)))
    made_with = table["made_with"].split(", ")
    if f"torch {torch.__version__.split('+')[0]}" not in made_with:
        pytest.skip(f"made with {table['made_with']}, this is torch {torch.__version__}")
    assert found == (table["source_sha256"], table["sha256"])


def test_a_module_in_training_mode_is_refused() -> None:
    """Its batch norms would follow the batch instead of the weights."""
    module = embedder.embedder_module(embedder.load_backbone())
    with pytest.raises(ValueError, match="expected eval mode, got training mode"):
        embedder.export_fp32(module.train())
