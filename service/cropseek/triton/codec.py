"""Between typed configurations, protobuf messages and protobuf's text, whatever the message.

A dataclass stands for a message: its fields are named as the message's, None or empty if not set.
`config.py` declares them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from numbers import Integral, Real
from typing import Any, TypeVar

from google.protobuf.descriptor import Descriptor, FieldDescriptor
from google.protobuf.message import Message
from google.protobuf.text_encoding import CEscape
from tritonclient.grpc import model_config_pb2 as pb

from cropseek.triton.pbtxt import Block, Entry, Place

# Names fields and counts elements from 0: ("input", 1, "dims"); a map's key stands for a number.
FieldPath = tuple[str | int, ...]
_SCALARS = {  # what protobuf's types are in Python; the others are whole numbers
    FieldDescriptor.CPPTYPE_STRING: (str, "a string"),
    FieldDescriptor.CPPTYPE_BOOL: (bool, "True or False"),
    FieldDescriptor.CPPTYPE_FLOAT: (Real, "a number"),
    FieldDescriptor.CPPTYPE_DOUBLE: (Real, "a number"),
}
_WIDTH = 100  # of a line of text
_MessageClass = TypeVar("_MessageClass", bound=type[Any])
CLASSES: dict[str, type[Any]] = {}  # of all messages, by their full names


def message_class(kind: type[Message]) -> Callable[[_MessageClass], _MessageClass]:
    """Make a class the one that stands for a protobuf message."""

    def register(cls: _MessageClass) -> _MessageClass:
        CLASSES[kind.DESCRIPTOR.full_name] = cls
        return cls

    return register


def attribute(name: str) -> str:
    """Return a protobuf field's name as a dataclass has it: `global` is a word of Python's."""
    return "global_" if name == "global" else name


def _is_parameter(descriptor: Descriptor) -> bool:
    """Return whether a message is the one that only wraps a string."""
    return bool(descriptor.full_name == pb.ModelParameter.DESCRIPTOR.full_name)


def _is_map(known: FieldDescriptor) -> bool:
    return known.message_type is not None and bool(known.message_type.GetOptions().map_entry)


def _map_value(known: FieldDescriptor) -> Descriptor | None:
    """Return the message that a map's values are; None if they are scalars."""
    assert known.message_type is not None
    return known.message_type.fields_by_name["value"].message_type


def fill(message: Any, value: Any) -> None:
    """Set a protobuf message's fields; raises `ValueError` or `TypeError` for a wrong value."""
    wanted = CLASSES[message.DESCRIPTOR.full_name]
    if not isinstance(value, wanted):
        raise TypeError(f"expected a {wanted.__name__}, got {value!r}")
    for known in message.DESCRIPTOR.fields:
        part = getattr(value, attribute(known.name))
        if part is None:
            continue
        _check_oneof(message, known)
        if _is_map(known):
            _fill_map(getattr(message, known.name), known, part)
        elif known.message_type is None and known.is_repeated:
            getattr(message, known.name).extend(_scalar_value(known, v) for v in part)
        elif known.message_type is None:
            setattr(message, known.name, _scalar_value(known, part))
        elif known.is_repeated:
            for element in part:
                fill(getattr(message, known.name).add(), element)
        else:
            getattr(message, known.name).SetInParent()
            fill(getattr(message, known.name), part)


def _fill_map(target: Any, known: FieldDescriptor, entries: Any) -> None:
    assert known.message_type is not None
    key_field, value_field = known.message_type.fields
    wanted = value_field.message_type
    for key, value in entries.items():
        checked = _scalar_value(key_field, key)
        if wanted is None:
            target[checked] = _scalar_value(value_field, value)
        elif _is_parameter(wanted):
            target[checked].string_value = _scalar_value(wanted.fields[0], value)
        else:
            target[checked].SetInParent()
            fill(target[checked], value)


def _check_oneof(message: Any, known: FieldDescriptor) -> None:
    if known.containing_oneof is None:
        return
    taken = message.WhichOneof(known.containing_oneof.name)
    if taken is not None:
        raise ValueError(f"{taken} and {known.name} exclude each other")


def _scalar_value(known: FieldDescriptor, value: Any) -> Any:
    """Return a scalar as protobuf wants it; protobuf itself takes True for 1 and bytes for text."""
    if known.enum_type is not None:
        found = known.enum_type.values_by_name.get(value)
        if found is None:
            names = ", ".join(known.enum_type.values_by_name)
            raise ValueError(f"{known.name}: expected one of {names}, got {value!r}")
        return found.number
    kind, name = _SCALARS.get(known.cpp_type, (Integral, "a whole number"))
    if not isinstance(value, kind) or (isinstance(value, bool) and kind is not bool):
        raise TypeError(f"{known.name}: expected {name}, got {value!r}")
    return value


def from_message(message: Any) -> dict[str, Any]:
    """Return a message's fields that are not zero, by the attributes of its class."""
    values: dict[str, Any] = {}
    for known, value in message.ListFields():
        name = attribute(known.name)
        if _is_map(known):
            wanted = _map_value(known)
            values[name] = {k: _plain(v, known, wanted) for k, v in sorted(value.items())}
        elif known.is_repeated:
            values[name] = tuple(_plain(v, known, known.message_type) for v in value)
        else:
            values[name] = _plain(value, known, known.message_type)
    return values


def _plain(value: Any, known: FieldDescriptor, message: Descriptor | None) -> Any:
    if message is not None:
        if _is_parameter(message):
            return value.string_value
        return CLASSES[message.full_name](**from_message(value))
    return known.enum_type.values_by_number[value].name if known.enum_type else value


class BlockReader:
    """Makes objects of blocks, and notes the place of every field and the keys of every map."""

    def __init__(self) -> None:
        self.places: dict[FieldPath, Place] = {}
        self.map_keys: dict[FieldPath, tuple[Any, ...]] = {}

    def read(self, blocks: list[Block], descriptor: Descriptor, path: FieldPath) -> Any:
        """Return the object that blocks say together: one, or several that should have been one."""
        if _is_parameter(descriptor):
            texts = [entry.value for block in blocks for entry in block.all("string_value")]
            return texts[-1] if texts else ""
        values: dict[str, Any] = {}
        for known in descriptor.fields:
            entries = [entry for block in blocks for entry in block.all(known.name)]
            here = (*path, known.name)
            for block in blocks:
                if known.name in block.unread:
                    self.places.setdefault(here, block.unread[known.name])
            if entries:
                self.places[here] = entries[0].field_place
                values[attribute(known.name)] = self._value(known, entries, here)
        return CLASSES[descriptor.full_name](**values)

    def _value(self, known: FieldDescriptor, entries: list[Entry], path: FieldPath) -> Any:
        if _is_map(known):
            return self._map(known, entries, path)
        if known.is_repeated:
            return tuple(
                self._element(known, entry, (*path, number)) for number, entry in enumerate(entries)
            )
        if known.message_type is not None:
            blocks = [entry.value for entry in entries if isinstance(entry.value, Block)]
            return self.read(blocks, known.message_type, path)
        return entries[-1].value

    def _element(self, known: FieldDescriptor, entry: Entry, path: FieldPath) -> Any:
        self.places[path] = entry.place
        if isinstance(entry.value, Block) and known.message_type is not None:
            return self.read([entry.value], known.message_type, path)
        return entry.value

    def _map(self, known: FieldDescriptor, entries: list[Entry], path: FieldPath) -> dict[Any, Any]:
        """Return a map; an entry with several keys and values (a fault) counts as several."""
        assert known.message_type is not None
        key_field, value_field = known.message_type.fields
        wanted = value_field.message_type
        found: dict[Any, Any] = {}
        written: list[Any] = []
        for entry in entries:
            assert isinstance(entry.value, Block)
            values = [value.value for value in entry.value.all("value")]
            no_key = replace(entry, value=key_field.default_value)
            for number, key in enumerate(entry.value.all("key") or [no_key]):
                here = (*path, str(key.value))
                self.places[here] = key.place
                written.append(key.value)
                given = values[number : number + 1]
                if wanted is None:
                    found[key.value] = given[0] if given else value_field.default_value
                else:
                    blocks = [block for block in given if isinstance(block, Block)]
                    found[key.value] = self.read(blocks, wanted, here)
        self.map_keys[path] = tuple(written)
        return found


def to_text(value: Any, descriptor: Descriptor) -> str:
    """Return an object as protobuf's text format."""
    lines: list[str] = []
    _write(lines, value, descriptor, "")
    return "\n".join(lines) + "\n"


def _write(lines: list[str], value: Any, descriptor: Descriptor, indent: str) -> None:
    for known in descriptor.fields:
        part = getattr(value, attribute(known.name))
        if part is None or (known.is_repeated and not part):
            continue
        if known.message_type is None:
            lines.append(f"{indent}{_inline_field(known, part)}")
            continue
        elements = _elements(known, part)
        one_line = [_inline_block(element, kind) for element, kind in elements]
        if not known.is_repeated:
            _write_block(lines, known.name, elements[0], one_line[0], indent)
        elif _is_map(known):
            for element, text in zip(elements, one_line, strict=True):
                _write_block(lines, known.name, element, text, indent)
        else:
            _write_list(lines, known.name, elements, one_line, indent)


def _write_block(
    lines: list[str], name: str, element: tuple[Any, Descriptor], one_line: str, indent: str
) -> None:
    if len(indent) + len(name) + 1 + len(one_line) <= _WIDTH:
        lines.append(f"{indent}{name} {one_line}")
        return
    lines.append(f"{indent}{name} {{")
    _write(lines, *element, indent + "  ")
    lines.append(f"{indent}}}")


def _write_list(
    lines: list[str],
    name: str,
    elements: list[tuple[Any, Descriptor]],
    one_line: list[str],
    indent: str,
) -> None:
    lines.append(f"{indent}{name} [")
    inner = indent + "  "
    for number, (element, text) in enumerate(zip(elements, one_line, strict=True)):
        comma = "," if number < len(elements) - 1 else ""
        if len(inner) + len(text) + len(comma) <= _WIDTH:
            lines.append(f"{inner}{text}{comma}")
            continue
        lines.append(f"{inner}{{")
        _write(lines, *element, inner + "  ")
        lines.append(f"{inner}}}{comma}")
    lines.append(f"{indent}]")


@dataclass(frozen=True)
class _MapEntry:
    key: Any
    value: Any


def _elements(known: FieldDescriptor, part: Any) -> list[tuple[Any, Descriptor]]:
    kind = known.message_type
    assert kind is not None
    if _is_map(known):
        return [(_MapEntry(k, v), kind) for k, v in part.items()]
    return [(element, kind) for element in (part if known.is_repeated else [part])]


def _inline_block(value: Any, descriptor: Descriptor) -> str:
    parts = []
    if _is_parameter(descriptor):
        return f"{{ string_value: {_string(value)} }}"
    for known in descriptor.fields:
        part = getattr(value, attribute(known.name))
        if part is None or (known.is_repeated and not part):
            continue
        if known.message_type is None:
            parts.append(_inline_field(known, part))
            continue
        blocks = [_inline_block(*element) for element in _elements(known, part)]
        if known.is_repeated and not _is_map(known):
            parts.append(f"{known.name} [ {', '.join(blocks)} ]")
        else:
            parts += [f"{known.name} {block}" for block in blocks]
    return f"{{ {' '.join(parts)} }}" if parts else "{ }"


def _inline_field(known: FieldDescriptor, part: Any) -> str:
    if known.is_repeated:
        return f"{known.name}: [ {', '.join(_scalar(known, v) for v in part)} ]"
    return f"{known.name}: {_scalar(known, part)}"


def _scalar(known: FieldDescriptor, value: Any) -> str:
    if known.enum_type is not None:
        return str(value)
    if isinstance(value, bool):
        return "true" if value else "false"
    return _string(value) if isinstance(value, str) else repr(value)


def _string(value: str) -> str:
    return f'"{CEscape(value.encode(), True)}"'
