"""Protobuf's text format, read so that every fault of a file is found, each with place and remedy.

Protobuf's own readers stop at the first fault. This one takes note of it, reads on as the writer
most likely meant it, and returns the tree of what it understood, with the place of every field. It
keeps the rules of the reader in tritonserver, which is C++ and stricter than Python's: what has no
fault here is read there as well, and to the same message. A test holds the two to each other.

Reading on is where the rules of thumb are: an unclosed block ends where an outer one is closed, or
where a line that is indented no deeper than the block's own begins with a field of an outer one.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import NamedTuple

from google.protobuf.descriptor import Descriptor, FieldDescriptor

from cropseek.triton.pbtxt_values import (
    Scalar,
    converted,
    expected,
    guessed,
    meant_field,
    shown,
    unescaped,
)

_CLOSERS = {"{": "}", "<": ">", "[": "]"}
_BLOCK_MARKS = frozenset("{<")
_CLOSING_MARKS = frozenset("}>]")
_ENDS_OF_VALUES = _CLOSING_MARKS | frozenset(",;")
_MARKS_AFTER_NAMES = frozenset(":={<[")
_STRINGS = ("string", "curly", "unterminated")
_MAX_SUGGESTIONS = 1000  # they take time, and nobody reads that many
_MAX_DEPTH = 50  # no message of Triton's nests deeper than 10; Python's own stack ends at 1000

_TOKEN = re.compile(
    r"""(?P<skip>[ \t\r\n\f\v]+|\#[^\n\0]*)
    |(?P<slashes>//[^\n\0]*)
    |(?P<string>"(?:\\[^\n\0]|[^"\\\n\0])*"|'(?:\\[^\n\0]|[^'\\\n\0])*')
    |(?P<curly>[\u201c\u201d\u201e][^"\u201c\u201d\n\0]*["\u201c\u201d])
    |(?P<unterminated>["'][^\n\0]*)
    |(?P<number>\.?[0-9](?:[eE][+-]|[\w.])*)
    |(?P<name>[A-Za-z_]\w*)
    |(?P<mark>.)""",
    re.VERBOSE | re.DOTALL | re.ASCII,
)
# What an unterminated string has most likely swallowed: the line's next field or closing marks.
_SWALLOWED = re.compile(r"(?<![,;\s])[,;\s]+\w+[ \t]*:|(?<![]}>,;\s])[]}>,;\s]+\Z", re.ASCII)


class Place(NamedTuple):
    """Where something stands in a file; both count from 1."""

    line: int
    column: int


class Kind(Enum):
    """What kind of fault a `Fault` is; the checker gives each its rule code."""

    SYNTAX = "syntax"
    UNKNOWN_FIELD = "unknown-field"
    VALUE = "value"
    REPEATED = "repeated"
    MAP_ENTRY = "map-entry"


@dataclass(frozen=True)
class Fault:
    """Something that is not right in a text: what, where, and what to write instead."""

    kind: Kind
    place: Place
    message: str
    remedy: str = ""


@dataclass(frozen=True)
class Entry:
    """One value of a field as written, and its place: its own in a list, else its field's name."""

    value: Scalar | Block
    place: Place
    field_place: Place


@dataclass
class Block:
    """A message as written: what each of its fields was given, in order.

    `unread` has the fields that are there, but with no value that could be read; `guessed` those of
    which only a misspelt name is there.
    """

    descriptor: Descriptor | None
    fields: dict[str, list[Entry]] = field(default_factory=dict)
    unread: dict[str, Place] = field(default_factory=dict)
    guessed: set[str] = field(default_factory=set)

    def all(self, name: str) -> list[Entry]:
        """Return every entry of a field."""
        return self.fields.get(name, [])


def parse(text: str, descriptor: Descriptor) -> tuple[Block, list[Fault]]:
    """Return what a text says of a message, and every fault in it, in the order of the text."""
    reader = _Reader(text)
    block = Block(descriptor)
    reader.read(block)
    return block, sorted(reader.faults, key=lambda fault: fault.place)


class _Token(NamedTuple):
    kind: str
    text: str
    place: Place
    start: int
    indent: int  # the column of the first token in its line


class _Field(NamedTuple):
    """A field that a value is read for: `known` is None where there is no such field."""

    name: str
    known: FieldDescriptor | None
    place: Place

    @property
    def message(self) -> Descriptor | None:
        return self.known.message_type if self.known is not None else None

    @property
    def is_scalar(self) -> bool:
        return self.known is not None and self.known.message_type is None

    @property
    def is_single(self) -> bool:
        return self.known is not None and not self.known.is_repeated


class _Open(NamedTuple):
    """A block or list that is being read; of a list, the descriptor is its elements'."""

    closer: str
    title: str
    opener: _Token
    descriptor: Descriptor | None
    may_be_bare: bool = False  # a list whose elements were perhaps written without braces

    def has(self, name: str) -> bool:
        return self.descriptor is not None and name in self.descriptor.fields_by_name


def _tokens(text: str, faults: list[Fault]) -> Iterator[_Token]:
    """Yield a text's tokens; what can be passed over is, and noted."""
    line, line_start, indent, position = 1, 0, 0, 0
    while match := _TOKEN.match(text, position):
        kind, value = str(match.lastgroup), match.group()
        if kind == "unterminated" and (swallowed := _SWALLOWED.search(value, 1)):
            value = value[: swallowed.start()]
        place = Place(line, position - line_start + 1)
        start, position = position, position + len(value)
        if kind == "skip":
            if newlines := value.count("\n"):
                line, line_start, indent = line + newlines, start + value.rindex("\n") + 1, 0
        elif kind == "slashes":
            faults.append(Fault(Kind.SYNTAX, place, "'//' begins no comment here", "write '#'"))
        elif kind == "mark" and (value.isspace() or not value.isprintable()):
            message = f"the character U+{ord(value):04X} may stand in strings and comments only"
            faults.append(Fault(Kind.SYNTAX, place, message, "remove it"))
        else:
            indent = indent or place.column
            yield _Token(kind, value, place, start, indent)
    yield _Token("end", "", Place(line, position - line_start + 1), position, 0)


class _Reader:
    def __init__(self, text: str) -> None:
        self.faults: list[Fault] = []
        self._text = text
        self._tokens = list(_tokens(text, self.faults))
        self._position = 0
        self._open: list[_Open] = []  # the outermost first

    def read(self, block: Block) -> None:
        """Read the whole text into a block."""
        self._inside(block, _Open("", "", self._now, block.descriptor))

    # Tokens

    @property
    def _now(self) -> _Token:
        return self._tokens[self._position]

    @property
    def _before(self) -> str:
        return self._tokens[self._position - 1].text if self._position else ""

    @property
    def _after(self) -> str:
        return self._tokens[min(self._position + 1, len(self._tokens) - 1)].text

    def _next(self) -> _Token:
        token = self._now
        if token.kind != "end":
            self._position += 1
        return token

    def _take(self, *marks: str) -> _Token | None:
        return self._next() if self._now.text in marks else None

    def _skip_block(self) -> None:
        """Pass over a block or list, up to its closing mark or what shows that this is missing."""
        opener = self._next()
        waiting = [_CLOSERS[opener.text]]
        while waiting and self._now.kind != "end":
            token = self._now
            if token.text in _CLOSERS:
                waiting.append(_CLOSERS[token.text])
            elif token.text == waiting[-1]:
                waiting.pop()
            elif token.text in _CLOSING_MARKS or self._at_field_left_of(opener):
                return
            self._next()

    def _rest_of_value(self, first: _Token) -> str:
        """Take the tokens up to where a value or line ends, one at least; return their text."""
        last = self._next() if self._now is first else self._tokens[self._position - 1]
        while self._now.place.line == last.place.line and not self._at_end_of_value():
            last = self._next()
        return self._text[first.start : last.start + len(last.text)]

    def _at_field(self) -> bool:
        """Return whether a field begins here: no value is followed by such a mark."""
        if self._now.kind == "string":
            return self._after == ":"
        return self._now.kind == "name" and self._after in _MARKS_AFTER_NAMES

    def _at_end_of_value(self) -> bool:
        return self._now.kind == "end" or self._now.text in _ENDS_OF_VALUES or self._at_field()

    def _at_field_left_of(self, opener: _Token) -> bool:
        """Return whether a line begins with a field, indented no deeper than an opener's line."""
        place, indent = self._now.place, self._now.indent
        return place.column == indent <= opener.indent and self._at_field()

    def _fault(
        self, place: Place, message: str, remedy: str = "", kind: Kind = Kind.SYNTAX
    ) -> None:
        self.faults.append(Fault(kind, place, message, remedy))

    # Blocks and their fields

    def _inside(self, block: Block, opened: _Open) -> None:
        """Read fields until the block ends."""
        self._open.append(opened)
        while not self._take_end():
            self._field(block)
        self._open.pop()

    def _take_end(self) -> bool:
        """Take the end of the innermost block or list, if here or forgotten; return whether so."""
        here, token = self._open[-1], self._now
        if here.closer and self._take(here.closer):
            return True
        if token.kind != "end" and not self._is_outside():
            return False
        if here.closer:
            where = f"before line {token.place.line}"
            if token.kind == "end" or token.place.line == here.opener.place.line:
                where = "where it ends"
            self._fault(
                here.opener.place,
                f"the {here.title} that begins here is not closed",
                f"add a {here.closer!r} {where}",
            )
        return True

    def _is_outside(self) -> bool:
        """Return whether what comes belongs to a block or list around the innermost one."""
        here, around, token = self._open[-1], self._open[:-1], self._now
        if token.text in _CLOSING_MARKS:
            return any(outer.closer == token.text for outer in around)
        if here.closer == "]":
            if self._at_field() and not (here.may_be_bare and self._before in ("[", ",")):
                return True
        elif token.text in _BLOCK_MARKS and around and around[-1].closer == "]":
            # The list's next element: after a comma, or where a line begins with it as here's did.
            begins_line = token.place.column == token.indent == here.opener.place.column
            return self._before == "," or begins_line
        return self._is_of_outer()

    def _is_of_outer(self) -> bool:
        here, around, token = self._open[-1], self._open[:-1], self._now
        return (
            self._at_field_left_of(here.opener)
            and not here.has(token.text)
            and any(outer.has(token.text) for outer in around)
        )

    def _field(self, block: Block) -> None:
        token = self._now
        if token.kind == "string" and self._after == ":" and _is_map_of_strings(block.descriptor):
            self._pair(block)
            return
        if token.kind == "string" and self._after in _MARKS_AFTER_NAMES:
            name = token.text[1:-1]
            message = f"a field's name stands without quotes, got {shown(token.text)}"
            self._fault(token.place, message, f"{shown(name)}: …")
        elif token.kind == "name":
            name = token.text
        else:
            self._no_field(block)
            return
        self._next()
        known = self._known(block.descriptor, name, token.place)
        wanted = _Field(known.name if known is not None else name, known, token.place)
        entries = self._values(wanted)
        if known is not None and not entries:
            block.unread.setdefault(known.name, token.place)
        if self._give_way(block, wanted, is_guess=wanted.name != name):
            for entry in entries:
                self._add(block, wanted, entry)
        self._take(",", ";")

    def _give_way(self, block: Block, wanted: _Field, *, is_guess: bool) -> bool:
        """Let a misspelt field give way to the field itself; return whether this one counts."""
        if not wanted.is_single:
            return True
        if not is_guess and wanted.name in block.guessed:
            block.guessed.discard(wanted.name)
            block.fields.pop(wanted.name, None)
        elif is_guess and wanted.name not in block.fields:
            block.guessed.add(wanted.name)
        elif is_guess:
            return False
        return True

    def _pair(self, block: Block) -> None:
        """Read a map's entry that is written as in JSON: its key before a colon, then its value."""
        token = self._next()
        assert block.descriptor is not None
        key = token.text[1:-1]
        message = f"an entry of a map is a key and a value, got {shown(token.text)}: …"
        self._fault(token.place, message, f'key: "{shown(key)}" value: …', Kind.MAP_ENTRY)
        wanted = _Field("value", block.descriptor.fields_by_name["value"], token.place)
        block.fields.setdefault("key", []).append(Entry(key, token.place, token.place))
        block.fields.setdefault("value", []).extend(self._values(wanted))
        self._take(",", ";")

    def _no_field(self, block: Block) -> None:
        """Pass over what stands where a field should begin."""
        token = self._now
        if token.text in _ENDS_OF_VALUES:
            self._stray()
        elif token.text in _BLOCK_MARKS:
            message = f"expected the name of a field before {token.text!r}"
            self._fault(token.place, message, "name the field, or remove the braces")
            self._enter(block)
        elif token.text == "[":
            self._skip_block()
            message = "expected the name of a field, got '['"
            self._fault(token.place, message, "there are no extensions here, and no nameless lists")
            if self._now.text in (":", "{", "<"):
                self._values(_Field("[", None, token.place))
        else:
            got = shown(self._rest_of_value(token))
            self._fault(token.place, f"expected the name of a field, got {got}", "remove it")

    def _stray(self) -> None:
        token = self._next()
        verb = "closes" if token.text in _CLOSING_MARKS else "separates"
        self._fault(token.place, f"{token.text!r} {verb} nothing", "remove it")

    def _known(
        self, descriptor: Descriptor | None, name: str, place: Place
    ) -> FieldDescriptor | None:
        """Return the field of a name; of one that is misspelt but slightly, the field meant."""
        if descriptor is None:
            return None
        if name in descriptor.fields_by_name:
            return descriptor.fields_by_name[name]
        meant, remedy = None, ""
        if len(self.faults) < _MAX_SUGGESTIONS:
            outer = [block.descriptor for block in self._open[:-1] if block.has(name)]
            meant, remedy = meant_field(descriptor, name)
            if outer and outer[-1] is not None:
                meant, remedy = None, f"it is a field of {outer[-1].name}, outside this block"
        message = f"{descriptor.name} has no field {shown(repr(name))}"
        self._fault(place, message, remedy, Kind.UNKNOWN_FIELD)
        return descriptor.fields_by_name[meant] if meant else None

    def _add(self, block: Block, wanted: _Field, entry: Entry) -> None:
        known = wanted.known
        if known is None:
            return
        before = block.all(known.name)
        if before and wanted.is_single:
            self._twice(block, wanted, before[0])
        elif not before and known.containing_oneof is not None:
            self._one_of(block, known, wanted.place)
        block.fields.setdefault(known.name, []).append(entry)

    def _twice(self, block: Block, wanted: _Field, first: Entry) -> None:
        if block.descriptor is None or not block.descriptor.GetOptions().map_entry:
            message = f"{wanted.name} is set twice, first in line {first.place.line}"
            remedy = "merge the two blocks into one" if wanted.message else "remove one"
            self._fault(wanted.place, message, remedy, Kind.REPEATED)
        elif max(map(len, block.fields.values())) == 1:  # of all that follow, only the first
            message = f"{wanted.name!r} is set twice in one entry of a map"
            remedy = "write a block an entry, each with one key and one value"
            self._fault(wanted.place, message, remedy, Kind.MAP_ENTRY)

    def _one_of(self, block: Block, known: FieldDescriptor, place: Place) -> None:
        assert known.containing_oneof is not None
        for rival in known.containing_oneof.fields:
            if rival.name != known.name and block.all(rival.name):
                line = block.all(rival.name)[0].place.line
                message = f"{known.name} and {rival.name} (line {line}) exclude each other"
                self._fault(place, message, "keep one of them", Kind.REPEATED)

    # Values

    def _values(self, wanted: _Field) -> list[Entry]:
        """Read what follows a field's name: one value, none if it is unusable, or a list's."""
        colon = self._take(":")
        if equals := self._take("="):
            self._fault(equals.place, f"{wanted.name}: expected ':', got '='", f"{wanted.name}: …")
        token = self._now
        if self._at_end_of_value():
            if wanted.known is not None:
                self._fault(wanted.place, f"{wanted.name}: the value is missing", _form(wanted))
            return []
        if wanted.is_scalar and not (colon or equals) and token.text not in _BLOCK_MARKS:
            self._fault(token.place, f"{wanted.name}: expected ':' before the value", _form(wanted))
        return self._given(wanted)

    def _given(self, wanted: _Field) -> list[Entry]:
        if self._now.text == "[":
            is_of_blocks = self._after in _BLOCK_MARKS
            if is_of_blocks or not (wanted.message is not None and wanted.is_single):
                return self._list(wanted)
        value: Scalar | Block | None
        if self._now.text in _BLOCK_MARKS:
            value = self._block(wanted)
        elif wanted.message is not None:
            value = self._in_its_only_field(wanted, wanted.message)
        else:
            value = self._scalar(wanted)
        return [] if value is None else [Entry(value, wanted.place, wanted.place)]

    def _block(self, wanted: _Field) -> Block | None:
        token = self._now
        if wanted.known is not None and wanted.message is None:
            message = f"{wanted.name}: expected {expected(wanted.known)}, got a block"
            self._fault(token.place, message, _form(wanted), Kind.VALUE)
            self._skip_block()
            return None
        block = Block(wanted.message)
        self._enter(block)
        return block

    def _enter(self, block: Block) -> None:
        """Read a block from its opening mark to its closing one."""
        opener = self._now
        if self._skip_if_too_deep():
            return
        self._next()
        descriptor = block.descriptor
        title = f"block of {descriptor.name}" if descriptor is not None else "block"
        self._inside(block, _Open(_CLOSERS[opener.text], title, opener, descriptor))

    def _skip_if_too_deep(self) -> bool:
        """Pass over a block or list that is one too many within others, and return whether so."""
        if len(self._open) <= _MAX_DEPTH:
            return False
        self._fault(self._now.place, f"blocks within blocks: at most {_MAX_DEPTH}")
        self._skip_block()
        return True

    def _in_its_only_field(self, wanted: _Field, message: Descriptor) -> Block | None:
        """Read `reshape: [ 1 ]` as `reshape { shape: [ 1 ] }`, where a block has one field only."""
        token = self._now
        only = message.fields[0] if len(message.fields) == 1 else None
        self._fault(
            token.place,
            f"{wanted.name}: expected a block {{ … }}, "
            f"got {'a list' if token.text == '[' else shown(token.text)}",
            f"{wanted.name} {{ {f'{only.name}: ' if only else ''}… }}",
            Kind.VALUE,
        )
        if only is not None:
            block = Block(message)
            inner = _Field(only.name, only, token.place)
            for entry in self._given(inner):
                self._add(block, inner, entry)
            return block
        if token.text == "[":
            self._skip_block()
        else:
            self._rest_of_value(token)
        return None

    # Lists

    def _list(self, wanted: _Field) -> list[Entry]:
        opener = self._now
        if wanted.is_single:
            message = f"{wanted.name}: expected one value, got a list"
            self._fault(opener.place, message, _form(wanted), Kind.VALUE)
        if self._skip_if_too_deep():
            return []
        self._next()
        title = f"list of {wanted.name}"
        self._open.append(_Open("]", title, opener, wanted.message, not wanted.is_scalar))
        entries: list[Entry] = []
        while not self._take_end():
            entries += self._element(wanted)
            self._between(wanted)
        self._open.pop()
        return entries[:1] if wanted.is_single else entries

    def _element(self, wanted: _Field) -> list[Entry]:
        token = self._now
        if token.text in _ENDS_OF_VALUES:
            self._stray()
            return []
        if token.text == "[":
            self._fault(token.place, f"{wanted.name}: a list within a list", "one list only")
            return self._list(wanted)
        if self._at_field():
            return self._bare_elements(wanted)
        return [replace(entry, place=token.place) for entry in self._given(wanted)]

    def _bare_elements(self, wanted: _Field) -> list[Entry]:
        """Read elements written without their braces: `input [ name: …  dims: … ]`."""
        start = self._now
        message = f"{wanted.name}: expected '{{' before the fields of an element"
        remedy = f"{wanted.name} [ {{ … }} ], each element in braces of its own"
        self._fault(start.place, f"{message}, got {shown(start.text)}", remedy)
        entries: list[Entry] = []
        element = Block(wanted.message)
        while self._at_field() and not self._is_of_outer():
            token = self._now
            known = element.descriptor and element.descriptor.fields_by_name.get(token.text)
            begins = known and not known.is_repeated and element.all(token.text)
            if begins or not entries:
                element = Block(wanted.message)
                entries.append(Entry(element, token.place, wanted.place))
            self._field(element)
        return entries

    def _between(self, wanted: _Field) -> None:
        """Take the comma after an element."""
        if comma := self._take(",", ";"):
            if comma.text == ";":
                self._fault(comma.place, f"{wanted.name}: expected ',', got ';'", "write ','")
            if self._now.text == "]":
                self._fault(comma.place, f"{wanted.name}: a comma before ']'", "remove it")
        elif not (self._before == "," or self._at_end_of_value()):
            message = f"{wanted.name}: expected ',' before the next element"
            self._fault(self._now.place, message, "add a comma")

    # Scalars

    def _scalar(self, wanted: _Field) -> Scalar | None:
        if self._now.kind in _STRINGS:
            return self._string(wanted)
        first = self._now
        minus = self._take("-")
        if self._now.kind in ("number", "name"):
            text = ("-" if minus else "") + self._next().text
            value = text if wanted.known is None else converted(text, wanted.known)
            if value is not None:
                return value
        text = self._rest_of_value(first)
        if wanted.known is None:
            return text
        return self._wrong(wanted, first.place, text, shown(text))

    def _string(self, wanted: _Field) -> Scalar | None:
        first, raw = self._now, b""
        while self._now.kind in _STRINGS and not (raw and self._at_field()):
            raw += self._string_part(wanted)  # neighbours are one string
        try:
            text = raw.decode("utf-8")
        except UnicodeDecodeError:
            message = f"{wanted.name}: the string is not UTF-8"
            self._fault(first.place, message, "Triton cannot pass it on", Kind.VALUE)
            return None
        if wanted.known is None or wanted.known.type == FieldDescriptor.TYPE_STRING:
            return text
        return self._wrong(wanted, first.place, text, f"the string {shown(first.text)}")

    def _wrong(self, wanted: _Field, place: Place, text: str, got: str) -> Scalar | None:
        """Note that a value is none of its field's, and return the one that was meant, if any."""
        assert wanted.known is not None
        value, remedy = guessed(text, wanted.known)
        self._fault(
            place,
            f"{wanted.name}: expected {expected(wanted.known)}, got {got}",
            f"{wanted.name}: {remedy}" if value is not None else remedy,
            Kind.VALUE,
        )
        return value

    def _string_part(self, wanted: _Field) -> bytes:
        token = self._next()
        closed = token.text[1:] if token.kind == "unterminated" else token.text[1:-1]
        if token.kind == "unterminated":
            message = f"{wanted.name}: the string that begins here has no closing quote"
            self._fault(token.place, message, f"add a {token.text[0]} where it ends, in this line")
        elif token.kind == "curly":
            message = f"{wanted.name}: curly quotes enclose no string"
            self._fault(token.place, message, f'"{shown(closed)}"')
        raw, wrong = unescaped(closed)
        if wrong:
            message = f"{wanted.name}: {wrong} is no escape sequence"
            self._fault(token.place, message, r"a backslash itself is written \\")
        return raw


def _is_map_of_strings(descriptor: Descriptor | None) -> bool:
    return (
        descriptor is not None
        and bool(descriptor.GetOptions().map_entry)
        and descriptor.fields_by_name["key"].type == FieldDescriptor.TYPE_STRING
    )


def _form(wanted: _Field) -> str:
    """Return how a field is written."""
    if wanted.message is not None:
        return f"{wanted.name} {{ … }}" if wanted.is_single else f"{wanted.name} [ {{ … }} ]"
    return f"{wanted.name}: …" if wanted.is_single else f"{wanted.name}: [ … ]"
