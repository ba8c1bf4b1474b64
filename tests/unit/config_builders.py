"""Triton configurations to try the codec with, made from the protobuf descriptors themselves."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from typing import Any

from google.protobuf.descriptor import Descriptor, EnumDescriptor, FieldDescriptor
from hypothesis import strategies as st
from tritonclient.grpc import model_config_pb2 as pb

from cropseek.triton.codec import CLASSES, attribute

CONFIG = pb.ModelConfig.DESCRIPTOR
PARAMETER = pb.ModelParameter.DESCRIPTOR.full_name  # stands as a string in a dataclass
RANGES = {
    FieldDescriptor.CPPTYPE_INT32: (-(2**31), 2**31 - 1),
    FieldDescriptor.CPPTYPE_INT64: (-(2**63), 2**63 - 1),
    FieldDescriptor.CPPTYPE_UINT32: (0, 2**32 - 1),
    FieldDescriptor.CPPTYPE_UINT64: (0, 2**64 - 1),
}
ZEROS = {
    FieldDescriptor.CPPTYPE_STRING: "",
    FieldDescriptor.CPPTYPE_BOOL: False,
    FieldDescriptor.CPPTYPE_FLOAT: 0.0,
    FieldDescriptor.CPPTYPE_DOUBLE: 0.0,
}


def is_map(known: FieldDescriptor) -> bool:
    """Return whether a field is a map."""
    return known.message_type is not None and bool(known.message_type.GetOptions().map_entry)


def messages(descriptor: Descriptor = CONFIG) -> dict[str, Descriptor]:
    """Return a message and all that are in it, entries of maps too, by their full names."""
    found = {descriptor.full_name: descriptor}
    for known in descriptor.fields:
        if known.message_type is not None:
            found |= messages(known.message_type)
    return found


def enums() -> dict[str, EnumDescriptor]:
    """Return every enum of a configuration by its full name."""
    fields = [known for message in messages().values() for known in message.fields]
    return {known.enum_type.full_name: known.enum_type for known in fields if known.enum_type}


@cache
def scalars(known: FieldDescriptor) -> st.SearchStrategy[Any]:
    """Return every value that a scalar field takes, but NaN, which is not equal to itself."""
    if known.enum_type is not None:
        return st.sampled_from(list(known.enum_type.values_by_name))
    if known.cpp_type in RANGES:
        return st.integers(*RANGES[known.cpp_type])
    if known.cpp_type == FieldDescriptor.CPPTYPE_BOOL:
        return st.booleans()
    if known.cpp_type == FieldDescriptor.CPPTYPE_STRING:
        return st.text(max_size=12)
    if known.cpp_type == FieldDescriptor.CPPTYPE_FLOAT:
        return st.floats(allow_nan=False, width=32)
    return st.floats(allow_nan=False)


@cache
def single(known: FieldDescriptor) -> st.SearchStrategy[Any]:
    """Return every value of a field, of a repeated one every element."""
    message = known.message_type
    if message is None:
        return scalars(known)
    return scalars(message.fields[0]) if message.full_name == PARAMETER else objects(message)


@cache
def values(known: FieldDescriptor) -> st.SearchStrategy[Any]:
    """Return every value of a field, a map or a tuple where it holds several."""
    if is_map(known):
        assert known.message_type is not None
        key, value = known.message_type.fields
        return st.dictionaries(scalars(key), single(value), max_size=2)
    if known.is_repeated:
        return st.lists(single(known), max_size=3).map(tuple)
    return single(known)


@cache
def objects(descriptor: Descriptor) -> st.SearchStrategy[Any]:
    """Return every object that stands for a message, with few of its fields set."""
    every = list(descriptor.fields)
    some = st.lists(st.sampled_from(every), max_size=5) if every else st.just([])

    @st.composite
    def build(draw: st.DrawFn) -> Any:
        chosen = {oneof_of(known): known for known in draw(some)}
        given = {attribute(known.name): draw(values(known)) for known in chosen.values()}
        return CLASSES[descriptor.full_name](**given)

    return build()


def oneof_of(known: FieldDescriptor) -> str:
    """Return what only one field may be set of: a oneof, or the field itself."""
    return known.containing_oneof.name if known.containing_oneof is not None else known.name


def complete(descriptor: Descriptor, variant: int, zeros: bool) -> Any:
    """Return an object with everything set, the variant-th field of a oneof, or with all zeros."""

    def one(known: FieldDescriptor) -> Any:
        if known.message_type is not None:
            if known.message_type.full_name == PARAMETER:
                return one(known.message_type.fields[0])
            return complete(known.message_type, variant, zeros)
        if known.enum_type is not None:
            return known.enum_type.values[0 if zeros else -1].name
        zero = ZEROS.get(known.cpp_type, 0)
        return zero if zeros else {str: "text", bool: True, int: 1, float: 0.5}[type(zero)]

    def value(known: FieldDescriptor) -> Any:
        if is_map(known):
            assert known.message_type is not None
            key, content = known.message_type.fields
            return {one(key): one(content)}
        return (one(known),) if known.is_repeated else one(known)

    chosen = []
    for known in descriptor.fields:
        rivals = known.containing_oneof.fields if known.containing_oneof is not None else [known]
        if known is rivals[variant % len(rivals)]:
            chosen.append(known)
    return CLASSES[descriptor.full_name](**{attribute(k.name): value(k) for k in chosen})


def set_fields(value: Any, descriptor: Descriptor) -> Iterator[str]:
    """Yield the full name of every field that is set in an object and in all that it holds."""
    for known in descriptor.fields:
        part = getattr(value, attribute(known.name))
        if part is None or (known.is_repeated and not part):
            continue
        yield known.full_name
        message, parts = known.message_type, part if known.is_repeated else (part,)
        if is_map(known):
            assert message is not None
            yield from (field.full_name for field in message.fields)
            message, parts = message.fields[1].message_type, part.values()
        if message is not None and message.full_name == PARAMETER:
            yield message.fields[0].full_name
        elif message is not None:
            for element in parts:
                yield from set_fields(element, message)
