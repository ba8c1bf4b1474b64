"""The scalars of protobuf's text format: what a text is as a value, and what it was meant as."""

from __future__ import annotations

import difflib
import re
from functools import lru_cache

from google.protobuf.descriptor import Descriptor, EnumDescriptor, FieldDescriptor

Scalar = int | float | bool | str
_INTEGERS = {
    FieldDescriptor.TYPE_INT32: (-(2**31), 2**31 - 1),
    FieldDescriptor.TYPE_INT64: (-(2**63), 2**63 - 1),
    FieldDescriptor.TYPE_UINT32: (0, 2**32 - 1),
    FieldDescriptor.TYPE_UINT64: (0, 2**64 - 1),
}
_FLOATS = (FieldDescriptor.TYPE_FLOAT, FieldDescriptor.TYPE_DOUBLE)
_BOOLS = {"true": True, "True": True, "t": True, "false": False, "False": False, "f": False}
_SAID_BOOLS = {"true": True, "yes": True, "on": True, "false": False, "no": False, "off": False}
_MAX_SHOWN = 60  # characters of a text that a message quotes
_INTEGER = re.compile(r"(-?)(?:0[xX]([0-9a-fA-F]+)|(0[0-7]*)|([1-9][0-9]*))")
_FLOAT = re.compile(
    r"-?(?:(?:(?:0|[1-9][0-9]*)(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?|(?i:inf(?:inity)?|nan))"
)
_ESCAPE = re.compile(
    rb"""\\(?:(?P<octal>[0-7]{1,3})
    |[xX](?P<hexadecimal>[0-9a-fA-F]{1,2})
    |(?P<single>[abfnrtv\\'"?])
    |(?P<wide>U(?:0010|000[0-9a-fA-F])[0-9a-fA-F]{4})
    |(?P<units>u[0-9a-fA-F]{4}(?:\\u[0-9a-fA-F]{4})*)
    |(?P<wrong>.?[\x80-\xbf]*))""",
    re.VERBOSE | re.DOTALL,
)
# What other systems call Triton's data types.
_ALIASES = {
    "BFLOAT16": "BF16",
    "BYTES": "STRING",
    "DOUBLE": "FP64",
    "FLOAT": "FP32",
    "FLOAT16": "FP16",
    "FLOAT32": "FP32",
    "FLOAT64": "FP64",
    "HALF": "FP16",
    "LONG": "INT64",
}
_SINGLE_ESCAPES = dict(zip(b"abfnrtv\\'\"?", b"\a\b\f\n\r\t\v\\'\"?", strict=True))


def converted(text: str, known: FieldDescriptor) -> Scalar | None:
    """Return a text as a value of a field's type, which is not a string; None if it is none."""
    if known.enum_type is not None:
        if text in known.enum_type.values_by_name:
            return text
        number = _integer(text)
        by_number = known.enum_type.values_by_number
        return by_number[number].name if number is not None and number in by_number else None
    if known.type == FieldDescriptor.TYPE_BOOL:
        number = None if text.startswith("-") else _integer(text)
        return _BOOLS.get(text) if number not in (0, 1) else number == 1
    if known.type in _INTEGERS:
        low, high = _INTEGERS[known.type]
        number = None if text.startswith("-") and low == 0 else _integer(text)
        return number if number is not None and low <= number <= high else None
    if known.type in _FLOATS:
        digits = text.rstrip("fF") if text[-1:] in "fF" and text[-2:-1] in "0123456789." else text
        return float(digits) if _FLOAT.fullmatch(digits) else None
    return None


def _integer(text: str) -> int | None:
    match = _INTEGER.fullmatch(text)
    if match is None:
        return None
    minus, hexadecimal, octal, decimal = match.groups()
    if decimal and len(decimal) > 20:  # of no type; and Python refuses to read thousands of digits
        return None
    if hexadecimal:
        number = int(hexadecimal, 16)
    else:
        number = int(octal, 8) if octal else int(decimal)
    return -number if minus else number


def guessed(text: str, known: FieldDescriptor) -> tuple[Scalar | None, str]:
    """Return the value that a wrong text most likely means, if any, and how to write it."""
    if known.type == FieldDescriptor.TYPE_STRING:
        return text, f'"{shown(text)}"'
    if (value := converted(text, known)) is not None:  # but for its quotes it is right
        return value, shown(text)
    if known.enum_type is not None:
        return _guessed_enum(text, known.enum_type)
    if known.type == FieldDescriptor.TYPE_BOOL and text.lower() in _SAID_BOOLS:
        meant = _SAID_BOOLS[text.lower()]
        return meant, "true" if meant else "false"
    if known.type in _INTEGERS:
        whole = re.sub(r"\.0*\Z", "", text)
        if (value := converted(whole, known)) is not None:
            return value, whole
        low, high = _INTEGERS[known.type]
        return None, f"from {low} to {high}" if whole.lstrip("-").isdecimal() else ""
    return None, ""


@lru_cache(maxsize=1024)
def _guessed_enum(text: str, enum: EnumDescriptor) -> tuple[str | None, str]:
    names = list(enum.values_by_name)
    upper = text.upper()
    if (meant := f"TYPE_{_ALIASES.get(upper.removeprefix('TYPE_'))}") in names:
        return meant, meant
    same = [name for name in names if name == upper or name.endswith(f"_{upper}")]
    if len(same) == 1:
        return same[0], same[0]
    near = difflib.get_close_matches(upper, names, 1, 0.4) if len(upper) <= _MAX_SHOWN else []
    return None, f"did you mean {near[0]}?" if near else f"one of {', '.join(names)}"


@lru_cache(maxsize=1024)
def meant_field(descriptor: Descriptor, name: str) -> tuple[str | None, str]:
    """Return the field that a misspelt name surely means, if any, and what to write instead."""
    names = [known.name for known in descriptor.fields]
    inside = [
        known.name
        for known in descriptor.fields
        if known.message_type is not None and name in known.message_type.fields_by_name
    ]
    near = difflib.get_close_matches(name, names, 1) if len(name) <= _MAX_SHOWN else []
    sure = bool(near) and difflib.SequenceMatcher(None, name, near[0]).ratio() >= 0.8
    if inside and not sure:
        return None, f"it is a field of {' and of '.join(inside)}"
    if not near:
        return None, f"known: {', '.join(names)}" if names else "this block has no fields"
    return near[0] if sure else None, f"did you mean {near[0]!r}?"


def unescaped(text: str) -> tuple[bytes, str]:
    """Return the bytes that a string stands for, and the first escape in it that is none."""
    wrong: list[str] = []

    def one(match: re.Match[bytes]) -> bytes:
        kind, value = str(match.lastgroup), match.group(str(match.lastgroup))
        if kind == "octal":
            return bytes([int(value, 8) & 0xFF])
        if kind == "hexadecimal":
            return bytes([int(value, 16)])
        if kind == "single":
            return bytes([_SINGLE_ESCAPES[value[0]]])
        if kind == "wide":
            return chr(int(value[1:], 16)).encode("utf-8", "surrogatepass")
        if kind == "units":  # two may be one character
            units = bytes.fromhex(value.decode().replace("\\u", "").replace("u", ""))
            return units.decode("utf-16-be", "surrogatepass").encode("utf-8", "surrogatepass")
        wrong.append(match.group().decode("utf-8", "replace"))
        return match.group()

    raw = _ESCAPE.sub(one, text.encode("utf-8", "surrogatepass"))
    return raw, wrong[0] if wrong else ""


def shown(text: str) -> str:
    """Return a text as a message quotes it: its beginning, if it is long."""
    return text if len(text) <= _MAX_SHOWN else f"{text[:_MAX_SHOWN]}…"


def expected(known: FieldDescriptor) -> str:
    """Return what a field of a scalar type takes, in words."""
    if known.enum_type is not None:
        return f"a value of {known.enum_type.name}"
    if known.type == FieldDescriptor.TYPE_BOOL:
        return "true or false"
    if known.type in _INTEGERS:
        return "a whole number"
    return "a number" if known.type in _FLOATS else "a string in quotes"
