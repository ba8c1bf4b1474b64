"""What the generated cases cannot show: files that are no Python models, warnings, bad input."""

from __future__ import annotations

import os
import shutil
from dataclasses import replace
from pathlib import Path
from typing import ClassVar

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from cropseek.settings import Settings
from cropseek.triton.check import (
    RULES,
    Finding,
    Options,
    check_repository,
    profiles_of,
    read_repository,
)
from cropseek.triton.config import (
    DynamicBatching,
    Input,
    InstanceGroup,
    ModelConfig,
    Output,
    QueuePolicy,
    ResponseCache,
    Step,
    TransactionPolicy,
    Warmup,
    WarmupInput,
    read_pbtxt,
)
from cropseek.triton.draw import scene_of, to_svg
from tests.oracle.cases import CHAIN, ECHO, Files, chain, ensemble, files, leaf, single, without
from tests.oracle.server import write

TUTORIAL = Path(__file__).parents[2] / "docs" / "examples" / "tutorial"
X, Y = Input("X", "TYPE_FP32", dims=(4,)), Output("Y", "TYPE_FP32", dims=(4,))


def found(
    root: Path, made: Files, options: Options | None = None, profile: str | None = None
) -> list[Finding]:
    write(made, root)
    return check_repository(read_repository(root, profile), options)


def codes(
    root: Path, made: Files, options: Options | None = None, profile: str | None = None
) -> list[str]:
    return sorted(finding.rule.code for finding in found(root, made, options, profile))


def test_our_own_repository_is_sound_for_the_cpu() -> None:
    repository = read_repository(Settings().model_repository, "cpu")
    assert len(repository.models) == 6
    assert check_repository(repository, Options((2, 51))) == []


@pytest.mark.parametrize("profile", ["t4", "a100", "h100"])
def test_our_gpu_profiles_lack_only_the_files_that_export_makes(profile: str) -> None:
    findings = check_repository(read_repository(Settings().model_repository, profile))
    assert [(f.rule.code, f.model) for f in findings] == [
        ("V003", "detector"),
        ("V003", "embedder"),
    ]


class TestTutorial:
    """The pipeline as one finds it, and with its syntax repaired."""

    WIRING = ("E002", "E004", "E006", "E009", "E010", "E012", "E012", "E012", "E013", "M002")

    def codes(self, root: Path, model: str) -> list[str]:
        findings = check_repository(read_repository(root))
        return sorted(f.rule.code for f in findings if f.model == model)

    def test_every_fault_is_found_in_one_run(self) -> None:
        syntax = ["S001", "S001", "S004", "S004", "S005"]
        assert self.codes(TUTORIAL, "text_search") == sorted([*self.WIRING, *syntax])
        assert self.codes(TUTORIAL, "embedding") == ["D005", "S001", "S001", "V003"]
        assert self.codes(TUTORIAL, "retrieval") == ["D006", "S001", "S001", "V003"]
        assert self.codes(TUTORIAL, "generator") == ["D006", "S001", "S001", "S001", "V003"]

    def test_with_the_syntax_repaired_the_wiring_faults_remain(self, tmp_path: Path) -> None:
        root = tmp_path / "repaired"
        shutil.copytree(TUTORIAL, root)
        for file in root.rglob("config.pbtxt"):
            read, _ = read_pbtxt(file.read_text(encoding="utf-8"))
            file.write_text(read.config.to_pbtxt(), encoding="utf-8")
        assert self.codes(root, "text_search") == sorted(self.WIRING)

    def test_the_real_inputs_are_listed(self) -> None:
        findings = check_repository(read_repository(TUTORIAL))
        (unknown,) = [f for f in findings if f.rule.code == "E002"]
        assert unknown.message == "'embedding' has no input 'text'"
        assert unknown.remedy == "its inputs: ids (INT64 [ 128 ])"
        assert unknown.place.line == 20

    def test_what_an_unknown_input_stands_for_is_compared(self) -> None:
        findings = check_repository(read_repository(TUTORIAL))
        (mismatch,) = [f for f in findings if f.rule.code == "E009"]
        assert "TYPE_STRING from the ensemble, TYPE_INT64 at 'embedding'" in mismatch.message

    def test_its_picture_is_what_is_drawn(self) -> None:
        repository = read_repository(TUTORIAL)
        drawn = to_svg(scene_of(repository, check_repository(repository)))
        picture = TUTORIAL.with_suffix(".svg").read_text(encoding="utf-8")
        assert picture == drawn, "cropseek repo draw docs/examples/tutorial -o ….svg"


class TestBadInput:
    def test_an_empty_folder(self, tmp_path: Path) -> None:
        assert codes(tmp_path, {}) == ["R001"]

    def test_the_folder_above_a_repository_is_told_of(self, tmp_path: Path) -> None:
        (finding,) = found(tmp_path, {f"models/{name}": body for name, body in single().items()})
        assert finding.remedy == f"did you mean {tmp_path / 'models'}?"

    def test_a_binary_file(self, tmp_path: Path) -> None:
        write(single(), tmp_path)
        (tmp_path / "top" / "config.pbtxt").write_bytes(bytes(range(256)))
        (finding,) = check_repository(read_repository(tmp_path))
        assert finding.rule.code == "S006"
        assert finding.message == "expected UTF-8 text, got byte 0x80 at 128"

    def test_zero_bytes_in_text(self, tmp_path: Path) -> None:
        assert codes(tmp_path, single() | {"top/config.pbtxt": "name\0"}) == ["S006"]

    def test_a_folder_named_config(self, tmp_path: Path) -> None:
        made = without(single(), "top/config.pbtxt") | {"top/config.pbtxt/x": ""}
        assert codes(tmp_path, made) == ["S006"]

    def test_a_link_loop(self, tmp_path: Path) -> None:
        write(single(), tmp_path)
        (tmp_path / "a").symlink_to("b")
        (tmp_path / "b").symlink_to("a")
        messages = [f.message for f in check_repository(read_repository(tmp_path))]
        assert messages == ["cannot be read: a symbolic link that leads back to itself"] * 2

    def test_a_configuration_that_links_to_itself(self, tmp_path: Path) -> None:
        write(without(single(), "top/config.pbtxt"), tmp_path)
        (tmp_path / "top" / "config.pbtxt").symlink_to("config.pbtxt")
        assert [f.rule.code for f in check_repository(read_repository(tmp_path))] == ["R002"]

    def test_a_link_to_nothing(self, tmp_path: Path) -> None:
        write(single(), tmp_path)
        (tmp_path / "a").symlink_to("nowhere")
        (finding,) = check_repository(read_repository(tmp_path))
        assert finding.message == "cannot be read: a symbolic link to nothing"

    def test_a_file_that_may_not_be_read(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def refuse(path: Path) -> bytes:  # root may read anything, so a real one cannot be had
            raise PermissionError(13, "Permission denied", str(path))

        write(single(), tmp_path)
        monkeypatch.setattr(Path, "read_bytes", refuse)
        (finding,) = check_repository(read_repository(tmp_path))
        assert finding.rule.code == "R002"
        assert finding.message == "cannot be read: Permission denied"

    def test_a_pipe_beside_dali_s_profiles_is_not_waited_for(self, tmp_path: Path) -> None:
        write({"a/1/model.dali": "", "a/configs/gpu.pbtxt": dali().to_pbtxt()}, tmp_path)
        os.mkfifo(tmp_path / "a" / "config.pbtxt")
        (finding,) = check_repository(read_repository(tmp_path, "gpu"))
        assert finding.rule.code == "X001"
        assert "expected a file of text" in finding.message

    def test_a_pipe_as_a_model_is_not_waited_for(self, tmp_path: Path) -> None:
        write(without(single(), "top/1/"), tmp_path)
        (tmp_path / "top" / "1").mkdir()
        os.mkfifo(tmp_path / "top" / "1" / "model.py")
        assert [f.rule.code for f in check_repository(read_repository(tmp_path))] == ["V003"]

    def test_a_pipe_is_not_waited_for(self, tmp_path: Path) -> None:
        write(without(single(), "top/config.pbtxt"), tmp_path)
        os.mkfifo(tmp_path / "top" / "config.pbtxt")
        assert [f.rule.code for f in check_repository(read_repository(tmp_path))] == ["S006"]

    def test_folders_that_are_no_models(self, tmp_path: Path) -> None:
        made = single() | {"README.md": "", "notes/x": "", ".git/y": ""}
        assert codes(tmp_path, made) == ["R006", "R006"]

    def test_a_folder_that_says_nothing_of_what_it_is(self, tmp_path: Path) -> None:
        assert codes(tmp_path, {"top/1/weights.bin": ""}) == ["R003"]
        assert codes(tmp_path, {"top/config.pbtxt": "max_batch_size: 8"}) == ["M001"]

    def test_a_very_deep_tree(self, tmp_path: Path) -> None:
        deep = tmp_path
        for _ in range(300):
            deep = deep / "deeper"
        deep.mkdir(parents=True)
        assert [f.rule.code for f in check_repository(read_repository(tmp_path))] == ["R001"]


def test_what_is_fed_under_a_wrong_name_is_likely_what_is_missing(tmp_path: Path) -> None:
    first, second = CHAIN
    made = chain(replace(first, input_map={"Q": "X"}), second)
    (finding,) = (f for f in found(tmp_path, made) if f.rule.code == "E004")
    assert finding.remedy == """input_map { key: "X" value: "X" } for 'Q'"""


class TestSuppression:
    def test_a_line(self, tmp_path: Path) -> None:
        made = single(dynamic_batching=DynamicBatching())
        assert codes(tmp_path, made) == ["D005"]
        path = "top/config.pbtxt"
        quiet = made[path].replace("dynamic_batching { }", "dynamic_batching { }  # noqa: D005")
        assert codes(tmp_path, made | {path: quiet}) == []

    def test_another_rule_on_that_line_is_still_told(self, tmp_path: Path) -> None:
        made = single(dynamic_batching=DynamicBatching())
        path = "top/config.pbtxt"
        other = made[path].replace("dynamic_batching { }", "dynamic_batching { }  # noqa: D001")
        assert codes(tmp_path, made | {path: other}) == ["D005"]

    @pytest.mark.parametrize(
        ("comment", "expected"),
        [
            ("# noqa: D005", []),
            ("#NOQA:d005,V001", []),
            ("# noqa: D0055", ["D005"]),
            ("# noqa", ["D005"]),
        ],
    )
    def test_how_it_may_be_written(self, tmp_path: Path, comment: str, expected: list[str]) -> None:
        made = single(dynamic_batching=DynamicBatching())
        path = "top/config.pbtxt"
        line = made[path].replace("dynamic_batching { }", f"dynamic_batching {{ }} {comment}")
        assert codes(tmp_path, made | {path: line}) == expected

    def test_not_within_a_string(self, tmp_path: Path) -> None:
        made = single()
        path = "top/config.pbtxt"
        named = made[path].replace('"top"', '"other # noqa: R004"')
        assert codes(tmp_path, made | {path: named}) == ["R004"]

    def test_a_file(self, tmp_path: Path) -> None:
        made = without(single(), "top/1/") | {"top/1/x": ""}
        path = "top/config.pbtxt"
        assert codes(tmp_path, made) == ["V003"]
        assert codes(tmp_path, made | {path: "# noqa-file: V003, D005\n" + made[path]}) == []


class TestProfiles:
    def test_a_profile_replaces_the_whole_file(self, tmp_path: Path) -> None:
        gpu = leaf("top", dynamic_batching=DynamicBatching((16,)))
        made = single() | {"top/configs/gpu.pbtxt": gpu.to_pbtxt()}
        assert codes(tmp_path, made) == []
        assert codes(tmp_path, made, profile="gpu") == ["D001", "D005"]
        assert profiles_of(tmp_path) == [None, "gpu"]

    def test_a_model_without_the_profile_falls_back(self, tmp_path: Path) -> None:
        assert codes(tmp_path, single(), profile="gpu") == []

    def test_a_repository_of_profiles_only_has_no_plain_one(self, tmp_path: Path) -> None:
        made = single()
        body = made.pop("top/config.pbtxt")
        write(made | {"top/configs/cpu.pbtxt": body}, tmp_path)
        assert profiles_of(tmp_path) == ["cpu"]


class TestWarnings:
    def test_an_endless_queue(self, tmp_path: Path) -> None:
        assert codes(tmp_path, single(dynamic_batching=DynamicBatching())) == ["D005"]

    @pytest.mark.parametrize(
        "policy",
        [QueuePolicy(max_queue_size=8), QueuePolicy(default_timeout_microseconds=10**6)],
        ids=["size", "time"],
    )
    def test_a_queue_that_ends(self, tmp_path: Path, policy: QueuePolicy) -> None:
        batching = DynamicBatching(default_queue_policy=policy)
        assert codes(tmp_path, single(dynamic_batching=batching)) == []

    def test_members_that_do_not_batch(self, tmp_path: Path) -> None:
        assert codes(tmp_path, chain()) == ["D006", "D006"]

    def test_members_of_batch_one_have_nothing_to_batch(self, tmp_path: Path) -> None:
        one = {"max_batch_size": 1}
        assert codes(tmp_path, chain(a=one, b=one, max_batch_size=1)) == []

    @pytest.mark.parametrize(("cores", "expected"), [(None, []), (4, []), (3, ["D007"])])
    def test_more_instances_than_cores(
        self, tmp_path: Path, cores: int | None, expected: list[str]
    ) -> None:
        made = single(instance_group=(InstanceGroup(kind="KIND_CPU", count=4),))
        assert codes(tmp_path, made, Options(cores=cores)) == expected

    @pytest.mark.parametrize(
        ("gpus", "expected"), [(None, []), (2, []), (1, ["D013"]), (0, ["D013"])]
    )
    def test_gpus_that_are_not_there(
        self, tmp_path: Path, gpus: int | None, expected: list[str]
    ) -> None:
        made = single(instance_group=(InstanceGroup(kind="KIND_GPU", gpus=(1,)),))
        assert codes(tmp_path, made, Options(gpus=gpus)) == expected

    def test_a_cache_before_a_model_that_reads_parameters(self, tmp_path: Path) -> None:
        made = single(response_cache=ResponseCache(True))
        assert codes(tmp_path, made) == []
        reads = ECHO + "\n    def limit(self, request):\n        return request.parameters()\n"
        assert codes(tmp_path, made | {"top/1/model.py": reads}) == ["D010"]

    def test_a_cache_of_a_decoupled_model(self, tmp_path: Path) -> None:
        made = single(
            response_cache=ResponseCache(True), model_transaction_policy=TransactionPolicy(True)
        )
        assert codes(tmp_path, made) == ["D009"]

    def test_what_is_ignored(self, tmp_path: Path) -> None:
        made = single(
            max_batch_size=0,
            platform="tensorrt_plan",
            dynamic_batching=DynamicBatching(default_queue_policy=QueuePolicy(max_queue_size=1)),
            instance_group=(InstanceGroup(kind="KIND_CPU", count=-1),),
        )
        made |= {"top/v2/x": "", "top/2x/x": "", "top/1/config.pbtxt": ""}
        assert codes(tmp_path, made) == ["D011", "D012", "M006", "R005", "V004"]


class TestNewerFields:
    @pytest.mark.parametrize(
        ("version", "expected"), [(None, []), ((2, 51), ["S007"]), ((2, 52), [])]
    )
    def test_a_field_and_the_version_that_knows_it(
        self, tmp_path: Path, version: tuple[int, int] | None, expected: list[str]
    ) -> None:
        made = single()
        made["top/config.pbtxt"] += "model_metrics { }\n"
        assert codes(tmp_path, made, Options(version)) == expected


class TestSource:
    """What is read in a Python model's source, and what is not."""

    WARM = Warmup("w", 1, {"X": WarmupInput("TYPE_FP32", (4,), zero_data=True)})

    @pytest.mark.parametrize(
        ("line", "expected"),
        [
            ("pb_utils.InferenceRequest(model_name='b')", ["W001"]),
            ("# never pb_utils.InferenceRequest( here", []),
            ("'pb_utils.InferenceRequest('", []),
            ("def broken(:", []),
        ],
    )
    def test_calls_of_other_models(self, tmp_path: Path, line: str, expected: list[str]) -> None:
        made = single(model_warmup=(self.WARM,)) | {"top/1/model.py": line + "\n"}
        assert codes(tmp_path, made) == expected

    def test_a_model_that_completes_its_configuration(self, tmp_path: Path) -> None:
        made = single(input=(Input("X"),))
        assert codes(tmp_path, made) == ["T003", "T004"]
        completes = "class TritonPythonModel:\n    def auto_complete_config(config): ...\n"
        assert codes(tmp_path, made | {"top/1/model.py": completes}) == []


def test_of_a_misspelt_member_the_one_that_is_meant_is_compared(tmp_path: Path) -> None:
    encoder = leaf("encoder", input=(replace(X, data_type="TYPE_INT64"),), max_batch_size=4)
    top = ensemble(replace(CHAIN[0], model_name="encodr"), CHAIN[1])
    findings = found(tmp_path, files(encoder, leaf("b"), top))
    errors = [f for f in findings if f.rule.severity.value == "error"]
    assert sorted(f.rule.code for f in errors) == ["E001", "E009", "E012"]
    assert [f.remedy for f in errors if f.rule.code == "E001"] == ["did you mean 'encoder'?"]


@pytest.mark.parametrize(
    ("name", "there"),
    [
        ("encoder_v2", ["encoder_v1"]),  # another number is another model
        ("encoderA", ["encoderB", "encoderC"]),  # which of them?
        ("encoder", ["generator"]),
    ],
)
def test_a_member_that_may_be_another_is_not_taken_for_it(
    tmp_path: Path, name: str, there: list[str]
) -> None:
    others = [leaf(other, input=(replace(X, data_type="TYPE_INT64"),)) for other in there]
    top = ensemble(replace(CHAIN[0], model_name=name), CHAIN[1])
    findings = found(tmp_path, files(*others, leaf("b"), top))
    assert [f.rule.code for f in findings if f.rule.severity.value == "error"] == ["E001"]


class TestBls:
    def test_circles_through_declared_calls(self, tmp_path: Path) -> None:
        a = leaf("a", parameters={"bls_models": "top"})
        made = files(a, leaf("b"), ensemble(*CHAIN))
        circles = [f for f in found(tmp_path, made) if f.rule.code == "B002"]
        assert [f.message for f in circles] == ["these models call each other: a → top → a"]

    def test_a_model_that_calls_itself(self, tmp_path: Path) -> None:
        a = leaf("a", parameters={"bls_models": "a"})
        (circle,) = found(tmp_path, files(a))
        assert circle.message == "these models call each other: a → a"

    def test_two_circles_are_both_told(self, tmp_path: Path) -> None:
        made = files(
            *(
                leaf(name, parameters={"bls_models": called})
                for name, called in (("a", "b"), ("b", "a"), ("c", "d"), ("d", "c"))
            )
        )
        assert codes(tmp_path, made) == ["B002", "B002"]


def dali(**changes: object) -> ModelConfig:
    config = leaf("a", backend="dali", dynamic_batching=None)
    return replace(config, **changes)  # type: ignore[arg-type]


class TestDali:
    FILE: ClassVar = {"a/1/model.dali": ""}

    def test_outputs_that_are_not_mapped(self, tmp_path: Path) -> None:
        two = dali(output=(Y, replace(Y, name="Z")))
        made = files(two, leaf("b"), ensemble(*CHAIN)) | self.FILE
        assert "E015" in codes(tmp_path, made)

    def test_every_output_mapped_and_read(self, tmp_path: Path) -> None:
        two = dali(output=(Y, replace(Y, name="Z")))
        steps = (Step("a", -1, {"X": "X"}, {"Y": "between", "Z": "Z"}), CHAIN[1])
        top = ensemble(*steps, output=(Y, replace(Y, name="Z")))
        assert codes(tmp_path, files(two, leaf("b"), top) | self.FILE) == ["D006", "D006"]

    def test_no_configuration_beside_the_profiles(self, tmp_path: Path) -> None:
        made = self.FILE | {"a/configs/gpu.pbtxt": dali().to_pbtxt()}
        assert codes(tmp_path, made, profile="gpu") == ["X001"]

    @pytest.mark.parametrize(("there", "expected"), [(8, []), (4, ["X001"])])
    def test_the_batch_size_beside_the_profiles(
        self, tmp_path: Path, there: int, expected: list[str]
    ) -> None:
        root = dali(max_batch_size=there).to_pbtxt()
        made = self.FILE | {"a/configs/gpu.pbtxt": dali().to_pbtxt(), "a/config.pbtxt": root}
        assert codes(tmp_path, made, profile="gpu") == expected

    @pytest.mark.parametrize("file", ["model.dali", "dali.py"])
    def test_either_file_will_do(self, tmp_path: Path, file: str) -> None:
        made = {f"a/1/{file}": "", "a/config.pbtxt": dali().to_pbtxt()}
        assert codes(tmp_path, made) == []


def onnx_model(root: Path, dims: list[int | str], kind: int = TensorProto.FLOAT) -> None:
    x = helper.make_tensor_value_info("X", kind, dims)
    y = helper.make_tensor_value_info("Y", kind, dims)
    graph = helper.make_graph([helper.make_node("Identity", ["X"], ["Y"])], "g", [x], [y])
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    (root / "top" / "1").mkdir(parents=True, exist_ok=True)
    onnx.save(made, root / "top" / "1" / "model.onnx")


def onnx_codes(root: Path, **changes: object) -> list[str]:
    config = leaf("top", **{"backend": "onnxruntime", **changes})
    (root / "top" / "config.pbtxt").write_text(config.to_pbtxt(), encoding="utf-8")
    return [f.rule.code for f in check_repository(read_repository(root))]


class TestOnnx:
    def test_a_configuration_that_says_what_the_graph_says(self, tmp_path: Path) -> None:
        onnx_model(tmp_path, ["batch", 4])
        assert onnx_codes(tmp_path) == []

    def test_another_type(self, tmp_path: Path) -> None:
        onnx_model(tmp_path, ["batch", 4], TensorProto.INT64)
        assert onnx_codes(tmp_path) == ["O003", "O003"]

    def test_another_shape(self, tmp_path: Path) -> None:
        onnx_model(tmp_path, ["batch", 5])
        assert onnx_codes(tmp_path) == ["O004", "O004"]

    def test_the_batch_dimension_written_out(self, tmp_path: Path) -> None:
        onnx_model(tmp_path, ["batch", 4])
        config = leaf("top", backend="onnxruntime", input=(replace(X, dims=(-1, 4)),))
        (tmp_path / "top" / "config.pbtxt").write_text(config.to_pbtxt(), encoding="utf-8")
        (finding,) = check_repository(read_repository(tmp_path))
        assert finding.rule.code == "O004"
        assert "leave the batch dimension out" in finding.remedy

    def test_a_graph_of_one_batch_size(self, tmp_path: Path) -> None:
        onnx_model(tmp_path, [1, 4])
        assert onnx_codes(tmp_path) == ["O004", "O004"]
        full = {"input": (replace(X, dims=(1, 4)),), "output": (replace(Y, dims=(1, 4)),)}
        assert onnx_codes(tmp_path, max_batch_size=0, **full) == []

    def test_other_names(self, tmp_path: Path) -> None:
        onnx_model(tmp_path, ["batch", 4])
        assert onnx_codes(tmp_path, input=(replace(X, name="Q"),)) == ["O002", "O002"]

    def test_an_output_that_is_left_out_is_not_asked_for(self, tmp_path: Path) -> None:
        onnx_model(tmp_path, ["batch", 4])
        assert onnx_codes(tmp_path, input=(), output=()) == []

    def test_operators_that_are_not_here_may_be_with_the_server(self, tmp_path: Path) -> None:
        onnx_model(tmp_path, ["batch", 5])
        file = tmp_path / "top" / "1" / "model.onnx"
        graph = onnx.load(file)
        graph.graph.node[0].domain = "somebodys"
        graph.opset_import.append(helper.make_opsetid("somebodys", 1))
        onnx.save(graph, file)
        assert onnx_codes(tmp_path) == []

    def test_an_input_with_a_value_of_its_own_may_be_left_out(self, tmp_path: Path) -> None:
        onnx_model(tmp_path, ["batch", 4])
        file = tmp_path / "top" / "1" / "model.onnx"
        made = onnx.load(file)
        made.graph.input.append(helper.make_tensor_value_info("W", TensorProto.FLOAT, [1]))
        made.graph.initializer.append(helper.make_tensor("W", TensorProto.FLOAT, [1], [2.0]))
        onnx.save(made, file)
        assert onnx_codes(tmp_path) == []
        assert onnx_codes(tmp_path, input=(X, Input("W", "TYPE_FP32", dims=(1,)))) == ["O004"]

    def test_a_damaged_file(self, tmp_path: Path) -> None:
        onnx_model(tmp_path, ["batch", 4])
        (tmp_path / "top" / "1" / "model.onnx").write_bytes(np.arange(99).tobytes())
        assert onnx_codes(tmp_path) == ["O001"]
        (tmp_path / "top" / "1" / "model.onnx").write_bytes(b"")
        assert onnx_codes(tmp_path) == ["O001"]


def test_rules_stand_in_order_with_names_and_reasons_of_their_own() -> None:
    rules = list(RULES.values())
    topics = list(dict.fromkeys(rule.code[0] for rule in rules))
    assert list(RULES) == [code for topic in topics for code in sorted(RULES) if code[0] == topic]
    assert len({rule.name for rule in rules}) == len({rule.why for rule in rules}) == len(rules)
    assert all(rule.why.endswith(".") for rule in rules)
