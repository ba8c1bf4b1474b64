"""Repositories to draw, sound and broken, and the scenes of them."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from cropseek.triton.check import check_repository, read_repository
from cropseek.triton.config import Input, InstanceGroup, Output, Step
from cropseek.triton.draw import Scene, scene_of
from cropseek.triton.draw.scene import Box, Port
from tests.oracle.cases import Files, ensemble, files, leaf, single, step
from tests.oracle.server import write

Rectangle = tuple[float, float, float, float]  # left, top, right, bottom
OURS = Path(__file__).parents[2] / "model_repository"


def takes(*names: str) -> tuple[Input, ...]:
    """Return inputs, each FP32 [ 4 ]."""
    return tuple(Input(name, "TYPE_FP32", dims=(4,)) for name in names)


def gives(*names: str) -> tuple[Output, ...]:
    """Return outputs, each FP32 [ 4 ]."""
    return tuple(Output(name, "TYPE_FP32", dims=(4,)) for name in names)


def calls(*models: str) -> dict[str, str]:
    """Return the parameters of a model that calls others."""
    return {"bls_models": ", ".join(models)}


def text_search() -> Files:
    """Return a pipeline as tutorials have it, with the faults that they have."""
    query = Input("query", "TYPE_STRING", dims=(1,))
    made = files(
        leaf(
            "embedding",
            backend="tensorrt",
            max_batch_size=32,
            input=(Input("ids", "TYPE_INT64", dims=(1,)),),
            output=(Output("vector", "TYPE_FP32", dims=(768,)),),
            instance_group=(InstanceGroup(kind="KIND_GPU", count=1),),
        ),
        leaf(
            "retrieval",
            max_batch_size=16,
            input=(Input("vector", "TYPE_FP32", dims=(768,)),),
            output=(Output("documents", "TYPE_STRING", dims=(5,)),),
            instance_group=(InstanceGroup(kind="KIND_CPU", count=2),),
        ),
        leaf(
            "generator",
            max_batch_size=16,
            input=(Input("documents", "TYPE_STRING", dims=(5,)), query),
            output=(Output("text", "TYPE_STRING", dims=(1,)),),
            instance_group=(),
        ),
        ensemble(
            Step("embedding", -1, {"text": "query"}, {"vector": "vector"}),
            Step("retrieval", -1, {"vector": "vector"}, {"documents": "documents"}),
            Step("generator", -1, {"documents": "documents"}, {"text": "answer"}),
            name="rag",
            max_batch_size=64,
            input=(query,),
            output=(Output("response", "TYPE_STRING", dims=(1,)),),
        ),
    )
    return made | {"embedding/1/model.plan": ""}


def odd_names() -> Files:
    """Return models whose names are not for XML, wide, or long."""
    most = Output("Y", "TYPE_FP32", dims=(10**9,) * 30)
    wire = "wire\x03" * 30
    return files(
        leaf('a<b>&"c"', backend="<&\x02>", input=takes("x<&>"), output=gives("y\x01\n]]>")),
        leaf("画像検索モデル", output=gives("出力"), parameters=calls("a<b", "画像検索モデル")),
        leaf("long_" * 30, input=takes("input_" * 30), output=(most,)),
        ensemble(
            Step('a<b>&"c"', -1, {"x<&>": "X" * 100}, {"y\x01\n]]>": wire}),
            Step("画像検索モデル", -1, {"X": wire}, {"出力": "Y&"}),
            name="all<of>them",
            input=takes("X" * 100),
            output=gives("Y&"),
        ),
    )


def cycles() -> Files:
    """Return steps that wait for each other, and models that call each other and themselves."""
    return files(
        leaf("one", input=takes("X", "back"), parameters=calls("two")),
        leaf("two", output=gives("Y", "Z"), parameters=calls("one", "two")),
        ensemble(
            Step("one", -1, {"X": "X", "back": "feedback"}, {"Y": "forward"}),
            Step("two", -1, {"X": "forward"}, {"Y": "feedback", "Z": "Z"}),
            name="waits",
            output=gives("Z"),
        ),
        ensemble(step("itself", "Y", "Y"), name="itself"),
    )


def used_twice() -> Files:
    """Return two ensembles with a member more than once; one is broken."""
    return files(
        leaf("twin"),
        leaf("join", input=takes("A", "B")),
        ensemble(
            step("twin", "LEFT", "left"),
            step("twin", "RIGHT", "right"),
            Step("join", -1, {"A": "left", "B": "right"}, {"Y": "SAME"}),
            name="pair",
            input=takes("LEFT", "RIGHT", "UNUSED"),
            output=gives("SAME", "NEVER"),
        ),
        ensemble(
            Step("absent", -1, {"x": "X", "h": "nobody's"}, {"y": "Y", "q": "Z"}),
            step("twin", "X", "W"),
            Step("twin", -1, {"wrong": "X", "X": "Z"}, {"nothing": "lost"}),
            Step("twin", 7, {"X": "X"}, {"Y": "elsewhere"}, "another.repository"),
            name="broken",
            max_batch_size=16,
            output=(*gives("Y", "Z"), Output("W", "TYPE_FP32", dims=(5,))),
        ),
    )


def thirty(seed: int = 0, most: int = 5) -> Files:
    """Return ensembles that share members and hold each other, and calls by BLS."""
    chance = random.Random(seed)
    names = [f"leaf_{number}" for number in range(20)]
    models = []
    for number, name in enumerate(names):
        backend = chance.choice(["python", "onnxruntime", "tensorrt", "dali", "pytorch"])
        called = {"parameters": calls(*chance.sample(names, 2))} if number % 7 == 0 else {}
        ports = {"input": takes("a", "b"), "output": gives("y", "z")}
        models.append(leaf(name, backend=backend, **ports, **called))
    for number in range(9):
        wires, steps = ["A", "B"], []
        for place in range(chance.randint(1, most)):
            reads = {"a": chance.choice(wires), "b": chance.choice(wires)}
            writes = {"y": f"t{place}", "z": f"u{place}"}
            steps.append(Step(chance.choice(names), -1, reads, writes))
            wires += writes.values()
        ports = {"input": takes("A", "B"), "output": gives("t0", wires[-1])}
        models.append(ensemble(*steps, name=f"pipeline_{number}", **ports))
    inner = Step("pipeline_0", -1, {"A": "A", "B": "B"}, {"t0": "T"})
    outer = ensemble(inner, name="outer", input=takes("A", "B"), output=gives("T"))
    return files(*models, outer)


REPOSITORIES: dict[str, Files] = {
    "empty": {},
    "one": single(),
    "text search": text_search(),
    "odd names": odd_names(),
    "cycles": cycles(),
    "used twice": used_twice(),
    "thirty": thirty(),
    "wide": thirty(seed=1, most=9),
}
each_repository = pytest.mark.parametrize("made", REPOSITORIES.values(), ids=REPOSITORIES)


def drawn(root: Path, made: Files) -> Scene:
    """Write a repository, and return what is drawn of it."""
    write(made, root)
    repository = read_repository(root)
    return scene_of(repository, check_repository(repository))


def places_of(scene: Scene) -> list[Box | Port]:
    """Return what findings are shown at."""
    places: list[Box | Port] = []
    for box in (box for top in scene.boxes for box in (top, *top.steps)):
        places += [box, *box.inputs, *box.outputs]
    return places


def overlap(one: Rectangle, other: Rectangle) -> bool:
    """Return whether two rectangles share more than a border."""
    return one[0] < other[2] and other[0] < one[2] and one[1] < other[3] and other[1] < one[3]


def within(inner: Rectangle, outer: Rectangle) -> bool:
    """Return whether a rectangle lies in another, but for what rounding takes."""
    return (
        inner[0] >= outer[0] - 0.2
        and inner[1] >= outer[1] - 0.2
        and inner[2] <= outer[2] + 0.2
        and inner[3] <= outer[3] + 0.2
    )
