"""The builder: what it writes is right, and what does not fit is refused where it is written."""

from __future__ import annotations

import runpy
from pathlib import Path
from typing import Any

import pytest

from cropseek.triton.build import BuildError, Ensemble, Model, Repository, model, tensor
from cropseek.triton.check import check_repository, read_repository
from cropseek.triton.config import InstanceGroup, ModelConfig, Reshape

EXAMPLE = Path(__file__).parents[2] / "docs" / "examples" / "text_search.py"
X = tensor("X", "FP32", 4)
Y = tensor("Y", "FP32", 4)
SOURCE = {"1/model.py": "class TritonPythonModel: ..."}


def stage(name: str) -> Model:
    return model(name, "python", inputs=[X], outputs=[Y], files=SOURCE)


def test_the_example_lacks_only_what_its_reader_brings(tmp_path: Path) -> None:
    runpy.run_path(str(EXAMPLE))["repository"].write(tmp_path)
    found = [(f.rule.code, f.model) for f in check_repository(read_repository(tmp_path))]
    assert found == [("V003", "embedding"), ("V003", "retrieval")]


def test_the_example_is_the_pipeline_it_says(tmp_path: Path) -> None:
    runpy.run_path(str(EXAMPLE))["repository"].write(tmp_path)
    models = read_repository(tmp_path).models
    assert [models[name].backend for name in ("embedding", "retrieval", "generator")] == [
        "tensorrt",
        "onnxruntime",
        "python",
    ]
    assert models["embedding"].config.instance_group == (InstanceGroup(kind="KIND_GPU", count=2),)
    assert models["retrieval"].config.instance_group == (InstanceGroup(kind="KIND_CPU", count=4),)
    assert models["embedding"].config.input[0].data_type == "TYPE_INT64"
    assert models["embedding"].config.output[0].dims == (768,)
    assert models["text_search"].backend == "ensemble"


def test_what_is_written_reads_back(tmp_path: Path) -> None:
    made = Repository([stage("a")])
    made.write(tmp_path)
    text = (tmp_path / "a" / "config.pbtxt").read_text(encoding="utf-8")
    assert ModelConfig.from_pbtxt(text) == made.models[0].config
    assert (tmp_path / "a" / "1" / "model.py").read_text(encoding="utf-8") == SOURCE["1/model.py"]


def test_tensors_of_one_name_stay_apart(tmp_path: Path) -> None:
    a, b, c = stage("a"), stage("b"), stage("c")
    whole = Ensemble("whole", inputs=[X])
    wire = whole["X"]
    for called in (a, b, c):
        wire = whole.call(called, X=wire)["Y"]
    whole.output("Y", wire)
    Repository([a, b, c, whole]).write(tmp_path)
    assert check_repository(read_repository(tmp_path)) == []


def test_outputs_that_nothing_reads_are_not_mapped() -> None:
    two = model("two", "python", inputs=[X], outputs=[Y, tensor("Z", "FP32", 4)], files=SOURCE)
    whole = Ensemble("whole", inputs=[X])
    whole.output("Y", whole.call(two, X=whole["X"])["Y"])
    scheduling = whole.config.ensemble_scheduling
    assert scheduling is not None
    assert scheduling.step[0].output_map == {"Y": "Y"}


def test_a_profile_differs_in_what_it_says(tmp_path: Path) -> None:
    made = model(
        "a",
        "python",
        inputs=[X],
        outputs=[Y],
        files=SOURCE,
        profiles={"gpu": {"max_batch_size": 8}},
    )
    Repository([made]).write(tmp_path)
    plain, gpu = (read_repository(tmp_path, name).models["a"] for name in (None, "gpu"))
    assert (plain.max_batch_size, gpu.max_batch_size) == (0, 8)


def test_an_input_that_a_model_has_not_is_refused() -> None:
    whole = Ensemble("whole", inputs=[X])
    with pytest.raises(BuildError, match="'a' has no input 'Q'; it has X"):
        whole.call(stage("a"), Q=whole["X"])


def test_an_input_that_is_left_out_is_refused() -> None:
    with pytest.raises(BuildError, match="'a' needs its input 'X'"):
        Ensemble("whole", inputs=[X]).call(stage("a"))


def test_another_type_is_refused() -> None:
    whole = Ensemble("whole", inputs=[tensor("T", "STRING", 1)])
    with pytest.raises(BuildError, match="takes TYPE_FP32 as 'X', got TYPE_STRING"):
        whole.call(stage("a"), X=whole["T"])


def test_another_shape_is_refused() -> None:
    whole = Ensemble("whole", inputs=[tensor("T", "FP32", 5)])
    with pytest.raises(BuildError, match=r"takes \[ 4 \] as 'X', got \[ 5 \]"):
        whole.call(stage("a"), X=whole["T"])


def test_a_free_dim_and_a_batch_written_out_are_taken() -> None:
    batching = model("a", "python", inputs=[X], outputs=[Y], max_batch_size=8)
    whole = Ensemble("whole", inputs=[tensor("T", "FP32", -1), tensor("U", "FP32", 1, 4)])
    whole.call(stage("b"), X=whole["T"])
    whole.call(batching, X=whole["U"])


def test_a_tensor_of_another_ensemble_is_refused() -> None:
    one, other = Ensemble("one", inputs=[X]), Ensemble("other", inputs=[X])
    with pytest.raises(BuildError, match="a tensor of this ensemble as 'X', got one of 'other'"):
        one.call(stage("a"), X=other["X"])
    made = other.call(stage("a"), X=other["X"])["Y"]
    with pytest.raises(BuildError, match="output 'Y' is a tensor of 'other'"):
        one.output("Y", made)


def test_smaller_batches_than_the_ensemble_s_are_refused() -> None:
    small = model("a", "python", inputs=[X], outputs=[Y], max_batch_size=4)
    whole = Ensemble("whole", inputs=[X], max_batch_size=8)
    with pytest.raises(BuildError, match="max_batch_size is 8, that of 'a' 4"):
        whole.call(small, X=whole["X"])


@pytest.mark.parametrize("name", ["../x", "/x", "1/../../x", "config.pbtxt", "configs/gpu.pbtxt"])
def test_a_file_that_is_not_the_model_s_own_is_refused(tmp_path: Path, name: str) -> None:
    made = model("a", "python", inputs=[X], outputs=[Y], files={name: ""})
    with pytest.raises(BuildError, match=r"^a: "):
        Repository([stage("b"), made]).write(tmp_path)
    assert not list(tmp_path.iterdir())


def test_a_file_to_copy_that_is_not_there(tmp_path: Path) -> None:
    files = {"1/model.onnx": tmp_path / "nowhere.onnx"}
    made = model("a", "onnxruntime", inputs=[X], outputs=[Y], files=files)
    with pytest.raises(BuildError, match=r"a/1/model\.onnx: cannot copy .*nowhere\.onnx: No such"):
        Repository([made]).write(tmp_path)


def test_a_tensor_handed_out_twice_is_refused() -> None:
    whole = Ensemble("whole", inputs=[X])
    made = whole.call(stage("a"), X=whole["X"])["Y"]
    whole.output("Y", made)
    with pytest.raises(BuildError, match="handed out under one name, not 'Z' too"):
        whole.output("Z", made)


@pytest.mark.parametrize("name", ["", "../a", "a/b", ".a", "a b", 'a"', "a\\b"])
def test_a_name_that_no_folder_can_have_is_refused(name: str) -> None:
    with pytest.raises(BuildError, match="a model's name is its folder's"):
        Repository([stage(name)])


def test_an_input_handed_out_is_refused() -> None:
    whole = Ensemble("whole", inputs=[X])
    with pytest.raises(BuildError, match="output 'Y' is an input"):
        whole.output("Y", whole["X"])


def test_an_output_named_as_an_input_is_refused() -> None:
    whole = Ensemble("whole", inputs=[X])
    made = whole.call(stage("a"), X=whole["X"])
    with pytest.raises(BuildError, match="'X' is the name of an input or output already"):
        whole.output("X", made["Y"])


def test_two_models_of_one_name_are_refused() -> None:
    with pytest.raises(BuildError, match="two models are called 'a'"):
        Repository([stage("a"), stage("a")])


def test_a_tensor_without_dims_is_refused() -> None:
    with pytest.raises(BuildError, match="expected dims"):
        tensor("X", "FP32")


def test_another_model_of_the_name_is_refused() -> None:
    whole = Ensemble("whole", inputs=[X])
    whole.output("Y", whole.call(stage("a"), X=whole["X"])["Y"])
    other = model("a", "python", inputs=[X], outputs=[tensor("Z", "FP32", 4)])
    with pytest.raises(BuildError, match="'whole' calls 'a', which is not the model given"):
        Repository([other, whole])


def test_a_step_of_which_nothing_is_read_is_refused() -> None:
    whole = Ensemble("whole", inputs=[X])
    whole.output("Y", whole.call(stage("a"), X=whole["X"])["Y"])
    whole.call(stage("b"), X=whole["X"])
    with pytest.raises(BuildError, match="nothing that 'b' makes is read"):
        Repository([stage("a"), stage("b"), whole])


def test_a_written_batch_dimension_is_not_handed_out_twice(tmp_path: Path) -> None:
    x, y = tensor("X", "FP32", -1, 4), tensor("Y", "FP32", -1, 4)
    member = model("a", "python", inputs=[x], outputs=[y], files=SOURCE)
    whole = Ensemble("whole", inputs=[X], max_batch_size=8)
    whole.output("Y", whole.call(member, X=whole["X"])["Y"])
    Repository([member, whole]).write(tmp_path)
    assert whole.config.output[0].dims == (4,)
    assert check_repository(read_repository(tmp_path)) == []


def test_a_reshaped_input_is_wired_in_its_inner_form() -> None:
    square = model("a", "python", inputs=[tensor("X", "FP32", 2, 2)], outputs=[Y])
    whole = Ensemble("whole", inputs=[tensor("X", "FP32", 4, reshape=Reshape((2, 2)))])
    whole.call(square, X=whole["X"])
    with pytest.raises(BuildError, match=r"takes \[ 4 \] as 'X', got \[ 2, 2 \]"):
        whole.call(stage("b"), X=whole["X"])


def test_a_file_that_is_a_folder_too_is_refused(tmp_path: Path) -> None:
    made = model("a", "python", inputs=[X], outputs=[Y], files={"1": "", "1/model.py": ""})
    with pytest.raises(BuildError, match="cannot be a file and hold"):
        Repository([made]).write(tmp_path)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("data_type", ["FLOAT", "int64", "TYPE_FLOAT", "INVALID"])
def test_a_data_type_that_triton_has_not_is_refused(data_type: str) -> None:
    with pytest.raises(BuildError, match=rf"X: expected a data type \(BOOL, .*, got '{data_type}'"):
        tensor("X", data_type, 1)


@pytest.mark.parametrize("dim", [0, -2, [-1]])
def test_a_dim_that_none_can_have_is_refused(dim: Any) -> None:
    with pytest.raises(BuildError, match="X: a dim is 1 or more, or -1 for any"):
        tensor("X", "FP32", dim)


def test_a_device_that_is_neither_is_refused() -> None:
    gpu: Any = "GPU"
    with pytest.raises(BuildError, match="on: expected 'cpu' or 'gpu', got 'GPU'"):
        model("a", "python", inputs=[X], outputs=[Y], on=gpu)


def test_an_output_that_a_step_has_not_is_refused() -> None:
    whole = Ensemble("whole", inputs=[X])
    made = whole.call(stage("a"), X=whole["X"])
    with pytest.raises(BuildError, match="no output 'Q'; there are Y"):
        made["Q"]


def test_what_is_no_tensor_is_refused() -> None:
    name: Any = "X"
    with pytest.raises(BuildError, match="takes a tensor of this ensemble as 'X', got 'X'"):
        Ensemble("whole", inputs=[X]).call(stage("a"), X=name)


def test_an_ensemble_that_hands_nothing_out_is_refused() -> None:
    whole = Ensemble("whole", inputs=[X])
    whole.call(stage("a"), X=whole["X"])
    with pytest.raises(BuildError, match="whole: no output is handed out"):
        Repository([stage("a"), whole])


def test_an_input_that_no_step_reads_is_refused() -> None:
    whole = Ensemble("whole", inputs=[X, tensor("Z", "FP32", 1)])
    whole.output("Y", whole.call(stage("a"), X=whole["X"])["Y"])
    with pytest.raises(BuildError, match="no step reads the input 'Z'"):
        Repository([stage("a"), whole])


def test_a_member_that_is_not_given_is_refused() -> None:
    whole = Ensemble("whole", inputs=[X])
    whole.output("Y", whole.call(stage("a"), X=whole["X"])["Y"])
    with pytest.raises(BuildError, match="'whole' calls 'a', which is not given"):
        Repository([whole])
