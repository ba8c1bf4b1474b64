"""Protobuf's text format, read so that every fault of a file is found, each with place and remedy.

`google.protobuf.text_format` stops at the first fault. This reader takes note of it, reads on as
the writer most likely meant it, and returns the tree of what it understood, with the place of every
field. What it finds no fault in, text_format reads as well, and to the same message; a test holds
the two to each other.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

from google.protobuf.descriptor import Descriptor, EnumDescriptor, FieldDescriptor

Scalar = int | float | bool | str | bytes
_INTEGERS = {
    FieldDescriptor.TYPE_INT32: (-(2**31), 2**31 - 1),
    FieldDescriptor.TYPE_INT64: (-(2**63), 2**63 - 1),
    FieldDescriptor.TYPE_UINT32: (0, 2**32 - 1),
    FieldDescriptor.TYPE_UINT64: (0, 2**64 - 1),
}
_FLOATS = (FieldDescriptor.TYPE_FLOAT, FieldDescriptor.TYPE_DOUBLE)
_BOOLS = {"true": True, "True": True, "t": True, "1": True}
_BOOLS |= {"false": False, "False": False, "f": False, "0": False}
_CLOSERS = {"{": "}", "<": ">", "[": "]"}
_MAX_DEPTH = 100  # as protobuf's own reader
_TOKEN = re.compile(
    r"""(?P<skip>[ \t\r\n\f\v]+|\#[^\n]*)
    |(?P<string>"(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])*')
    |(?P<unterminated>["'][^\n]*)
    |(?P<number>-?\s*(?:0[xX][0-9a-fA-F]+|(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?[fF]?(?![\w.])))
    |(?P<name>-?[A-Za-z_][A-Za-z0-9_]*)
    |(?P<slashes>//[^\n]*)
    |(?P<mark>.)""",
    re.VERBOSE | re.DOTALL,
)
_ESCAPE = re.compile(
    rb"""\\(?:([0-7]{1,3})|[xX]([0-9a-fA-F]{1,2})|u([0-9a-fA-F]{4})|U([0-9a-fA-F]{8})|(.))""",
    re.DOTALL,
)
_SINGLE_ESCAPES = dict(zip(b"abfnrtv\\'\"?", b"\a\b\f\n\r\t\v\\'\"?", strict=True))


class Place(NamedTuple):
    """Where something stands in a file; both count from 1."""

    line: int
    column: int


class Kind:
    """What kind of fault a `Fault` is; the checker gives each its rule code."""

    SYNTAX = "syntax"
    UNKNOWN_FIELD = "unknown-field"
    VALUE = "value"
    REPEATED = "repeated"
    MAP_ENTRY = "map-entry"


@dataclass(frozen=True)
class Fault:
    """Something that is not right in a text: what, where, and what to write instead."""

    kind: str
    place: Place
    message: str
    remedy: str = ""


@dataclass
class Entry:
    """One field as written: its descriptor (None: no such field), its value, and its place."""

    name: str
    field: FieldDescriptor | None
    value: Scalar | Block | None
    place: Place


@dataclass
class Block:
    """A message as written: its fields in order."""

    descriptor: Descriptor | None
    place: Place
    entries: list[Entry] = field(default_factory=list)

    def all(self, name: str) -> list[Entry]:
        """Return every entry of a field."""
        return [entry for entry in self.entries if entry.name == name]


class _Token(NamedTuple):
    kind: str
    text: str
    place: Place


def parse(text: str, descriptor: Descriptor) -> tuple[Block, list[Fault]]:
    """Return what a text says of a message, and every fault in it, in the order of the text."""
    reader = _Reader(text)
    block = Block(descriptor, Place(1, 1))
    reader.fields(block, closer=None, depth=0)
    return block, sorted(reader.faults, key=lambda fault: fault.place)


def _tokens(text: str) -> Iterator[_Token]:
    line, line_start = 1, 0
    for match in _TOKEN.finditer(text):
        kind, value = str(match.lastgroup), match.group()
        if kind != "skip":
            yield _Token(kind, value, Place(line, match.start() - line_start + 1))
        newlines = value.count("\n")
        if newlines:
            line += newlines
            line_start = match.start() + value.rindex("\n") + 1
    yield _Token("end", "", Place(line, len(text) - line_start + 1))


class _Reader:
    def __init__(self, text: str) -> None:
        self._tokens = list(_tokens(text))
        self._position = 0
        self.faults: list[Fault] = []

    @property
    def _now(self) -> _Token:
        return self._tokens[self._position]

    def _next(self) -> _Token:
        token = self._now
        if token.kind != "end":
            self._position += 1
        return token

    def _peek(self, ahead: int = 1) -> _Token:
        return self._tokens[min(self._position + ahead, len(self._tokens) - 1)]

    def _take(self, *marks: str) -> _Token | None:
        if self._now.kind == "mark" and self._now.text in marks:
            return self._next()
        return None

    def _fault(self, place: Place, message: str, remedy: str = "", kind: str = Kind.SYNTAX) -> None:
        self.faults.append(Fault(kind, place, message, remedy))

    def fields(self, block: Block, closer: str | None, depth: int) -> None:
        """Read fields into a block up to its closing mark (taken) or the end of the text."""
        opened = block.place
        while True:
            token = self._now
            if token.kind == "end":
                if closer is not None:
                    name = f" of {_title(block)}" if block.descriptor else ""
                    self._fault(
                        opened,
                        f"the block{name} that begins here is not closed",
                        f"add a {closer!r} where it ends",
                    )
                return
            if token.kind == "mark" and token.text == closer:
                self._next()
                return
            if token.kind == "mark" and token.text == "]" and closer not in (None, "]"):
                # The list ends before its element did: leave the mark to the list.
                self._fault(
                    token.place, f"expected {closer!r} before ']'", f"add a {closer!r} before it"
                )
                return
            if token.kind == "mark" and token.text in "}]>":
                self._next()
                self._fault(token.place, f"{token.text!r} closes nothing", "remove it")
                continue
            self._field(block, depth)

    def _field(self, block: Block, depth: int) -> None:
        token = self._now
        if token.kind == "string" and self._peek().text in (":", "{", "="):
            self._next()
            name = token.text[1:-1]
            self._fault(
                token.place, f"a field's name stands without quotes, got {token.text}", name
            )
        elif token.kind == "name" and not token.text.startswith("-"):
            self._next()
            name = token.text
        else:
            self._odd_token()
            return
        known = block.descriptor.fields_by_name.get(name) if block.descriptor else None
        if known is None and block.descriptor is not None:
            self._unknown(name, token.place, block)
        self._value_of(block, name, known, token.place, depth)
        self._separator(block)

    def _unknown(self, name: str, place: Place, block: Block) -> None:
        assert block.descriptor is not None
        names = [f.name for f in block.descriptor.fields]
        near = difflib.get_close_matches(name, names, 1)
        remedy = f"did you mean {near[0]!r}?" if near else f"known: {', '.join(names)}"
        self._fault(place, f"{_title(block)} has no field {name!r}", remedy, Kind.UNKNOWN_FIELD)

    def _odd_token(self) -> None:
        token = self._next()
        if token.kind == "slashes":
            self._fault(token.place, "'//' begins no comment here", "write '#'")
        elif token.kind == "unterminated":
            self._fault(token.place, "this string has no closing quote", "close it on its line")
        elif token.kind == "mark" and token.text in "{<[":
            self._fault(
                token.place,
                f"expected the name of a field, got {token.text!r}",
                "put the name of the field before it",
            )
            self._skip_block(token.text)
        else:
            self._fault(token.place, f"expected the name of a field, got {token.text!r}")
            while self._now.place.line == token.place.line and not self._at_field():
                if self._now.kind == "end" or self._now.text in ("}", "]", ">"):
                    break
                self._next()

    def _at_field(self) -> bool:
        return self._now.kind == "name" and self._peek().text in (":", "{", "[", "<")

    def _skip_block(self, opener: str) -> None:
        """Pass over everything up to the mark that closes `opener`."""
        waiting = [_CLOSERS[opener]]
        while waiting and self._now.kind != "end":
            token = self._next()
            if token.kind != "mark":
                continue
            if token.text in _CLOSERS:
                waiting.append(_CLOSERS[token.text])
            elif token.text == waiting[-1]:
                waiting.pop()

    def _separator(self, block: Block) -> None:
        """Take the optional mark after a field."""
        if self._take(",", ";"):
            while extra := self._take(",", ";"):
                self._fault(extra.place, f"{extra.text!r} separates nothing", "remove it")

    def _value_of(
        self, block: Block, name: str, known: FieldDescriptor | None, place: Place, depth: int
    ) -> None:
        colon = self._take(":")
        if colon is None and (equals := self._take("=")):
            colon = equals
            self._fault(equals.place, f"{name}: expected ':', got '='", f"{name}: …")
        token = self._now
        is_block = known.message_type is not None if known else token.text in ("{", "<")
        if token.kind == "mark" and token.text == "[":
            if colon is None and not is_block and not (known is None and self._peek().text in "{<"):
                self._fault(token.place, f"{name}: expected ':' before the list", f"{name}: [ … ]")
            self._list(block, name, known, place, depth)
        elif token.kind == "mark" and token.text in ("{", "<"):
            if known is not None and not is_block:
                self._fault(
                    token.place,
                    f"{name}: expected {_expected(known)}, got a block",
                    f"{name}: …",
                    Kind.VALUE,
                )
                self._next()
                self._skip_block(token.text)
                return
            self._add(block, name, known, self._message(known, depth), place)
        else:
            if is_block and known is not None:
                self._not_a_block(name, known, place)
                return
            if colon is None and token.kind in ("string", "number", "name"):
                if token.kind == "name" and self._at_field():
                    self._fault(place, f"{name}: the value is missing", f"{name}: …")
                    return
                self._fault(token.place, f"expected ':' after {name}", f"{name}: {token.text}")
            self._add(block, name, known, self._scalar(name, known), place)

    def _not_a_block(self, name: str, known: FieldDescriptor, place: Place) -> None:
        token = self._now
        remedy = f"{name} {{ … }}"
        if token.kind in ("string", "number", "name") and not self._at_field():
            self._next()
            got = token.text
        else:
            got = "nothing" if token.kind == "end" else repr(token.text)
        self._fault(place, f"{name}: expected a block {{ … }}, got {got}", remedy, Kind.VALUE)

    def _message(self, known: FieldDescriptor | None, depth: int) -> Block:
        opener = self._next()
        block = Block(known.message_type if known else None, opener.place)
        if depth >= _MAX_DEPTH:
            self._fault(opener.place, f"blocks within blocks: at most {_MAX_DEPTH}")
            self._skip_block(opener.text)
            return block
        self.fields(block, _CLOSERS[opener.text], depth + 1)
        return block

    def _list(
        self, block: Block, name: str, known: FieldDescriptor | None, place: Place, depth: int
    ) -> None:
        opener = self._next()
        if known is not None and not _is_repeated(known):
            self._fault(
                opener.place,
                f"{name}: expected one value, got a list",
                f"{name} {{ … }}" if known.message_type else f"{name}: …",
                Kind.VALUE,
            )
        after_comma: _Token | None = None
        while True:
            token = self._now
            if token.kind == "mark" and token.text == "]":
                self._next()
                if after_comma is not None:
                    self._fault(after_comma.place, f"{name}: a comma before ']'", "remove it")
                return
            next_field = self._at_field() and known is not None and known.message_type is None
            if token.kind == "end" or token.text in ("}", ">") or next_field:
                self._fault(opener.place, f"{name}: the list that begins here is not closed", "]")
                return
            self._element(block, name, known, depth)
            after_comma = self._between(name)

    def _element(self, block: Block, name: str, known: FieldDescriptor | None, depth: int) -> None:
        token = self._now
        if token.kind == "mark" and token.text in ("{", "<"):
            self._add(block, name, known, self._message(known, depth), token.place)
        elif self._at_field():
            self._bare_element(block, name, known, depth)
        elif known is not None and known.message_type is not None:
            self._not_a_block(name, known, token.place)
            if self._now is token:
                self._next()
        else:
            self._add(block, name, known, self._scalar(name, known), token.place)

    def _between(self, name: str) -> _Token | None:
        comma = self._take(",")
        if comma is None and self._now.text not in ("]", "}", ">") and self._now.kind != "end":
            if semicolon := self._take(";"):
                self._fault(semicolon.place, f"{name}: expected ',', got ';'", "write ','")
                return semicolon
            if self._now.kind in ("string", "number", "name") or self._now.text in ("{", "<"):
                self._fault(
                    self._now.place, f"{name}: expected ',' before the next element", "add a comma"
                )
        return comma

    def _bare_element(
        self, block: Block, name: str, known: FieldDescriptor | None, depth: int
    ) -> None:
        """Read an element written without its braces: `input [ name: …  dims: … ]`."""
        start = self._now.place
        self._fault(
            start,
            f"{name}: expected '{{' before the fields of an element, got {self._now.text!r}",
            f"{name} [ {{ … }} ]: each element stands in braces of its own",
        )
        element = Block(known.message_type if known else None, start)
        while self._at_field() or self._now.kind == "name":
            written = element.descriptor and element.descriptor.fields_by_name.get(self._now.text)
            if written and not _is_repeated(written) and element.all(self._now.text):
                self._add(block, name, known, element, start)  # the next element begins
                start = self._now.place
                element = Block(element.descriptor, start)
            self._field(element, depth + 1)
        self._add(block, name, known, element, start)

    def _add(
        self,
        block: Block,
        name: str,
        known: FieldDescriptor | None,
        value: Scalar | Block | None,
        place: Place,
    ) -> None:
        before = block.all(name)
        if before and known is not None and not _is_repeated(known):
            if _is_map_entry(block.descriptor):
                self._fault(
                    place,
                    f"{name!r} is set twice in one entry of a map",
                    "one block an entry, each with one key and one value",
                    Kind.MAP_ENTRY,
                )
            else:
                self._fault(
                    place,
                    f"{name} is set twice, first in line {before[0].place.line}",
                    "merge the two blocks into one" if known.message_type else "remove one",
                    Kind.REPEATED,
                )
        elif known is not None and known.containing_oneof is not None:
            self._second_of_oneof(block, known, place)
        block.entries.append(Entry(name, known, value, place))

    def _second_of_oneof(self, block: Block, known: FieldDescriptor, place: Place) -> None:
        assert known.containing_oneof is not None
        others = {f.name for f in known.containing_oneof.fields} - {known.name}
        rival = next((entry for entry in block.entries if entry.name in others), None)
        if rival is not None:
            self._fault(
                place,
                f"{known.name} and {rival.name} (line {rival.place.line}) exclude each other",
                "keep one of them",
                Kind.REPEATED,
            )

    def _scalar(self, name: str, known: FieldDescriptor | None) -> Scalar | None:
        token = self._now
        if token.kind == "string":
            return self._string(name, known)
        if token.kind == "unterminated":
            self._next()
            self._fault(token.place, f"{name}: the string has no closing quote", "close it")
            return token.text[1:] if known is None or _is_text(known) else None
        if token.kind not in ("number", "name"):
            got = "the end of the file" if token.kind == "end" else repr(token.text)
            self._fault(token.place, f"{name}: expected {_expected(known)}, got {got}")
            if token.kind in ("slashes",) or (
                token.kind == "mark" and token.text not in "{}[]<>,;"
            ):
                self._next()
            return None
        self._next()
        if known is None:
            return token.text
        value = _converted(token, known)
        if value is None:
            remedy = ""
            if _is_text(known):
                remedy = f'{name}: "{token.text}"'
            elif known.enum_type is not None:
                remedy = _near_value(token.text, known.enum_type)
            self._fault(
                token.place,
                f"{name}: expected {_expected(known)}, got {token.text}",
                remedy,
                Kind.VALUE,
            )
        return value

    def _string(self, name: str, known: FieldDescriptor | None) -> Scalar | None:
        first = self._now
        raw = b""
        while self._now.kind == "string":  # neighbours are one string
            raw += _unescaped(self._next().text[1:-1])
        if known is not None and known.type == FieldDescriptor.TYPE_BYTES:
            return raw
        text = raw.decode("utf-8", "replace")
        if known is None or known.type == FieldDescriptor.TYPE_STRING:
            return text
        unquoted = _converted(_Token("name", text, first.place), known)
        remedy = f"without quotes: {text}" if unquoted is not None else ""
        if unquoted is None and known.enum_type is not None:
            remedy = _near_value(text, known.enum_type)
        self._fault(
            first.place,
            f"{name}: expected {_expected(known)}, got the string {first.text}",
            remedy,
            Kind.VALUE,
        )
        return unquoted


def _converted(token: _Token, known: FieldDescriptor) -> Scalar | None:
    """Return a token as a value of a field's type; None if it is none."""
    text = token.text.replace(" ", "")
    if known.enum_type is not None:
        if text in known.enum_type.values_by_name:
            return text
        number = _integer(text)
        by_number = known.enum_type.values_by_number
        return by_number[number].name if number is not None and number in by_number else None
    if known.type == FieldDescriptor.TYPE_BOOL:
        return _BOOLS.get(text)
    if known.type in _INTEGERS:
        low, high = _INTEGERS[known.type]
        number = _integer(text)
        return number if number is not None and low <= number <= high else None
    if known.type in _FLOATS:
        try:
            return float(text.rstrip("fF") if text[:1] in "-.0123456789" else text)
        except ValueError:
            return None
    return None


def _integer(text: str) -> int | None:
    digits = text.removeprefix("-")
    if not re.fullmatch(r"0[xX][0-9a-fA-F]+|0[0-7]*|[1-9][0-9]*", digits):
        return None
    base = 16 if digits[:2] in ("0x", "0X") else 8 if digits.startswith("0") else 10
    number = int(digits, base)
    return -number if text.startswith("-") else number


def _unescaped(text: str) -> bytes:
    def one(match: re.Match[bytes]) -> bytes:
        octal, hexadecimal, short, long, single = match.groups()
        if octal is not None:
            return bytes([int(octal, 8) & 0xFF])
        if hexadecimal is not None:
            return bytes([int(hexadecimal, 16)])
        if short is not None or long is not None:
            return chr(int(short or long, 16)).encode("utf-8", "replace")
        return bytes([_SINGLE_ESCAPES.get(single[0], single[0])]) if single else b""

    return _ESCAPE.sub(one, text.encode("utf-8"))


def _is_repeated(known: FieldDescriptor) -> bool:
    return bool(known.is_repeated)


def _is_text(known: FieldDescriptor) -> bool:
    return known.type in (FieldDescriptor.TYPE_STRING, FieldDescriptor.TYPE_BYTES)


def _is_map_entry(descriptor: Descriptor | None) -> bool:
    return descriptor is not None and bool(descriptor.GetOptions().map_entry)


def _title(block: Block) -> str:
    """Return how a reader knows a message: by its name, without `Model`'s nesting."""
    return block.descriptor.name if block.descriptor is not None else "the block"


def _near_value(text: str, enum: EnumDescriptor) -> str:
    names = list(enum.values_by_name)
    upper = text.upper()
    tails = [name for name in names if name.endswith(f"_{upper}")]
    near = tails or difflib.get_close_matches(upper, names, 1, 0.4)
    return f"did you mean {near[0]}?" if near else f"one of {', '.join(names)}"


def _expected(known: FieldDescriptor | None) -> str:
    if known is None:
        return "a value"
    if known.enum_type is not None:
        return f"a value of {known.enum_type.name}"
    if known.type == FieldDescriptor.TYPE_BOOL:
        return "true or false"
    if known.type in _INTEGERS:
        low, _ = _INTEGERS[known.type]
        return "a whole number" if low < 0 else "a whole number from 0"
    if known.type in _FLOATS:
        return "a number"
    if known.message_type is not None:
        return "a block { … }"
    return "a string in quotes"
