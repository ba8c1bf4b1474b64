"""Our own models' configurations, for every profile: what their config.pbtxt files are made of.

    python -m cropseek.triton.profiles MODEL_REPOSITORY

A profile is about the machine. What a model takes and gives is the same in every one and written
once, in the functions at the end; what differs is data, in `PROFILES`. `h100` is for the H200 too.

The numbers of `cpu` were measured (docs/performance.md, "The thread plan"). Those of the GPU
profiles are chosen, not measured: nothing of them has run on a GPU (docs/gpu-evidence.md).
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from cropseek.triton.config import (
    Cuda,
    DynamicBatching,
    EnsembleScheduling,
    GraphSpec,
    Input,
    InstanceGroup,
    LowerBound,
    ModelConfig,
    OptimizationPolicy,
    Output,
    QueuePolicy,
    Shape,
    Step,
    Warmup,
    WarmupInput,
)

# As in models.toml: the sides of the detector's and the embedder's squares, a vector's length.
_DETECTOR_SIDE, _CROP_SIDE, _EMBEDDING_DIM = 640, 224, 1280
_QUEUE_TIMEOUT_US = 60_000_000  # a BLS call has no clock of its own; a caller may give it less


@dataclass(frozen=True)
class Leaf:
    """How a profile runs a model that computes.

    `preferred` are batches that are run without waiting for more; `delay_us` is how long a smaller
    one waits. `graphs` are the batches that a CUDA graph is captured for. `parameters` are the
    backend's.
    """

    backend: str
    instances: InstanceGroup
    max_batch_size: int
    preferred: tuple[int, ...] = ()
    delay_us: int | None = None
    max_queue_size: int | None = None
    graphs: tuple[int, ...] = ()
    parameters: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Profile:
    """How a kind of machine runs the models."""

    preprocess: Leaf
    detector: Leaf
    embedder: Leaf
    vector_search: Leaf
    image_search: InstanceGroup


def _on_cpu(count: int) -> InstanceGroup:
    return InstanceGroup(kind="KIND_CPU", count=count)


def _on_gpu(count: int) -> InstanceGroup:
    return InstanceGroup(kind="KIND_GPU", count=count)


# Here the launcher sets the counts of `detector`, `embedder` and `image_search` by the cores
# (triton/repository.py); written are those of two.
_CPU = Profile(
    # One process, as many threads as cores.
    preprocess=Leaf("python", _on_cpu(1), max_batch_size=8),
    # One a core, each on one thread; more rows a run leave the cache.
    detector=Leaf("onnxruntime", _on_cpu(2), max_batch_size=1, parameters={"rows_per_run": "1"}),
    embedder=Leaf("onnxruntime", _on_cpu(2), max_batch_size=8, parameters={"rows_per_run": "2"}),
    # One: each instance is a process with a copy of the index. 300 objects, the picture, and room.
    vector_search=Leaf("python", _on_cpu(1), max_batch_size=512),
    image_search=_on_cpu(4),  # each works on one picture, and mostly waits
)

# Bounds what is kept for callers that come past the service. A full queue is refused, and through
# BLS that arrives as INTERNAL; so it is more than the `image_search` instances of any machine,
# each of which waits for one answer at a time.
_MOST_WAITING = 256


def _gpu_profile(detector: Leaf, embedder: Leaf, image_searches: int) -> Profile:
    """Return a profile with what all GPUs have in common.

    Counts with KIND_GPU are per GPU, so a machine with several needs no other profile.
    """
    return Profile(
        # One: each instance has memory pools of its own. A batch is what came while it was busy.
        # The same in every GPU profile: DALI reads max_batch_size from the one root config.pbtxt.
        # Threads for what DALI decodes on the CPU: PNG, WebP, BMP, and a part of each JPEG where
        # the GPU has no decoder for it. Chosen, not measured.
        preprocess=Leaf(
            "dali",
            _on_gpu(1),
            max_batch_size=16,
            max_queue_size=_MOST_WAITING,
            parameters={"num_threads": "4"},
        ),
        detector=detector,
        embedder=embedder,
        # The index is in host memory, as in `cpu`: one a machine, not one a GPU.
        vector_search=Leaf("python", _on_cpu(1), max_batch_size=512, max_queue_size=_MOST_WAITING),
        # On the GPU, so that an instance has a device to take the frame on. Several, as each works
        # on one picture; each is a process, and one that uses CUDA takes 0.5 to 0.9 GB of it.
        # FORCE_CPU_ONLY_INPUT_TENSORS stays at its default: it is about a model's inputs, and the
        # input here is encoded bytes. The frame is an answer to a BLS call, which no parameter of
        # the configuration moves.
        image_search=_on_gpu(image_searches),
    )


def _plan(
    instances: int,
    *,
    max_batch_size: int,
    delay_us: int,
    graphs: tuple[int, ...],
    preferred: tuple[int, ...] = (),
) -> Leaf:
    """Return how a TensorRT plan is run; a batch must be within its optimisation profile."""
    return Leaf(
        "tensorrt",
        _on_gpu(instances),
        max_batch_size,
        preferred=preferred,
        delay_us=delay_us,
        max_queue_size=_MOST_WAITING,
        graphs=graphs,
    )


# The reasons behind the numbers, all chosen and not measured:
# - The detector's rows come one a request, at most one from each `image_search`: a preferred batch
#   must be no more than those, or each batch would wait its whole delay for one that cannot come.
# - The embedder's requests hold as many rows as a picture has objects, so batches of an exact size
#   are chance: it has no preferred ones.
# - Two instances copy for one batch while the other is computed; a T4 is filled by one.
# - A delay is paid by a lone picture as well: short, and shorter on a faster GPU.
# - A graph saves launches, which matter while a batch is small against the GPU. It also serves the
#   batches down to the next smaller graph, so these are powers of two. Nothing in the plans may
#   have a size that depends on the data: such a graph cannot be captured.
PROFILES: Mapping[str, Profile] = {
    "cpu": _CPU,
    "t4": _gpu_profile(
        _plan(1, max_batch_size=8, preferred=(4,), delay_us=1000, graphs=(1, 2, 4)),
        _plan(1, max_batch_size=32, delay_us=1000, graphs=(1, 2, 4, 8)),
        image_searches=6,  # a third of its 16 GB, if each takes CUDA
    ),
    "a100": _gpu_profile(
        _plan(2, max_batch_size=16, preferred=(8,), delay_us=500, graphs=(1, 2, 4, 8)),
        _plan(2, max_batch_size=64, delay_us=500, graphs=(1, 2, 4, 8, 16)),
        image_searches=12,  # more than the detector's preferred batch, so that one fills up
    ),
    "h100": _gpu_profile(
        _plan(2, max_batch_size=16, preferred=(8, 16), delay_us=300, graphs=(1, 2, 4, 8)),
        _plan(2, max_batch_size=128, delay_us=300, graphs=(1, 2, 4, 8, 16, 32)),
        image_searches=16,  # as many as the detector's largest batch
    ),
}


def model_configs(profile_name: str) -> dict[str, ModelConfig]:
    """Return every model's configuration for a profile, by name; raises `KeyError`."""
    profile = PROFILES[profile_name]
    configs = (
        _detect(),
        _detector(profile),
        _embedder(profile),
        _image_search(profile),
        _preprocess(profile),
        _vector_search(profile),
    )
    return {str(config.name): config for config in configs}


def rendered_files() -> dict[str, str]:
    """Return the text of every configuration file, by its path in the model repository."""
    files = {
        f"{name}/configs/{profile}.pbtxt": _HEADER + _ABOUT[name] + config.to_pbtxt()
        for profile in PROFILES
        for name, config in model_configs(profile).items()
    }
    dali = model_configs("t4")["preprocess"].to_pbtxt()
    return files | {"preprocess/config.pbtxt": _HEADER + _ABOUT_ROOT + dali}


def main(arguments: Sequence[str] | None = None) -> None:
    """Write the configuration files into a model repository."""
    parser = argparse.ArgumentParser(
        prog="python -m cropseek.triton.profiles",
        description="Write every model's config.pbtxt files, for every profile.",
    )
    parser.add_argument("repository", type=Path, metavar="MODEL_REPOSITORY")
    repository: Path = parser.parse_args(arguments).repository
    for path, text in rendered_files().items():
        (repository / path).parent.mkdir(parents=True, exist_ok=True)
        (repository / path).write_text(text, encoding="utf-8")


_HEADER = """\
# Rendered by `make configs` from service/cropseek/triton/profiles.py: do not edit.
#
"""
_ABOUT = {
    "detect": """\
# The static part of the path of a picture: decode, letterbox, detect.
""",
    "detector": """\
# DETECTIONS: x1, y1, x2, y2 in letterboxed pixels, score, class; filled up with score 0.
""",
    "embedder": """\
# A vector of length 1 for each crop; scaling and normalising are in the graph.
""",
    "image_search": """\
# One picture in, its regions, vectors and neighbours out. What to do comes as the request
# parameter "options": the JSON of cropseek.types.PictureOptions. crop_side is the embedder's input
# and most_crops the most that one call to it may hold; bls_models are the models called.
""",
    "preprocess": """\
# Encoded bytes to what the detector reads, and how it was fitted.
""",
    "vector_search": """\
# The nearest items of a collection for each row. What a request searches and how many it wants is
# one value in every row, so that requests meet in the batcher; the first row's counts.
""",
}
_ABOUT_ROOT = """\
# The GPU profiles' configuration once more: DALI looks for max_batch_size in this file only.
# What is served is configs/<profile>.pbtxt.
"""


# ---- the models, the same in every profile ------------------------------------------------------

_IMAGE = Input("IMAGE", "TYPE_UINT8", dims=(-1,))  # the bytes of one picture
_LETTERBOXED = Input("LETTERBOXED", "TYPE_UINT8", dims=(3, _DETECTOR_SIDE, _DETECTOR_SIDE))
_CROPS = Input("CROPS", "TYPE_UINT8", dims=(3, _CROP_SIDE, _CROP_SIDE))
_DETECTIONS = Output("DETECTIONS", "TYPE_FP32", dims=(300, 6))
_FITTED = Output("FITTED", "TYPE_INT32", dims=(6,))
_FRAME = Output("FRAME", "TYPE_UINT8", dims=(-1, -1, 3))


def _detect() -> ModelConfig:
    """An ensemble: no batcher, no instances, no warm-up (it would stop the server).

    It maps every output of `preprocess`, since DALI refuses a request that does not ask for all.
    """
    decode = Step(
        "preprocess",
        -1,
        {"IMAGE": "IMAGE"},
        {"LETTERBOXED": "letterboxed", "FITTED": "FITTED", "FRAME": "FRAME"},
    )
    detect = Step("detector", -1, {"LETTERBOXED": "letterboxed"}, {"DETECTIONS": "DETECTIONS"})
    return ModelConfig(
        name="detect",
        platform="ensemble",
        max_batch_size=1,  # pictures meet in the members' batchers
        input=(_IMAGE,),
        output=(_DETECTIONS, _FITTED, _FRAME),
        ensemble_scheduling=EnsembleScheduling((decode, detect)),
    )


def _preprocess(profile: Profile) -> ModelConfig:
    """Not warmed up: DALI would need a real JPEG; the launcher sends one through everything."""
    return _leaf(
        "preprocess",
        profile.preprocess,
        # Else only pictures of equal length would share a batch.
        (Input("IMAGE", "TYPE_UINT8", dims=(-1,), allow_ragged_batch=True),),
        (Output("LETTERBOXED", "TYPE_UINT8", _LETTERBOXED.dims), _FITTED, _FRAME),
    )


def _detector(profile: Profile) -> ModelConfig:
    return _leaf("detector", profile.detector, (_LETTERBOXED,), (_DETECTIONS,), warm=True)


def _embedder(profile: Profile) -> ModelConfig:
    embeddings = Output("EMBEDDINGS", "TYPE_FP32", dims=(_EMBEDDING_DIM,))
    return _leaf("embedder", profile.embedder, (_CROPS,), (embeddings,), warm=True)


def _vector_search(profile: Profile) -> ModelConfig:
    return _leaf(
        "vector_search",
        profile.vector_search,
        (
            Input("QUERIES", "TYPE_FP32", dims=(-1,)),
            Input("COLLECTION", "TYPE_INT64", dims=(1,)),
            Input("TOP_K", "TYPE_INT32", dims=(1,)),
            Input("MIN_SIMILARITY", "TYPE_FP32", dims=(1,)),
        ),
        (
            Output("ITEM_IDS", "TYPE_INT64", dims=(-1,)),
            Output("SIMILARITIES", "TYPE_FP32", dims=(-1,)),
            Output("INDEX_SEQUENCE", "TYPE_INT64", dims=(1,)),
        ),
    )


def _image_search(profile: Profile) -> ModelConfig:
    """BLS: not warmed up, since the models that it calls are not ready then."""
    return ModelConfig(
        name="image_search",
        backend="python",
        max_batch_size=1,
        input=(_IMAGE,),
        output=(
            Output("SIZE_WH", "TYPE_INT32", dims=(2,)),
            Output("BOXES_XYXY", "TYPE_FP32", dims=(-1, 4)),
            Output("SCORES", "TYPE_FP32", dims=(-1,)),
            Output("CLASS_IDS", "TYPE_INT32", dims=(-1,)),
            Output("TRUNCATED", "TYPE_BOOL", dims=(1,)),
            Output("EMBEDDINGS", "TYPE_FP32", dims=(-1, -1)),
            Output("ITEM_IDS", "TYPE_INT64", dims=(-1, -1)),
            Output("SIMILARITIES", "TYPE_FP32", dims=(-1, -1)),
            Output("INDEX_SEQUENCE", "TYPE_INT64", dims=(1,)),
            Output("STAGES_MS", "TYPE_FP32", dims=(4,)),
        ),
        instance_group=(profile.image_search,),
        parameters={
            "bls_models": "detect,embedder,vector_search",
            "crop_side": str(_CROP_SIDE),
            "most_crops": str(profile.embedder.max_batch_size),
        },
    )


def _leaf(
    name: str,
    leaf: Leaf,
    inputs: tuple[Input, ...],
    outputs: tuple[Output, ...],
    *,
    warm: bool = False,
) -> ModelConfig:
    """Return the configuration of a model that computes; `warm` runs zeros before it is ready."""
    return ModelConfig(
        name=name,
        platform="tensorrt_plan" if leaf.backend == "tensorrt" else None,
        backend=leaf.backend,
        max_batch_size=leaf.max_batch_size,
        input=inputs,
        output=outputs,
        optimization=_graphs(inputs, leaf.graphs) if leaf.graphs else None,
        dynamic_batching=DynamicBatching(
            preferred_batch_size=leaf.preferred,
            max_queue_delay_microseconds=leaf.delay_us,
            default_queue_policy=QueuePolicy(
                default_timeout_microseconds=_QUEUE_TIMEOUT_US,
                allow_timeout_override=True,
                max_queue_size=leaf.max_queue_size,
            ),
        ),
        instance_group=(leaf.instances,),
        parameters=leaf.parameters,
        model_warmup=_warmup(inputs, leaf.max_batch_size) if warm else (),
    )


def _graphs(inputs: tuple[Input, ...], batches: tuple[int, ...]) -> OptimizationPolicy:
    """Return that a CUDA graph is captured for each batch, and serves all above the one before."""
    shapes = {str(tensor.name): Shape(tensor.dims) for tensor in inputs}
    specs = tuple(
        GraphSpec(batch, shapes, LowerBound(before + 1, shapes))
        for before, batch in zip((0, *batches[:-1]), batches, strict=True)
    )
    return OptimizationPolicy(cuda=Cuda(graphs=True, graph_spec=specs))


def _warmup(inputs: tuple[Input, ...], most: int) -> tuple[Warmup, ...]:
    """Return one row, and as many as a batch holds."""
    zeros = {
        str(tensor.name): WarmupInput(tensor.data_type, tensor.dims, zero_data=True)
        for tensor in inputs
    }
    rows = {"one row": 1} | ({"many rows": most} if most > 1 else {})
    return tuple(Warmup(name, batch, zeros) for name, batch in rows.items())


if __name__ == "__main__":
    main()
