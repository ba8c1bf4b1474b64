"""Our models' configurations: the files are what is rendered, and every profile keeps the rules."""

from __future__ import annotations

from pathlib import Path

import pytest

from cropseek.triton.client import MODEL
from cropseek.triton.config import InstanceGroup, ModelConfig
from cropseek.triton.pipeline import Pipeline
from cropseek.triton.profiles import PROFILES, main, model_configs, rendered_files
from cropseek.types import MAX_DETECTIONS, PictureOptions
from tests.unit.test_pipeline import IMAGE, SIDE, Models

REPOSITORY = Path(__file__).parents[2] / "model_repository"
MODELS = ["detect", "detector", "embedder", "image_search", "preprocess", "vector_search"]
LEAVES = ["detector", "embedder", "preprocess", "vector_search"]
GPU = ["t4", "a100", "h100"]
CONFIGS = {profile: model_configs(profile) for profile in PROFILES}
EVERY = [(profile, model) for profile in PROFILES for model in MODELS]
EVERY_LEAF = [(profile, model) for profile, model in EVERY if model in LEAVES]
GPU_PLANS = [(profile, model) for profile in GPU for model in ("detector", "embedder")]


def group(config: ModelConfig) -> InstanceGroup:
    """A model's only instance group."""
    (only,) = config.instance_group
    return only


# ---- the files ----------------------------------------------------------------------------------


def test_the_committed_files_are_what_is_rendered() -> None:
    """After a change of a profile: run `make configs`."""
    committed = {
        path.relative_to(REPOSITORY).as_posix(): path.read_text(encoding="utf-8")
        for path in REPOSITORY.rglob("*.pbtxt")
    }
    assert committed == rendered_files(), "run: make configs"


def test_the_command_writes_them(tmp_path: Path) -> None:
    """Into a repository that need not have them yet."""
    main([str(tmp_path)])
    written = {p.relative_to(tmp_path).as_posix(): p for p in tmp_path.rglob("*.pbtxt")}
    assert {path: file.read_text() for path, file in written.items()} == rendered_files()


@pytest.mark.parametrize("path", rendered_files())
def test_a_file_says_what_was_rendered(path: str) -> None:
    """Read again it is the same configuration; it begins with where it is from."""
    text = rendered_files()[path]
    assert text.startswith("# Rendered by `make configs` from service/cropseek/triton/profiles.py")
    model, profile = path.split("/")[0], Path(path).stem
    expected = CONFIGS["t4" if profile == "config" else profile][model]
    assert ModelConfig.from_pbtxt(text) == expected


def test_dali_finds_its_batch_size() -> None:
    """It reads it from the root file only, whatever the profile: all of a GPU's are that file's."""
    root = ModelConfig.from_pbtxt((REPOSITORY / "preprocess" / "config.pbtxt").read_text())
    assert root.backend == "dali"
    for profile in GPU:
        assert CONFIGS[profile]["preprocess"] == root


# ---- every profile ------------------------------------------------------------------------------


def test_every_profile_has_every_model() -> None:
    """Those of the repository, and no others."""
    assert list(PROFILES) == ["cpu", *GPU]
    for configs in CONFIGS.values():
        assert sorted(configs) == MODELS
        assert [config.name for config in configs.values()] == list(configs)


@pytest.mark.parametrize(("profile", "model"), EVERY)
def test_a_contract_is_the_same_everywhere(profile: str, model: str) -> None:
    """Names, types and dims; a client never has to know the profile."""
    config, other = CONFIGS[profile][model], CONFIGS["cpu"][model]
    assert (config.input, config.output) == (other.input, other.output)
    batch = config.max_batch_size
    assert batch is not None
    assert batch == 1 if model in ("detect", "image_search") else batch >= 1


@pytest.mark.parametrize(("profile", "model"), EVERY_LEAF)
def test_no_request_waits_for_ever(profile: str, model: str) -> None:
    """A BLS call has no clock of its own; a caller may give it less time."""
    batching = CONFIGS[profile][model].dynamic_batching
    assert batching is not None
    policy = batching.default_queue_policy
    assert policy is not None
    assert policy.default_timeout_microseconds
    assert policy.allow_timeout_override
    assert policy.timeout_action is None  # REJECT


@pytest.mark.parametrize(("profile", "model"), [pair for pair in EVERY if pair[1] not in LEAVES])
def test_what_calls_others_is_neither_warmed_up_nor_batched(profile: str, model: str) -> None:
    """On an ensemble or on BLS a warm-up stops the server."""
    config = CONFIGS[profile][model]
    assert config.model_warmup == ()
    assert config.dynamic_batching is None


@pytest.mark.parametrize(("profile", "model"), EVERY)
def test_nothing_is_cached(profile: str, model: str) -> None:
    """The cache's key knows neither parameters nor state."""
    assert CONFIGS[profile][model].response_cache is None


@pytest.mark.parametrize("profile", PROFILES)
def test_image_search_declares_what_it_calls(profile: str) -> None:
    """In order; and how many crops the embedder takes."""
    models = Models(1)
    Pipeline(models, SIDE, 4).run(IMAGE, PictureOptions(collection_id=0, top_k=1))
    parameters = CONFIGS[profile][MODEL].parameters
    assert parameters["bls_models"].split(",") == models.called()
    assert parameters["most_crops"] == str(CONFIGS[profile]["embedder"].max_batch_size)


@pytest.mark.parametrize("profile", PROFILES)
def test_there_is_one_index_and_it_takes_a_whole_picture(profile: str) -> None:
    """Each instance is a process with a copy of the index, in host memory."""
    config = CONFIGS[profile]["vector_search"]
    assert group(config) == InstanceGroup(kind="KIND_CPU", count=1)
    assert config.max_batch_size is not None
    assert config.max_batch_size >= MAX_DETECTIONS + 1


# ---- GPU profiles -------------------------------------------------------------------------------


@pytest.mark.parametrize("profile", GPU)
def test_dali_keeps_to_one_instance_and_is_asked_for_everything(profile: str) -> None:
    """Each instance has memory pools of its own; a request must want every output."""
    config = CONFIGS[profile]["preprocess"]
    assert config.backend == "dali"
    assert group(config) == InstanceGroup(kind="KIND_GPU", count=1)
    assert config.input[0].allow_ragged_batch
    assert config.model_warmup == ()  # zeros are no picture
    ensemble = CONFIGS[profile]["detect"].ensemble_scheduling
    assert ensemble is not None
    assert set(ensemble.step[0].output_map) == {output.name for output in config.output}


@pytest.mark.parametrize(("profile", "model"), GPU_PLANS)
def test_a_plan_is_served_from_the_gpu(profile: str, model: str) -> None:
    """By TensorRT from its default file; warmed up with one row and with all."""
    config = CONFIGS[profile][model]
    assert (config.backend, config.platform) == ("tensorrt", "tensorrt_plan")
    assert config.default_model_filename is None
    assert group(config).kind == "KIND_GPU"
    assert [sample.batch_size for sample in config.model_warmup] == [1, config.max_batch_size]


@pytest.mark.parametrize(("profile", "model"), GPU_PLANS)
def test_cuda_graphs_serve_each_small_batch_once(profile: str, model: str) -> None:
    """From one row up, without a gap, within what a batch holds."""
    config = CONFIGS[profile][model]
    assert config.optimization is not None
    assert config.optimization.cuda is not None
    (tensor,) = config.input
    served: list[int] = []
    for spec in config.optimization.cuda.graph_spec:
        assert spec.graph_lower_bound is not None
        assert spec.batch_size is not None
        assert spec.graph_lower_bound.batch_size is not None
        assert {name: shape.dim for name, shape in spec.input.items()} == {tensor.name: tensor.dims}
        assert spec.graph_lower_bound.input == spec.input
        served += range(spec.graph_lower_bound.batch_size, spec.batch_size + 1)
    assert config.max_batch_size is not None
    assert served == list(range(1, len(served) + 1))
    assert len(served) <= config.max_batch_size


@pytest.mark.parametrize("profile", GPU)
def test_no_batch_is_waited_for_that_cannot_come(profile: str) -> None:
    """Each instance of image_search has one picture, and waits for one answer at a time."""
    configs = CONFIGS[profile]
    pictures = group(configs[MODEL]).count
    assert pictures is not None
    for model in LEAVES:
        batching = configs[model].dynamic_batching
        assert batching is not None
        assert all(batch <= pictures for batch in batching.preferred_batch_size)
        assert all(
            batch <= (configs[model].max_batch_size or 0) for batch in batching.preferred_batch_size
        )
        assert batching.default_queue_policy is not None
        # A full queue would arrive as INTERNAL: even eight GPUs' instances must not fill it.
        assert (batching.default_queue_policy.max_queue_size or 0) >= 8 * pictures
