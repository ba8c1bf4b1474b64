"""Model repositories described in Python, and written as Triton reads them.

    from cropseek.triton.build import Ensemble, Repository, model, tensor

    embed = model("embed", "onnxruntime", max_batch_size=8,
                  inputs=[tensor("PIXELS", "FP32", 3, 224, 224)],
                  outputs=[tensor("VECTOR", "FP32", 1280)])
    search = Ensemble("search", max_batch_size=8, inputs=[tensor("IMAGE", "FP32", 3, 224, 224)])
    found = search.call(embed, PIXELS=search["IMAGE"])
    search.output("VECTOR", found["VECTOR"])
    repository = Repository([embed, search])

Names, types, shapes and batches that do not fit are refused where they are written.
`cropseek repo build FILE.py -o DIR` writes the variable `repository` of a file;
docs/examples/text_search.py is a whole one.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal, cast, get_args

from cropseek.triton.check import shapes
from cropseek.triton.config import (
    DataType,
    EnsembleScheduling,
    Input,
    InstanceGroup,
    InstanceKind,
    ModelConfig,
    Output,
    Step,
)

Content = str | bytes | Path  # a file's text, its bytes, or the file it is a copy of
_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]*")  # with others, stubs do not start
_EMPTY_VERSION = "1/.gitkeep"  # a version folder must be there, even where nothing is in it


class BuildError(ValueError):
    """A description that does not fit together."""


@dataclass(frozen=True)
class Tensor:
    """A tensor of a model: `data_type` as in TYPE_FP32, `dims` without the batch dimension."""

    name: str
    data_type: DataType
    dims: tuple[int, ...]
    options: Mapping[str, Any] = field(default_factory=dict)

    def as_input(self) -> Input:
        """Return it as an input of a configuration."""
        return Input(self.name, self.data_type, dims=self.dims, **self.options)

    def as_seen_inside(self) -> tuple[int, ...]:
        """Return the dims that an ensemble's steps see of it: those it is reshaped to."""
        reshape = self.options.get("reshape")
        return self.dims if reshape is None else tuple(reshape.shape)

    def as_output(self) -> Output:
        """Return it as an output of a configuration."""
        return Output(self.name, self.data_type, dims=self.dims, **self.options)


def tensor(name: str, data_type: str, *dims: int, **options: Any) -> Tensor:
    """Return a tensor: `tensor("IDS", "INT64", 1)`; options as `optional=True`, `reshape=…`."""
    if not name:
        raise BuildError("a tensor has a name")
    if not dims:
        raise BuildError(f"{name}: expected dims, got none; a scalar is 1 with reshape=Reshape()")
    full = data_type if data_type.startswith("TYPE_") else f"TYPE_{data_type}"
    kinds = [kind for kind in get_args(DataType) if kind != "TYPE_INVALID"]
    if full not in kinds:
        known = ", ".join(kind.removeprefix("TYPE_") for kind in kinds)
        raise BuildError(f"{name}: expected a data type ({known}), got {data_type!r}")
    for dim in dims:
        if not isinstance(dim, int) or dim == 0 or dim < -1:
            raise BuildError(f"{name}: a dim is 1 or more, or -1 for any, got {dim!r}")
    return Tensor(name, cast(DataType, full), dims, options)


@dataclass(frozen=True)
class Model:
    """A model: its configuration, its files by path in its folder, other profiles' configurations.

    A model with `profiles` has `configs/NAME.pbtxt` for each, and config.pbtxt as well.
    """

    config: ModelConfig
    files: Mapping[str, Content] = field(default_factory=dict)
    profiles: Mapping[str, ModelConfig] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """The model's name, which is its folder's."""
        assert self.config.name is not None
        return self.config.name


def model(
    name: str,
    backend: str,
    *,
    inputs: Sequence[Tensor],
    outputs: Sequence[Tensor],
    max_batch_size: int = 0,
    instances: int = 1,
    on: Literal["cpu", "gpu"] = "cpu",
    files: Mapping[str, Content] | None = None,
    profiles: Mapping[str, Mapping[str, Any]] | None = None,
    **settings: Any,
) -> Model:
    """Return a model; `settings` are fields of `ModelConfig`, `profiles` what differs in each.

    Raises `TypeError` for a setting that ModelConfig has not, `BuildError` for a device that is not
    "cpu" or "gpu".
    """
    if on not in ("cpu", "gpu"):
        raise BuildError(f"{name}: on: expected 'cpu' or 'gpu', got {on!r}")
    kind: InstanceKind = "KIND_GPU" if on == "gpu" else "KIND_CPU"
    config = ModelConfig(
        name=name,
        backend=backend,
        max_batch_size=max_batch_size,
        input=tuple(t.as_input() for t in inputs),
        output=tuple(t.as_output() for t in outputs),
        instance_group=(InstanceGroup(kind=kind, count=instances),),
    )
    config = replace(config, **settings)
    others = {profile: replace(config, **changes) for profile, changes in (profiles or {}).items()}
    return Model(config, files or {}, others)


@dataclass(frozen=True)
class Wire:
    """A tensor between the steps of an ensemble: whose it is, its number there, type and dims.

    `batches` is the max_batch_size of the model that makes it.
    """

    ensemble: Ensemble = field(compare=False, repr=False)
    number: int
    data_type: str | None
    dims: tuple[int, ...]
    batches: int


class Outputs(dict[str, Wire]):
    """A step's outputs by name."""

    def __missing__(self, name: str) -> Wire:
        raise BuildError(f"no output {name!r}; there are {', '.join(self) or 'none'}")


class Ensemble:
    """An ensemble that is wired step by step; what does not fit raises `BuildError`."""

    def __init__(self, name: str, *, inputs: Sequence[Tensor], max_batch_size: int = 0) -> None:
        self.name = name
        self._max_batch_size = max_batch_size
        self._inputs = tuple(inputs)
        self._names: list[str] = []  # of wires, by number
        self._wires = {
            t.name: self._wire(t.name, t.data_type, t.as_seen_inside(), max_batch_size)
            for t in inputs
        }
        if len(self._wires) < len(self._inputs):
            raise BuildError(f"{name}: two inputs share a name")
        if max_batch_size < 0:
            raise BuildError(f"{name}: max_batch_size: expected 0 or more, got {max_batch_size}")
        self.members: dict[str, ModelConfig] = {}  # as they were when they were called
        self._outputs: list[Output] = []
        self._handed_out: set[int] = set()
        self._steps: list[tuple[str, dict[str, Wire], dict[str, Wire]]] = []

    def __getitem__(self, name: str) -> Wire:
        """Return an input of the ensemble."""
        if name not in self._wires:
            raise BuildError(f"{self.name}: no input {name!r}; it has {', '.join(self._wires)}")
        return self._wires[name]

    def call(self, called: Model | Ensemble, /, **inputs: Wire) -> Outputs:
        """Add a step that feeds a model's inputs; return its outputs by name."""
        config = called.config
        known = {str(t.name): t for t in config.input}
        for name, wire in inputs.items():
            if name not in known:
                raise BuildError(
                    f"{self.name}: {called.name!r} has no input {name!r}; it has {', '.join(known)}"
                )
            self._check_fit(called, known[name], wire)
        for name, wanted in known.items():
            if name not in inputs and not wanted.optional:
                raise BuildError(f"{self.name}: {called.name!r} needs its input {name!r}")
        batches = config.max_batch_size or 0
        if 0 < batches < self._max_batch_size:
            raise BuildError(
                f"{self.name}: max_batch_size is {self._max_batch_size}, "
                f"that of {called.name!r} {batches}"
            )
        made = Outputs()
        for output in config.output:
            name = str(output.name)
            free = self._free_name(called.name, name)
            made[name] = self._wire(free, output.data_type, output.dims, batches)
        self._steps.append((called.name, dict(inputs), made))
        self.members[called.name] = config
        return made

    def _check_fit(self, called: Model | Ensemble, wanted: Input, wire: Wire) -> None:
        takes = f"{self.name}: {called.name!r} takes {{}} as {wanted.name!r}, got {{}}"
        if not isinstance(wire, Wire):
            raise BuildError(takes.format("a tensor of this ensemble", repr(wire)))
        if wire.ensemble is not self:
            raise BuildError(
                takes.format("a tensor of this ensemble", f"one of {wire.ensemble.name!r}")
            )
        if wire.data_type != wanted.data_type:
            raise BuildError(takes.format(wanted.data_type, wire.data_type))
        batches = called.config.max_batch_size or 0
        in_full = shapes.fit(
            shapes.full(wire.dims, wire.batches), shapes.full(wanted.dims, batches)
        )
        if not (in_full or shapes.fit(wire.dims, wanted.dims)):
            raise BuildError(takes.format(shapes.text(wanted.dims), shapes.text(wire.dims)))

    def output(self, name: str, wire: Wire) -> None:
        """Hand a step's output out under a name."""
        if wire.ensemble is not self:
            raise BuildError(f"{self.name}: output {name!r} is a tensor of {wire.ensemble.name!r}")
        if wire in self._wires.values():
            raise BuildError(f"{self.name}: output {name!r} is an input; a step must make it")
        if name in self._wires or name in {output.name for output in self._outputs}:
            raise BuildError(f"{self.name}: {name!r} is the name of an input or output already")
        if wire.number in self._handed_out:
            raise BuildError(
                f"{self.name}: a tensor is handed out under one name, not {name!r} too"
            )
        self._handed_out.add(wire.number)
        if name in self._names:  # an inner tensor gives way
            self._names[self._names.index(name)] = self._free_name("inner", name)
        self._names[wire.number] = name
        dims = wire.dims
        if self._max_batch_size and not wire.batches and len(dims) > 1 and dims[0] == -1:
            dims = dims[1:]  # the batch dimension, which the ensemble does not write
        self._outputs.append(Output(name, cast(DataType, wire.data_type), dims=dims))

    @property
    def config(self) -> ModelConfig:
        """The configuration. Outputs that nothing reads are not mapped: Triton refuses those.

        Raises `BuildError` if nothing is handed out, or an input is not read.
        """
        if not self._outputs:
            raise BuildError(f"{self.name}: no output is handed out")
        read = {wire.number for _, inputs, _ in self._steps for wire in inputs.values()}
        for name, wire in self._wires.items():
            if wire.number not in read:
                raise BuildError(f"{self.name}: no step reads the input {name!r}")
        for called, inputs, made in self._steps:
            if not inputs:
                raise BuildError(f"{self.name}: nothing is fed to {called!r}")
            if not {wire.number for wire in made.values()} & (read | self._handed_out):
                raise BuildError(f"{self.name}: nothing that {called!r} makes is read")
        steps = tuple(
            Step(
                called,
                -1,
                {key: self._names[wire.number] for key, wire in inputs.items()},
                {
                    key: self._names[wire.number]
                    for key, wire in made.items()
                    if wire.number in read | self._handed_out
                },
            )
            for called, inputs, made in self._steps
        )
        return ModelConfig(
            name=self.name,
            platform="ensemble",
            max_batch_size=self._max_batch_size,
            input=tuple(t.as_input() for t in self._inputs),
            output=tuple(self._outputs),
            ensemble_scheduling=EnsembleScheduling(steps),
        )

    def _wire(self, name: str, data_type: str | None, dims: tuple[int, ...], batches: int) -> Wire:
        self._names.append(name)
        return Wire(self, len(self._names) - 1, data_type, dims, batches)

    def _free_name(self, called: str, name: str) -> str:
        """Return a name no other wire has: the tensor's, else with the model's before it."""
        candidates = [name, f"{called}_{name}"]
        candidates += [f"{called}_{name}_{number}" for number in range(2, len(self._names) + 3)]
        return next(candidate for candidate in candidates if candidate not in self._names)


class Repository:
    """Models and ensembles that are served together."""

    def __init__(self, models: Iterable[Model | Ensemble]) -> None:
        given = list(models)
        self.models = [m if isinstance(m, Model) else Model(m.config) for m in given]
        names = [m.name for m in self.models]
        for name in names:
            if names.count(name) > 1:
                raise BuildError(f"two models are called {name!r}")
            if not _NAME.fullmatch(name):
                raise BuildError(
                    f"a model's name is its folder's: expected letters, digits, '_', '-' and '.', "
                    f"got {name!r}"
                )
        configs = {m.name: m.config for m in self.models}
        for ensemble in (m for m in given if isinstance(m, Ensemble)):
            for name, called in ensemble.members.items():
                if configs.get(name) != called:
                    how = "not given" if name not in configs else "not the model given"
                    raise BuildError(f"{ensemble.name!r} calls {name!r}, which is {how}")

    def files(self) -> Iterator[tuple[Path, Content]]:
        """Yield every file of the repository by its path there."""
        for made in self.models:
            folder = Path(made.name)
            yield folder / "config.pbtxt", made.config.to_pbtxt()
            for profile, config in made.profiles.items():
                if not _NAME.fullmatch(profile):
                    raise BuildError(f"{made.name}: a profile cannot be called {profile!r}")
                yield folder / "configs" / f"{profile}.pbtxt", config.to_pbtxt()
            for name, content in (made.files or {_EMPTY_VERSION: ""}).items():
                yield folder / _inside(made.name, name), content

    def write(self, folder: Path) -> list[Path]:
        """Write every file below a folder, over what is there; return their paths.

        Raises `BuildError` or `ValueError` before anything is written.
        """
        files = {folder / name: _as_bytes(name, content) for name, content in self.files()}
        for path in files:
            inner = next((parent for parent in path.parents if parent in files), None)
            if inner is not None:
                raise BuildError(f"{inner} cannot be a file and hold {path.name!r}")
        for path, content in files.items():
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)
        return list(files)


def _inside(model_name: str, name: str) -> Path:
    """Return a file's path in its model's folder; raises `BuildError` if it leads out of it."""
    path = Path(name)
    if path.is_absolute() or ".." in path.parts:
        raise BuildError(f"{model_name}: expected a file in the model's folder, got {name!r}")
    if path.parts[:1] in (("config.pbtxt",), ("configs",)):
        raise BuildError(f"{model_name}: {name!r} is written from the configuration")
    return path


def _as_bytes(name: Path, content: Content) -> bytes:
    if isinstance(content, Path):
        try:
            return content.read_bytes()
        except OSError as error:
            raise BuildError(f"{name}: cannot copy {content}: {error.strerror}") from None
    return content.encode() if isinstance(content, str) else content
