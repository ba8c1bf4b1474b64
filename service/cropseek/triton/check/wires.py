"""The tensors of an ensemble, and where each is written and read.

A *wire* is a tensor of an ensemble by the ensemble's own name for it; its *ports* are where it is
written and read: an input or output of a member, or of the ensemble itself.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from difflib import get_close_matches
from typing import Literal

from cropseek.triton.check.model import Model
from cropseek.triton.codec import FieldPath
from cropseek.triton.config import Input, Output, Step

Models = Mapping[str, Model]


_DIGITS = re.compile(r"\d+")
Side = Literal["input", "output"]


@dataclass(frozen=True)
class Port:
    """An end of a wire: a tensor `key` of a model; `step` is None at the ensemble's own.

    `tensor` is what that model's configuration says of it, None if that is not known; `batches` its
    max_batch_size; `path` is where the ensemble's configuration maps it.
    """

    model: str
    step: int | None
    key: str
    tensor: Input | Output | None
    batches: int | None
    path: FieldPath


@dataclass
class Wire:
    """A tensor of an ensemble, with who writes and who reads it."""

    name: str
    producers: list[Port] = field(default_factory=list)
    consumers: list[Port] = field(default_factory=list)


def steps_of(model: Model) -> tuple[Step, ...]:
    """Return the steps of an ensemble; none for other models."""
    scheduling = model.config.ensemble_scheduling
    return scheduling.step if scheduling is not None else ()


def member_of(ensemble: Model, step: Step, models: Models) -> Model | None:
    """Return the model that a step names, or surely means with a name that is misspelt.

    Sure is one other model of nearly that name, not of another number, with all the inputs fed.
    """
    name = step.model_name or ""
    if step.model_namespace:
        return None  # a model of another repository
    if name in models:
        return models[name]
    near = get_close_matches(name, [other for other in models if other != ensemble.name], 2, 0.8)
    if len(near) != 1 or _DIGITS.sub("", near[0]) == _DIGITS.sub("", name):
        return None
    inputs = named(models[near[0]].config.input)
    fits = inputs is not None and all(key in inputs for key in step.input_map)
    return models[near[0]] if fits else None


def named(tensors: Iterable[Input | Output]) -> dict[str, Input | Output] | None:
    """Return tensors by name; None if there are none or not all have one: nothing to hold on to."""
    listed = list(tensors)
    if not listed or not all(tensor.name for tensor in listed):
        return None
    return {str(tensor.name): tensor for tensor in listed}


def wires_of(ensemble: Model, models: Models) -> dict[str, Wire]:
    """Return the tensors of an ensemble by name."""
    wires: dict[str, Wire] = {}

    def wire(name: str) -> Wire:
        return wires.setdefault(name, Wire(name))

    batches = ensemble.max_batch_size
    for number, tensor in enumerate(ensemble.config.input):
        if tensor.name:
            path: FieldPath = ("input", number)
            port = Port(ensemble.name, None, tensor.name, _inside(tensor), batches, path)
            wire(tensor.name).producers.append(port)
    for number, step in enumerate(steps_of(ensemble)):
        member = member_of(ensemble, step, models)
        for key, name in step.input_map.items():
            wire(name).consumers.append(_member_port(member, step, number, "input", key))
        for key, name in step.output_map.items():
            wire(name).producers.append(_member_port(member, step, number, "output", key))
    for number, output in enumerate(ensemble.config.output):
        if output.name:
            path = ("output", number)
            port = Port(ensemble.name, None, output.name, _inside(output), batches, path)
            wire(output.name).consumers.append(port)
    return wires


def _inside(tensor: Input | Output) -> Input | Output:
    """Return an ensemble's own tensor as its steps see it: in its reshaped form."""
    return replace(tensor, dims=tensor.reshape.shape) if tensor.reshape is not None else tensor


def _member_port(member: Model | None, step: Step, number: int, side: Side, key: str) -> Port:
    path: FieldPath = ("ensemble_scheduling", "step", number, f"{side}_map", key)
    if member is None:
        return Port(step.model_name or "", number, key, None, None, path)
    tensor = (named(getattr(member.config, side)) or {}).get(key)
    if tensor is None and side == "input":
        tensor = _meant(member, step, key)
    return Port(member.name, number, key, tensor, member.max_batch_size, path)


def _meant(member: Model, step: Step, key: str) -> Input | Output | None:
    """Return the input that an unknown key stands for: the only one that nothing else feeds."""
    inputs = named(member.config.input)
    if inputs is None:
        return None
    unknown, unfed = unknown_inputs(inputs, step), unfed_inputs(inputs, step)
    return inputs[unfed[0]] if unknown == [key] and len(unfed) == 1 else None


def unknown_inputs(inputs: Mapping[str, Input | Output], step: Step) -> list[str]:
    """Return what a step feeds that is no input of its model."""
    return [key for key in step.input_map if key not in inputs]


def unfed_inputs(inputs: Mapping[str, Input | Output], step: Step) -> list[str]:
    """Return the inputs of a member that its step leaves out and must not."""
    return [
        name
        for name, tensor in inputs.items()
        if name not in step.input_map and not (isinstance(tensor, Input) and tensor.optional)
    ]
