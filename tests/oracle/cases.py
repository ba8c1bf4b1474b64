"""Small repositories of Python models: sound ones, and ones broken in one way each.

A case is a folder's files by path. Where the checker and the server differ, `why` says so.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path

from cropseek.triton.config import (
    All,
    DynamicBatching,
    EnsembleScheduling,
    Input,
    InstanceGroup,
    Latest,
    ModelConfig,
    OptimizationPolicy,
    Output,
    QueuePolicy,
    Reshape,
    Specific,
    Step,
    VersionPolicy,
    Warmup,
    WarmupInput,
)

ECHO = (Path(__file__).parent / "echo_model.py").read_text(encoding="utf-8")
CALLING = (Path(__file__).parent / "calling_model.py").read_text(encoding="utf-8")
Files = dict[str, str]


@dataclass(frozen=True)
class Case:
    """A repository: its files, the model that is loaded and asked, what is wrong with it.

    `rules` are the codes of the errors that the checker finds, `warnings` those of the warnings but
    two that every small pipeline has; `why` explains a verdict that is
    not the server's; `first` are models that the server is asked to load before.
    """

    name: str
    top: str
    files: Files
    rules: tuple[str, ...] = ()
    why: str = ""
    first: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()


def leaf(name: str, **changes: object) -> ModelConfig:
    """Return a Python model with X, FP32 [ 4 ], to Y of the same."""
    config = ModelConfig(
        name=name,
        backend="python",
        max_batch_size=8,
        input=(Input("X", "TYPE_FP32", dims=(4,)),),
        output=(Output("Y", "TYPE_FP32", dims=(4,)),),
        instance_group=(InstanceGroup(kind="KIND_CPU", count=1),),
    )
    return replace(config, **changes)  # type: ignore[arg-type]


def ensemble(*steps: Step, **changes: object) -> ModelConfig:
    """Return an ensemble with X to Y over steps."""
    config = ModelConfig(
        name="top",
        platform="ensemble",
        max_batch_size=8,
        input=(Input("X", "TYPE_FP32", dims=(4,)),),
        output=(Output("Y", "TYPE_FP32", dims=(4,)),),
        ensemble_scheduling=EnsembleScheduling(steps),
    )
    return replace(config, **changes)  # type: ignore[arg-type]


def step(model: str, source: str, target: str, **changes: object) -> Step:
    """Return a step that maps X and Y."""
    made = Step(model, -1, {"X": source}, {"Y": target})
    return replace(made, **changes)  # type: ignore[arg-type]


CHAIN = (step("a", "X", "between"), step("b", "between", "Y"))


def files(*configs: ModelConfig, versions: int = 1) -> Files:
    """Return the files of models, each with its configuration and versions."""
    made: Files = {}
    for config in configs:
        name = str(config.name)
        made[f"{name}/config.pbtxt"] = config.to_pbtxt()
        for version in range(1, versions + 1):
            if config.platform == "ensemble":
                made[f"{name}/{version}/.keep"] = ""
            else:
                made[f"{name}/{version}/model.py"] = CALLING if config.parameters else ECHO
    return made


def single(**changes: object) -> Files:
    """Return a repository of one model, `top`."""
    return files(leaf("top", **changes))


def chain(*steps: Step, a: object = None, b: object = None, **changes: object) -> Files:
    """Return a repository of an ensemble of two models; `a` and `b` are changes to these."""
    return files(
        leaf("a", **(a or {})),  # type: ignore[arg-type]
        leaf("b", **(b or {})),  # type: ignore[arg-type]
        ensemble(*(steps or CHAIN), **changes),
    )


def text(made: Files, path: str, change: Callable[[str], str]) -> Files:
    """Return files with one of them changed."""
    return made | {path: change(made[path])}


def without(made: Files, *prefixes: str) -> Files:
    """Return files without those below some paths."""
    return {path: body for path, body in made.items() if not path.startswith(prefixes)}


@dataclass
class _Cases:
    """Collects cases; a name is said once."""

    found: list[Case] = field(default_factory=list)

    def add(
        self,
        name: str,
        made: Files,
        *rules: str,
        why: str = "",
        top: str = "top",
        first: tuple[str, ...] = (),
        warnings: tuple[str, ...] = (),
    ) -> None:
        assert name not in {case.name for case in self.found}, name
        self.found.append(Case(name, top, made, tuple(sorted(rules)), why, first, warnings))


def all_cases() -> list[Case]:
    """Return every case, by what it is about."""
    cases = _Cases()
    _models(cases)
    _pipelines(cases)
    _broken_texts(cases)
    _broken_models(cases)
    _broken_scheduling(cases)
    _broken_wiring(cases)
    _broken_shapes(cases)
    return cases.found


X, Y = Input("X", "TYPE_FP32", dims=(4,)), Output("Y", "TYPE_FP32", dims=(4,))
ZEROS = WarmupInput("TYPE_FP32", (4,), zero_data=True)


def _models(cases: _Cases) -> None:
    add = cases.add
    add("one model", single())
    add("one model, no batching", single(max_batch_size=0))
    add("batch size left out", single(max_batch_size=None))
    add("name left out", text(single(), "top/config.pbtxt", lambda t: t.replace('name: "top"', "")))
    add("dynamic batching", single(dynamic_batching=DynamicBatching()))
    batching = DynamicBatching((4, 8), 100, default_queue_policy=QueuePolicy("REJECT", 10**6))
    add("dynamic batching, sizes, delay, queue", single(dynamic_batching=batching))
    levels = DynamicBatching(priority_levels=2, default_priority_level=1)
    add("priorities", single(dynamic_batching=levels))
    add("preserved order", single(dynamic_batching=DynamicBatching(preserve_ordering=True)))
    scalar = Input("X", "TYPE_FP32", dims=(1,), reshape=Reshape())
    add("scalar by reshape", single(input=(scalar,)))
    square = Input("X", "TYPE_FP32", dims=(4,), reshape=Reshape((2, 2)))
    add("reshape", single(input=(square,)))
    free = Input("X", "TYPE_FP32", dims=(-1, 4), reshape=Reshape((-1, 2, 2)))
    add("reshape with a free dim", single(input=(free,)))
    maybe = Input("Z", "TYPE_FP32", dims=(4,), optional=True)
    add("optional input", single(input=(X, maybe)))
    add("strings", single(input=(Input("X", "TYPE_STRING", dims=(1,)),)))
    ragged = Input("X", "TYPE_FP32", dims=(-1,), allow_ragged_batch=True)
    add("ragged batches", single(input=(ragged,), dynamic_batching=DynamicBatching()))
    add("warm-up", single(model_warmup=(Warmup("w", 4, {"X": ZEROS}),)))
    add("warm-up without a batch size", single(model_warmup=(Warmup("w", None, {"X": ZEROS}),)))
    add("two instances", single(instance_group=(InstanceGroup(kind="KIND_CPU", count=2),)))
    every = VersionPolicy(all=All())
    add("all versions", files(leaf("top", version_policy=every), versions=2))
    second = VersionPolicy(specific=Specific((2,)))
    add("one pinned version", files(leaf("top", version_policy=second), versions=2))
    add("backend by the folder's name", _suffix(), top="top.python")
    add("a folder that is no version", single() | {"top/v2/notes.txt": ""})
    zeroth = {name.replace("top/1/", "top/0/"): body for name, body in single().items()}
    add("version 0", zeroth)
    no_zeros = WarmupInput("TYPE_FP32", (4,), zero_data=False)
    add("warm-up data that is not zero", single(model_warmup=(Warmup("w", 1, {"X": no_zeros}),)))
    policy = {1: QueuePolicy(max_queue_size=1)}
    add(
        "a policy for a priority, no levels",
        single(dynamic_batching=DynamicBatching(priority_queue_policy=policy)),
    )
    trailing = text(single(), "top/config.pbtxt", lambda t: t.replace("}\n]", "},\n]", 1))
    add("a comma after the last element", trailing, "S001")


def _suffix() -> Files:
    config = replace(leaf("top.python"), backend=None)
    return files(config)


def _pipelines(cases: _Cases) -> None:
    add = cases.add
    add("chain", chain())
    nothing = {"max_batch_size": 0}
    add("chain, no batching", chain(a=nothing, b=nothing, max_batch_size=0))
    add("chain, smaller batches than its members", chain(max_batch_size=4))
    add("chain, ensemble without batches over members with", chain(max_batch_size=0))
    add("chain, batch dimension written out in the ensemble only", _explicit_batch())
    add("chain, no batches, then batches", chain(a=nothing, max_batch_size=0))
    add("chain, members without batches", chain(a=nothing, b=nothing), "E012")
    add("chain, one member without batches", chain(a=nothing), "E012")
    add("chain, one member with its batch dimension written out", _batch_written_out())
    free = {"output": (Output("Y", "TYPE_FP32", dims=(-1,)),)}
    fits = {"input": (Input("X", "TYPE_FP32", dims=(-1,)),)}
    add("chain, a fixed dim meets a free one", chain(b=fits))
    add(
        "chain, a free dim meets a fixed one",
        chain(a=free),
        why=(
            "laxer: a free dim may turn out to fit; this model makes it 1, which only running shows"
        ),
    )
    maybe = {"input": (X, Input("Z", "TYPE_FP32", dims=(4,), optional=True))}
    add("chain, optional input left out", chain(a=maybe))
    two = {"output": (Y, Output("Z", "TYPE_FP32", dims=(4,)))}
    add("chain, an output not mapped", chain(a=two))
    unread = step("a", "X", "between", output_map={"Y": "between", "Z": "unread"})
    add("chain, an output mapped and not read", chain(unread, CHAIN[1], a=two), "E013")
    add("chain, the same model twice", _twice())
    add("chain, pinned version", chain(step("a", "X", "between", model_version=1), CHAIN[1]))
    add("diamond", _diamond())
    add("ensemble in an ensemble", _nested())
    add("BLS", _bls("a, b"), first=("a", "b"))
    add("BLS over an ensemble", _bls_over_ensemble(), top="caller", first=("top",))
    batching = {"dynamic_batching": DynamicBatching()}
    add("chain, members batch dynamically", chain(a=batching, b=batching))
    warm = {"model_warmup": (Warmup("w", 1, {"X": ZEROS}),)}
    add("chain, a member warms up", chain(a=warm))
    one = {"max_batch_size": 1}
    add("chain, batches of one over members without", chain(a=nothing, b=nothing, **one))
    own = Input("X", "TYPE_FP32", dims=(4,), reshape=Reshape((2, 2)))
    square = {"input": (Input("X", "TYPE_FP32", dims=(2, 2)),)}
    add("chain, the ensemble's own input reshaped", chain(a=square, input=(own,)))
    last = text(
        chain(),
        "top/config.pbtxt",
        lambda t: t.replace(
            'input_map { key: "X" value: "X" }',
            'input_map { key: "X" value: "between" } input_map { key: "X" value: "X" }',
        ),
    )
    add("chain, an input mapped twice", last, warnings=("S008",))


def _batch_written_out() -> Files:
    """Return a chain whose first member takes any batch, as dims of its own."""
    x, y = Input("X", "TYPE_FP32", dims=(-1, 4)), Output("Y", "TYPE_FP32", dims=(-1, 4))
    return chain(a={"max_batch_size": 0, "input": (x,), "output": (y,)})


def _explicit_batch() -> Files:
    x, y = Input("X", "TYPE_FP32", dims=(1, 4)), Output("Y", "TYPE_FP32", dims=(1, 4))
    return chain(max_batch_size=0, input=(x,), output=(y,))


def _twice() -> Files:
    return files(leaf("a"), ensemble(step("a", "X", "between"), step("a", "between", "Y")))


def _diamond() -> Files:
    both = {"input": (Input("L", "TYPE_FP32", dims=(4,)), Input("R", "TYPE_FP32", dims=(4,)))}
    steps = (
        step("a", "X", "shared"),
        step("b", "shared", "left"),
        step("c", "shared", "right"),
        Step("d", -1, {"L": "left", "R": "right"}, {"Y": "Y"}),
    )
    members = [leaf("a"), leaf("b"), leaf("c"), leaf("d", **both)]
    return files(*members, ensemble(*steps))


def _nested() -> Files:
    inner = replace(ensemble(*CHAIN), name="inner")
    return files(leaf("a"), leaf("b"), inner, ensemble(step("inner", "X", "Y")))


def _bls(calls: str) -> Files:
    top = leaf("top", parameters={"bls_models": calls})
    return files(leaf("a"), leaf("b"), top)


def _bls_over_ensemble() -> Files:
    caller = leaf("caller", parameters={"bls_models": "top"})
    return chain() | files(caller)


def _broken_texts(cases: _Cases) -> None:
    add = cases.add
    path = "top/config.pbtxt"

    def broken(change: Callable[[str], str]) -> Files:
        return text(single(), path, change)

    add("brace not closed", broken(lambda t: t + "dynamic_batching {\n"), "S001")
    add("brace closed twice", broken(lambda t: t + "}\n"), "S001")
    add("no colon", broken(lambda t: t.replace("max_batch_size:", "max_batch_size")), "S001")
    add(
        "list elements without braces",
        broken(
            lambda t: t.replace(
                '  { name: "X" data_type: TYPE_FP32 dims: [ 4 ] }',
                '  name: "X" data_type: TYPE_FP32 dims: [ 4 ]',
            )
        ),
        "S001",
    )
    add("no comma between elements", broken(lambda t: t.replace("[ 4 ]", "[ 4 4 ]", 1)), "S001")
    add("unknown field", broken(lambda t: t + "max_batchsize: 8\n"), "S002")
    add("misspelt data type", broken(lambda t: t.replace("TYPE_FP32", "TYPE_FLOAT32", 1)), "S003")
    add("quoted data type", broken(lambda t: t.replace("TYPE_FP32", '"TYPE_FP32"', 1)), "S003")
    add("text for a number", broken(lambda t: t.replace("size: 8", 'size: "8"')), "S003")
    add("a field twice", broken(lambda t: t + "max_batch_size: 8\n"), "S004")
    add(
        "two schedulers",
        broken(lambda t: t + "dynamic_batching { }\nsequence_batching { }\n"),
        "S004",
    )
    two = 'input_map { key: "X" value: "X" key: "Z" value: "X" }'
    pairs = text(chain(), path, lambda t: t.replace('input_map { key: "X" value: "X" }', two))
    add("two pairs in a map entry", pairs, "S005", "E002")
    add(
        "empty configuration",
        single() | {path: ""},
        why=(
            "laxer: model.py could complete it (auto_complete_config); ours does not, which only "
            "running it shows"
        ),
    )
    newer = text(
        chain(),
        path,
        lambda t: t.replace(
            "ensemble_scheduling {", "ensemble_scheduling {\n  max_inflight_requests: 4"
        ),
    )
    add("a field newer than the server", newer, "S007")


def _broken_models(cases: _Cases) -> None:
    add = cases.add
    renamed = text(single(), "top/config.pbtxt", lambda t: t.replace('"top"', '"other"'))
    add("another name than the folder", renamed, "R004")
    add("no version folder", without(single(), "top/1/") | {"top/notes.txt": ""}, "V001")
    add("ensemble without a version folder", without(chain(), "top/1/"), "V001")
    add("no model.py", without(single(), "top/1/") | {"top/1/other.py": ECHO}, "V003")
    add("named file absent", single(default_model_filename="main.py"), "V003")
    absent = VersionPolicy(specific=Specific((3,)))
    add("pinned version absent", single(version_policy=absent), "V002")
    partly = VersionPolicy(specific=Specific((1, 3)))
    add("one of two pinned versions absent", single(version_policy=partly), warnings=("V005",))
    add("no latest version", single(version_policy=VersionPolicy(latest=Latest(0))), "V002")
    add("no specific version", single(version_policy=VersionPolicy(specific=Specific())), "V002")
    add("unknown platform", single(backend=None, platform="python"), "M002")
    add("backend and platform differ", single(platform="tensorrt_plan"), warnings=("M006",))
    add(
        "misspelt backend",
        single(backend="pyhton"),
        why="laxer: a server may have a backend of that name; it is a warning",
        warnings=("M007",),
    )
    add("ensemble with a backend", chain(backend="python"), "M002")
    no_batches = {"max_batch_size": 0}
    scalar = replace(X, dims=(1,), reshape=Reshape())
    add("empty reshape without batching", single(input=(scalar,), **no_batches), "T006")
    add("ensemble as a backend", chain(platform=None, backend="ensemble"), "M002")
    add("negative batch size", single(max_batch_size=-1), "M005")
    add("two inputs of one name", single(input=(X, X)), "T002")
    add("input without a name", single(input=(replace(X, name=None),)), "T001")
    add("input without a type", single(input=(replace(X, data_type=None),)), "T003")
    add("input without dims", single(input=(replace(X, dims=()),)), "T004")
    add("a dim of 0", single(input=(replace(X, dims=(0, 4)),)), "T005")
    add("a dim of -2", single(input=(replace(X, dims=(-2,)),)), "T005")
    add("output without dims", single(output=(replace(Y, dims=()),)), "T004")
    add("reshape of another size", single(input=(replace(X, reshape=Reshape((3,))),)), "T006")
    add(
        "reshape drops a free dim",
        single(input=(replace(X, dims=(-1, 4), reshape=Reshape((4,))),)),
        "T006",
    )
    add(
        "format for two dims",
        single(input=(replace(X, dims=(2, 2), format="FORMAT_NCHW"),)),
        "T007",
    )
    ragged = replace(X, dims=(-1,), allow_ragged_batch=True)
    add("ragged without batching", single(input=(ragged,), max_batch_size=0), warnings=("T008",))
    add("labels absent", single(output=(replace(Y, label_filename="labels.txt"),)), "T009")
    wrong = replace(ZEROS, dims=(5,))
    add("warm-up of another shape", single(model_warmup=(Warmup("w", 1, {"X": wrong}),)), "W003")
    ints = replace(ZEROS, data_type="TYPE_INT64")
    add("warm-up of another type", single(model_warmup=(Warmup("w", 1, {"X": ints}),)), "W003")
    add(
        "warm-up of an unknown input",
        single(model_warmup=(Warmup("w", 1, {"X": ZEROS, "Z": ZEROS}),)),
        warnings=("W006",),
    )
    add(
        "warm-up leaves an input out",
        single(input=(X, replace(X, name="Z")), model_warmup=(Warmup("w", 1, {"X": ZEROS}),)),
        "W002",
    )
    add("warm-up batch too large", single(model_warmup=(Warmup("w", 9, {"X": ZEROS}),)), "W004")
    add(
        "warm-up without data",
        single(model_warmup=(Warmup("w", 1, {"X": replace(ZEROS, zero_data=None)}),)),
        "W005",
    )
    add(
        "warm-up file absent",
        single(
            model_warmup=(
                Warmup("w", 1, {"X": WarmupInput("TYPE_FP32", (4,), input_data_file="x")}),
            )
        ),
        "W005",
    )
    add("warm-up of an ensemble", chain(model_warmup=(Warmup("w", 1, {"X": ZEROS}),)), "W001")
    bls = files(
        leaf("a"),
        leaf("b"),
        leaf("top", parameters={"bls_models": "a"}, model_warmup=(Warmup("w", 1, {"X": ZEROS}),)),
    )
    add(
        "warm-up of a BLS model",
        bls,
        "W001",
        first=("a",),
        why=(
            "stricter: it loads here only because the model it calls was loaded before; a server "
            "that loads its whole repository warms it up too early and ends"
        ),
    )


def _broken_scheduling(cases: _Cases) -> None:
    add = cases.add

    def batching(**values: object) -> Files:
        return single(dynamic_batching=DynamicBatching(**values))  # type: ignore[arg-type]

    add("preferred batch too large", batching(preferred_batch_size=(16,)), "D001")
    add("preferred batch of 0", batching(preferred_batch_size=(0,)), "D001")
    add(
        "preferred batch without batches",
        single(max_batch_size=0, dynamic_batching=DynamicBatching((1,))),
        "D001",
        warnings=("D011",),
    )
    add(
        "model instances with GPUs",
        single(instance_group=(InstanceGroup(kind="KIND_MODEL", gpus=(0,)),)),
        "D008",
    )
    add("optimization of an ensemble", chain(optimization=OptimizationPolicy()), "D002")
    add(
        "batcher without batches",
        single(max_batch_size=0, dynamic_batching=DynamicBatching()),
        warnings=("D011",),
    )
    add(
        "default priority out of range",
        batching(priority_levels=2, default_priority_level=3),
        "D003",
    )
    add("no default priority", batching(priority_levels=2), "D003")
    add(
        "policy for an unknown priority",
        batching(
            priority_levels=2, default_priority_level=1, priority_queue_policy={3: QueuePolicy()}
        ),
        "D003",
    )
    add(
        "preserved order with priorities",
        batching(preserve_ordering=True, priority_levels=2, default_priority_level=1),
        "D004",
    )
    delay = {1: QueuePolicy("DELAY", 1000)}
    add(
        "preserved order with DELAY for a priority, no levels",
        batching(preserve_ordering=True, priority_queue_policy=delay),
        "D004",
    )
    add(
        "preserved order with DELAY for a priority",
        batching(
            preserve_ordering=True,
            priority_levels=1,
            default_priority_level=1,
            priority_queue_policy=delay,
        ),
        "D004",
    )
    add(
        "preserved order with DELAY",
        batching(preserve_ordering=True, default_queue_policy=QueuePolicy("DELAY", 1000)),
        "D004",
    )
    add(
        "GPU instances without a GPU",
        single(instance_group=(InstanceGroup(kind="KIND_GPU"),)),
        why="laxer: the files do not say what machine serves them; --gpus 0 does",
    )
    add(
        "CPU instances with GPUs",
        single(instance_group=(InstanceGroup(kind="KIND_CPU", gpus=(0,)),)),
        "D008",
    )
    add(
        "negative instance count",
        single(instance_group=(InstanceGroup(kind="KIND_CPU", count=-1),)),
        warnings=("D012",),
    )
    add(
        "batcher on an ensemble",
        text(chain(), "top/config.pbtxt", lambda t: t + "dynamic_batching { }\n"),
        "S004",
        "D002",
    )
    add(
        "instances of an ensemble",
        chain(instance_group=(InstanceGroup(kind="KIND_CPU", count=1),)),
        "D002",
    )
    add(
        "steps of a model that is no ensemble",
        single(ensemble_scheduling=EnsembleScheduling(CHAIN)),
        "M003",
        "E001",
        "E001",
    )
    add("ensemble without steps", chain(ensemble_scheduling=None), "M003")
    add("ensemble without inputs", chain(input=()), "M004", "E005")


def _broken_wiring(cases: _Cases) -> None:
    add = cases.add
    first, second = CHAIN
    add("absent member", without(chain(), "b/"), "E001")
    add("unknown input", chain(replace(first, input_map={"Q": "X"}), second), "E002", "E004")
    add(
        "unknown input besides the right one",
        chain(replace(first, input_map={"X": "X", "Q": "X"}), second),
        "E002",
    )
    add("unknown output", chain(replace(first, output_map={"Q": "between"}), second), "E003")
    two = {"input": (X, replace(X, name="Z"))}
    add("an input not fed", chain(a=two), "E004")
    add("a tensor nobody writes", chain(first, step("b", "elsewhere", "Y")), "E005", "E013")
    add("an output nobody writes", chain(first, step("b", "between", "Z")), "E006", "E013")
    more = (X, replace(X, name="Z"))
    add("an input nobody reads", chain(input=more), "E007")
    add(
        "a tensor written twice",
        chain(first, step("b", "X", "between"), step("b", "between", "Y")),
        "E008",
    )
    add(
        "an input written by a step",
        chain(first, step("b", "between", "Y"), step("b", "between", "X")),
        "E008",
        "E011",
    )
    add(
        "steps in a circle",
        chain(step("a", "back", "between"), step("b", "between", "back")),
        "E006",
        "E007",
        "E011",
    )
    add("an ensemble that calls itself", chain(first, step("top", "between", "Y")), "E011")
    add("ensembles in a circle", _circle(), "E011")
    maybe = {"input": (X, Input("Z", "TYPE_FP32", dims=(4,), optional=True))}
    both = {"input": (X, replace(X, name="Z"))}
    fed = replace(first, input_map={"X": "X", "Z": "Z"})
    add("an optional input fed to one that is needed", chain(fed, second, a=both, **maybe), "E004")
    add("version of a member left out", chain(replace(first, model_version=None), second), "E016")
    bare = {"input": (), "output": ()}
    add("member that lists no tensors", chain(a=bare), "E002", "E003")
    inner = replace(ensemble(*CHAIN, output=(Y, replace(Y, name="between"))), name="inner")
    add(
        "ensemble in an ensemble that leaves an inner tensor out",
        files(leaf("a"), leaf("b"), inner, ensemble(step("inner", "X", "Y"))),
        why="laxer: a server's fault; it waits for an output that was not asked for",
    )
    add("pinned version of a member absent", chain(replace(first, model_version=7), second), "E016")
    add("step without a model", chain(replace(first, model_name=None), second), "E014")
    add("step without inputs", chain(replace(first, input_map={}), second), "E004", "E007", "E014")
    add("step without outputs", chain(replace(first, output_map={}), second), "E005", "E014")
    add("BLS of an absent model", _bls("a, c"), "B001", first=("a",))


def _circle() -> Files:
    inner = replace(ensemble(step("top", "X", "Y")), name="inner")
    return files(inner, ensemble(step("inner", "X", "Y")))


def _broken_shapes(cases: _Cases) -> None:
    add = cases.add
    ints = {"input": (replace(X, data_type="TYPE_INT64"),)}
    wide = {"input": (replace(X, dims=(5,)),)}
    deep = {"input": (replace(X, dims=(4, 1)),)}
    add("another type between the members", chain(b=ints), "E009")
    add("another type at the ensemble's input", chain(a=ints), "E009")
    add(
        "another type at the ensemble's output",
        chain(output=(replace(Y, data_type="TYPE_FP16"),)),
        "E009",
    )
    add("another size between the members", chain(b=wide), "E010")
    add("another rank between the members", chain(b=deep), "E010")
    add("another size at the ensemble's input", chain(a=wide), "E010")
    add("another size at the ensemble's output", chain(output=(replace(Y, dims=(5,)),)), "E010")
    add("a batch dimension written out", chain(a={"input": (replace(X, dims=(-1, 4)),)}), "E010")
    add("larger batches than a member", chain(b={"max_batch_size": 4}), "E012")
    rows = {"input": (replace(X, dims=(16, 4)),), "output": (replace(Y, dims=(16, 4)),)}
    add("more rows written out than members take", chain(max_batch_size=0, **rows), "E012")
    add("a member of exactly 16 rows", chain(a={"max_batch_size": 0, **rows}), "E012", "E012")
    one = {"input": (replace(X, dims=(1, 4)),), "output": (replace(Y, dims=(1, 4)),)}
    add("a member of exactly one row", chain(a={"max_batch_size": 0, **one}), "E012")
    own = replace(X, reshape=Reshape((2, 2)))
    add(
        "a member of other dims and without batches",
        chain(a={"max_batch_size": 0, "input": (replace(X, dims=(5,)),)}),
        "E010",
    )
    fewer = {"max_batch_size": 0, "input": (replace(X, dims=(-1, 4)),)}
    add("a member that takes any rows and gives one", chain(b=fewer))
    scalar = replace(X, dims=(1,), reshape=Reshape())
    one_dim = {"input": (replace(X, dims=(1,)),)}
    add("the ensemble's own input as a scalar", chain(a=one_dim, input=(scalar,)), "E010")
    add("the ensemble's own input reshaped for nothing", chain(input=(own,)), "E010")
    add("larger batches than both members", chain(max_batch_size=16), "E012", "E012")
    plain = {"max_batch_size": 0}
    add(
        "batches between members that have none",
        chain(a=plain, b=plain, max_batch_size=0, output=(replace(Y, dims=(1, 4)),)),
        "E010",
    )
    add(
        "another type and size at once",
        chain(b={"input": (replace(X, data_type="TYPE_INT64", dims=(5,)),)}),
        "E009",
        "E010",
    )
