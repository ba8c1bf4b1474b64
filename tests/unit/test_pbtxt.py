"""The reader of pbtxt against protobuf's own in C++, as in tritonserver; what it says of faults.

The C++ reader decides what is right. Python's lets pass what it refuses: NUL and other characters
outside of strings, escapes that are none, `1_0`, `-0` for an unsigned number. It refuses what the
C++ reader takes: `- 1`, `0x1` for a bool, halves of a character that together are one.
"""

from __future__ import annotations

import re
import struct
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from google.protobuf import text_format
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tritonclient.grpc import model_config_pb2 as pb

from cropseek.triton.config import (
    DynamicBatching,
    Input,
    InstanceGroup,
    ModelConfig,
    Reshape,
    ResponseCache,
    read_pbtxt,
)
from cropseek.triton.pbtxt import Fault, Kind
from tests.unit.config_builders import CONFIG, objects

ROOT = Path(__file__).parents[2]
Oracle = Callable[[str], "pb.ModelConfig | None"]
QUICK = settings(
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)

# What Triton's reader takes and this one finds fault with, and why.
STRICTER = (
    r"is set twice",  # of a zero protobuf forgets that it was set, so it takes a second value
    r"expected a value of \w+, got [^A-Za-z\"]",  # a number of no value: Triton knows it neither
    r"is not UTF-8",  # nothing can be done with such a string: gRPC refuses to send it
    r"\\U is no escape sequence",  # beyond Unicode, taken for the letters themselves
)


@pytest.fixture(scope="module")
def triton(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Oracle]:
    """Return what Triton's reader makes of a text; None if it refuses it."""
    command = [sys.executable, "-m", "tests.unit.text_format_worker"]
    folder = tmp_path_factory.mktemp("protoc")
    with subprocess.Popen(
        [*command, folder], cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as worker:

        def ask(text: str) -> pb.ModelConfig | None:
            assert worker.stdin is not None
            assert worker.stdout is not None
            encoded = text.encode("utf-8", "surrogatepass")
            worker.stdin.write(struct.pack("<i", len(encoded)) + encoded)
            worker.stdin.flush()
            (length,) = struct.unpack("<i", worker.stdout.read(4))
            message = worker.stdout.read(max(length, 0))
            return pb.ModelConfig.FromString(message) if length >= 0 else None

        yield ask
        assert worker.stdin is not None
        worker.stdin.close()


def same_bytes(one: pb.ModelConfig, other: pb.ModelConfig) -> bool:
    """Compare messages; NaN is NaN here."""
    return bool(
        one.SerializeToString(deterministic=True) == other.SerializeToString(deterministic=True)
    )


def is_stricter(fault: Fault) -> bool:
    """Return whether a fault is one of those that Triton's reader lets pass."""
    return any(re.search(pattern, fault.message) for pattern in STRICTER)


TOKENS = re.compile(r"\s+|\"[^\"\n]*\"|\w+|.", re.DOTALL)
SNIPPETS = (
    *"{}[]<>,;:=\"'#-+.%_\\\n\r\t\v\f\0\x01é\ufeff\u00a0 ",
    *("[]", "{}", "<>", "//", "/*", "- ", "# c\n", "[a.b]", "[a.b/c.D] {", "1 1"),
    *("0", "-0", "-1", "017", "08", "0x1F", "1.0", "1.5.", ".5", "5.", "1f", "0f", "1e5", "1e"),
    *("2147483648", "18446744073709551616", "9" * 40, "inf", "-inf", "INF", "true", "t", "TRUE"),
    *("TYPE_FP32", "99", '"a"', "'b'", '"\\', "\\n", "\\x", "\\777", "\\u00e9", "\\ud83d\\ude00"),
    *("name", "key", "value", "input", "dims", "dims: [", 'name: "x"', "max_batch_size: 0"),
    *("latest { }", "all { }", 'parameters { key: "a" }'),
)


@st.composite
def texts(draw: st.DrawFn) -> str:
    """Return the text of a config as this package or as protobuf writes it."""
    config: ModelConfig = draw(objects(CONFIG))
    if draw(st.booleans()):
        return config.to_pbtxt()
    return text_format.MessageToString(
        config.to_proto(),
        as_one_line=draw(st.booleans()),
        use_short_repeated_primitives=draw(st.booleans()),
        pointy_brackets=draw(st.booleans()),
    )


@st.composite
def mutated_texts(draw: st.DrawFn) -> str:
    """Return such a text with a few tokens deleted, doubled, swapped or put in."""
    tokens = TOKENS.findall(draw(texts()))
    for _ in range(draw(st.integers(1, 3))):
        position = draw(st.integers(0, len(tokens)))
        deed = draw(st.sampled_from(("delete", "double", "swap", "insert", "insert", "replace")))
        if deed in ("delete", "replace", "swap"):
            removed = tokens[position : position + 1]
            del tokens[position : position + 1]
            if deed == "swap":
                other = draw(st.integers(0, len(tokens)))
                tokens[other:other] = removed
        if deed == "double":
            tokens[position:position] = tokens[position : position + 1]
        if deed in ("insert", "replace"):
            tokens.insert(position, draw(st.sampled_from(SNIPPETS)))
    return "".join(tokens)


def check_agreement(text: str, triton: Oracle) -> None:
    """Assert that both take a text, and for the same message, or neither does."""
    read, faults = read_pbtxt(text)
    if faults and all(map(is_stricter, faults)):
        return
    message = triton(text)
    if faults:
        assert message is None, faults
    else:
        assert message is not None, "accepted here only"
        assert same_bytes(read.config.to_proto(), message)


@given(texts())
@settings(QUICK, max_examples=150)
def test_every_text_that_protobuf_writes_is_read_alike(triton: Oracle, text: str) -> None:
    """By Triton, by Python's protobuf and here."""
    check_agreement(text, triton)
    message = text_format.Parse(text, pb.ModelConfig())
    assert same_bytes(message, ModelConfig.from_pbtxt(text).to_proto())


@given(mutated_texts())
@settings(QUICK, max_examples=600)
def test_a_text_has_faults_exactly_where_triton_refuses_it(triton: Oracle, text: str) -> None:
    """What is wrong with a text is found here, and only that."""
    check_agreement(text, triton)


def within(field: str, value: str) -> str:
    """Return a text with a field of a block."""
    return f"{field} {{ {value} }}"


NUMBERS = [
    *("0", "00", "010", "08", "0x1F", "0x", "-0", "-1", "- 1", "-\n# c\n1", "--1", "+1", "1_0"),
    *("1.0", "1.", ".5", "1e5", "1E+5", "1e", "1f", "0f", "00f", "1.f", "1.5.2", "٣", "1x"),
    *("2147483647", "2147483648", "-2147483648", "18446744073709551616", "9" * 5000),
    *("inf", "-inf", "INF", "Infinity", "-nan", "NaN", "inff", "1e999", "-1e999", ""),
    *("true", "True", "TRUE", "t", "T", "f", "01", "0x1", "2", '"1"', "TYPE_FP32", "KIND_CPU"),
]
STRINGS = [
    *('"a"', "'a'", "'a\"b'", '"a\'b"', '"a" \'b\' "c"', '"a#b"', '"a\tb\r"', '"a\nb"', '"é"'),
    *(f'"{escape}"' for escape in r"\n \\ \" \' \? \0 \18 \101 \x4 \x414 \u00e9 \400".split()),
    *(f'"{escape}"' for escape in r"\U0001F600 \ud83d\ude00 \d \x \u00e".split()),
    *('"\\\n"', '"', "'", '"a', "\"a'", '"\\"', '"a\0b"', "foo", "5", "[]", '["a"]', '"a"b'),
]
TEXTS = (
    *(f"max_batch_size: {number}" for number in NUMBERS),
    *(within("instance_group", f"kind: {number}") for number in NUMBERS if number not in "-1 2"),
    *(within("model_transaction_policy", f"decoupled: {number}") for number in NUMBERS),
    *(within("input", f"dims: [ {number}, {number} ]") for number in NUMBERS),
    *(
        within("sequence_batching", within("direct", f"{name}: {number}"))
        for number in NUMBERS
        for name in ("minimum_slot_utilization", "max_queue_delay_microseconds")
    ),
    *(f"name: {string}" for string in STRINGS),
    # separators
    *('name:"a";', 'name:"a",', 'name:"a",;', 'name:"a";;', ';name:"a"', ",", 'name:"a".'),
    *('name:"a"max_batch_size:3', 'max_batch_size:3name:"a"', 'max_batch_size:3,name:"a"'),
    # space and comments
    *(
        "",
        "# c",
        'name # c\n: # c\n"a"',
        "name\r\n:\t\v\f'a'",
        '# \0\nname: "a"',
        '\ufeffname: "a"',
    ),
    *('name:\u00a0"a"', 'name: "a"\u2028', 'name: "a" \x01', 'name: "a" // c', "é"),
    # blocks and lists
    *(
        "input{}",
        "input:{}",
        "input<>",
        "input:<>",
        "input{>",
        "input<}",
        "input{",
        "input}",
        "input",
    ),
    *(
        "input[]",
        "input:[]",
        "input:[{},<>]",
        "input:[{},]",
        "input:[,]",
        "input:[{}{}]",
        "input[{}",
    ),
    *("input{dims:[]}", "input{dims[1]}", "input{dims:[[1]]}", "input{dims:1,2}", "input{dims:{}}"),
    *("dynamic_batching[{}]", "dynamic_batching:[]", "dynamic_batching:{}", "dynamic_batching:1"),
    # names
    *(
        "[x.y]:1",
        "[a.com/b.C]{}",
        "[a",
        'NAME:"a"',
        '1:"a"',
        '-name:"a"',
        '"name":"a"',
        'n ame:"a"',
    ),
    # fields that exclude each other, and doubles
    *("version_policy{latest{} all{}}", "version_policy{latest{} latest{}}", 'name:"a" name:"a"'),
    *("version_policy{}version_policy{}", "dynamic_batching{} sequence_batching{}"),
    # maps
    *("parameters{}", 'parameters{key:"a"}', "parameters{value{}}", "parameters[{},{}]"),
    'parameters{key:"a" value{string_value:"x"} key:"b"}',
    'parameters{key:"a"} parameters{key:"a" value{string_value:"x"}}',
    *('parameters{key:"a" value:"b"}', 'metric_tags{key:"a" value:1}', "metric_tags{key:a}"),
    "dynamic_batching{priority_queue_policy{value{}}}",
    "dynamic_batching{priority_queue_policy{key:-1}}",
)


@pytest.mark.parametrize("text", TEXTS)
def test_an_odd_text_is_read_as_triton_reads_it(triton: Oracle, text: str) -> None:
    """Each corner of the format once, whatever chance brings above."""
    check_agreement(text, triton)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("max_batch_size: 0 max_batch_size: 8", "max_batch_size is set twice, first in line 1"),
        ("input { data_type: 99 }", "data_type: expected a value of DataType, got 99"),
        ("input { data_type: -1 }", "data_type: expected a value of DataType, got -1"),
        (r'name: "\377"', "name: the string is not UTF-8"),
        (r'name: "\ud83d"', "name: the string is not UTF-8"),
        ('name: "\ud83d"', "name: the string is not UTF-8"),
        (r'name: "\U00110000"', r"name: \U is no escape sequence"),
    ],
)
def test_what_triton_lets_pass_and_is_a_fault_here(text: str, message: str) -> None:
    """The differences, all of them; the reasons are beside STRICTER."""
    _, faults = read_pbtxt(text)
    assert [fault.message for fault in faults] == [message]
    assert is_stricter(faults[0])


@pytest.mark.filterwarnings("ignore:.*escape sequence")
@pytest.mark.parametrize(
    ("text", "triton_takes_it"),
    [
        ('name: "a\0b"', False),
        ('name:\u00a0"a"', False),
        (r'name: "\d"', False),
        ("input { dims: 1_0 }", False),
        ("dynamic_batching { max_queue_delay_microseconds: -0 }", False),
        ("max_batch_size: - 1", True),
        ("model_transaction_policy { decoupled: 0x1 }", True),
        (r'name: "\ud83d\ude00"', True),
    ],
)
def test_pythons_protobuf_is_no_judge(triton: Oracle, text: str, triton_takes_it: bool) -> None:
    """Where it and Triton differ, it is Triton that reads the file."""
    assert (triton(text) is not None) == triton_takes_it
    check_agreement(text, triton)
    try:
        text_format.Parse(text, pb.ModelConfig())
    except text_format.ParseError:
        assert triton_takes_it
    else:
        assert not triton_takes_it


@given(st.text(max_size=200))
@settings(QUICK, max_examples=200)
def test_any_text_is_read_to_its_end(text: str) -> None:
    """Whatever it is: no exception, no endless loop, and a config that can be written again."""
    read, faults = read_pbtxt(text)
    read.config.to_proto()
    assert faults == sorted(faults, key=lambda fault: fault.place)


@given(
    st.lists(st.sampled_from([*SNIPPETS, " ", "\n", '"b"', "preferred_batch_size", "reshape"])),
    st.sampled_from(["", " ", "\n"]),
)
@settings(QUICK, max_examples=400)
def test_any_order_of_tokens_is_read_to_its_end(tokens: list[str], between: str) -> None:
    """As above, with what means something to the reader."""
    read, _ = read_pbtxt(between.join(tokens))
    read.config.to_proto()


@pytest.mark.parametrize(
    "part",
    ["{", "[", "<", "input {", "input [", "dims: [", "[{", "a{", "a:[", "reshape:", "}", "(", '"'],
)
def test_depth_is_no_error_of_ours(part: str) -> None:
    """Ten thousand of anything within each other."""
    _, faults = read_pbtxt(part * 10_000)
    assert faults


# Faults below are (line, column, kind, what the message says, what the remedy says).
Expected = tuple[int, int, Kind, str, str]
MISTAKES: dict[str, tuple[str, list[Expected]]] = {
    "elements without braces": (
        'input [ name: "a" dims: [ 1 ], name: "b" ]',
        [(1, 9, Kind.SYNTAX, "input: expected '{'", "each element in braces of its own")],
    ),
    "two blocks of a message that there is one of": (
        "dynamic_batching { }\ndynamic_batching { preserve_ordering: true }",
        [(2, 1, Kind.REPEATED, "dynamic_batching is set twice, first in line 1", "merge")],
    ),
    "a field set twice": (
        'name: "a"\nname: "b"',
        [(2, 1, Kind.REPEATED, "name is set twice, first in line 1", "remove one")],
    ),
    "two pairs in an entry of a map": (
        'metric_tags { key: "a" value: "1"\n key: "b" value: "2" key: "c" value: "3" }',
        [(2, 2, Kind.MAP_ENTRY, "'key' is set twice in one entry", "write a block an entry")],
    ),
    "comma missing between numbers": (
        "input { dims: [ 1 2 ] }",
        [(1, 19, Kind.SYNTAX, "dims: expected ',' before the next element", "add a comma")],
    ),
    "comma missing between blocks": (
        "input [ { }\n{ } ]",
        [(2, 1, Kind.SYNTAX, "input: expected ',' before the next element", "add a comma")],
    ),
    "comma too many in a list": (
        "input { dims: [ 1,, 2 ] }",
        [(1, 19, Kind.SYNTAX, "',' separates nothing", "remove it")],
    ),
    "comma too many between fields": (
        'name: "a",, platform: "b"',
        [(1, 11, Kind.SYNTAX, "',' separates nothing", "remove it")],
    ),
    "comma after the last number": (
        "input { dims: [ 1, 2, ] }",
        [(1, 21, Kind.SYNTAX, "dims: a comma before ']'", "remove it")],
    ),
    "comma after the last block": (
        "input [ { }, ]",
        [(1, 12, Kind.SYNTAX, "input: a comma before ']'", "remove it")],
    ),
    "semicolon in a list": (
        "input { dims: [ 1; 2 ] }",
        [(1, 18, Kind.SYNTAX, "dims: expected ',', got ';'", "write ','")],
    ),
    "= for :": (
        'name = "a"',
        [(1, 6, Kind.SYNTAX, "name: expected ':', got '='", "name: …")],
    ),
    "// comment": (
        'name: "a" // { "',
        [(1, 11, Kind.SYNTAX, "'//' begins no comment here", "write '#'")],
    ),
    "quoted name of a field": (
        '"name": "a"',
        [(1, 1, Kind.SYNTAX, 'without quotes, got "name"', "name: …")],
    ),
    "JSON": (
        '{\n  "name": "a"\n  "platform": "b"\n}',
        [
            (1, 1, Kind.SYNTAX, "expected the name of a field before '{'", "remove the braces"),
            (2, 3, Kind.SYNTAX, 'without quotes, got "name"', "name: …"),
            (3, 3, Kind.SYNTAX, 'without quotes, got "platform"', "platform: …"),
        ],
    ),
    "string without quotes": (
        "default_model_filename: my-model/x.onnx",
        [(1, 25, Kind.VALUE, "got my-model/x.onnx", 'filename: "my-model/x.onnx"')],
    ),
    "string in curly quotes": (
        "name: “a”",
        [(1, 7, Kind.SYNTAX, "name: curly quotes enclose no string", '"a"')],
    ),
    "enum in quotes": (
        'input { data_type: "TYPE_FP32" }',
        [(1, 20, Kind.VALUE, 'DataType, got the string "TYPE_FP32"', "data_type: TYPE_FP32")],
    ),
    "number in quotes": (
        'max_batch_size: "8"',
        [(1, 17, Kind.VALUE, 'whole number, got the string "8"', "max_batch_size: 8")],
    ),
    "float for a whole number": (
        "max_batch_size: 8.0",
        [(1, 17, Kind.VALUE, "expected a whole number, got 8.0", "max_batch_size: 8")],
    ),
    "negative for unsigned": (
        "dynamic_batching { max_queue_delay_microseconds: -1 }",
        [(1, 50, Kind.VALUE, "expected a whole number, got -1", "from 0 to")],
    ),
    "bool in capitals": (
        "model_transaction_policy { decoupled: TRUE }",
        [(1, 39, Kind.VALUE, "expected true or false, got TRUE", "decoupled: true")],
    ),
    "misspelt field": (
        "max_batchsize: 8",
        [(1, 1, Kind.UNKNOWN_FIELD, "ModelConfig has no field 'max_batchsize'", "max_batch_size")],
    ),
    "misspelt block, with a fault in it": (
        "instance_groups [ { kind: KIND_GPUU } ]",
        [
            (1, 1, Kind.UNKNOWN_FIELD, "no field 'instance_groups'", "mean 'instance_group'?"),
            (1, 27, Kind.VALUE, "kind: expected a value of Kind", "did you mean KIND_GPU?"),
        ],
    ),
    "field of a block around": (
        "dynamic_batching { max_batch_size: 8 }",
        [(1, 20, Kind.UNKNOWN_FIELD, "no field 'max_batch_size'", "it is a field of ModelConfig")],
    ),
    "field of a block within": (
        "preferred_batch_size: [ 4 ]",
        [(1, 1, Kind.UNKNOWN_FIELD, "no field 'preferred_batch_size'", "of dynamic_batching")],
    ),
    "field of nothing": (
        "input { zzz { yyy [ { xxx: 1 }, 2 ] } }",
        [(1, 9, Kind.UNKNOWN_FIELD, "ModelInput has no field 'zzz'", "known: name, data_type,")],
    ),
    "misspelt enum": (
        "input { data_type: TYPE_FP23 }",
        [(1, 20, Kind.VALUE, "expected a value of DataType", "did you mean TYPE_FP32?")],
    ),
    "enum as others call it": (
        "input { data_type: TYPE_FLOAT }",
        [(1, 20, Kind.VALUE, "expected a value of DataType", "data_type: TYPE_FP32")],
    ),
    "enum without its prefix": (
        "input { data_type: FP32 }",
        [(1, 20, Kind.VALUE, "expected a value of DataType", "data_type: TYPE_FP32")],
    ),
    "closing brace missing, next field outside": (
        "dynamic_batching {\n  preserve_ordering: true\nmax_batch_size: 8",
        [(1, 18, Kind.SYNTAX, "block of ModelDynamicBatching", "add a '}' before line 3")],
    ),
    "closing brace missing at the end of a list": (
        'input [\n  { name: "a"\n]',
        [(2, 3, Kind.SYNTAX, "block of ModelInput that begins here", "add a '}' before line 3")],
    ),
    "closing brace missing before another element": (
        'input [\n  {\n    reshape { shape: [ 1 ]\n  },\n  {\n    name: "b"\n  }\n]',
        [(2, 3, Kind.SYNTAX, "block of ModelInput that begins here", "add a '}' before line 5")],
    ),
    "closing bracket missing at the end of a block": (
        "input [ { dims: [ 1, 2 } ]",
        [(1, 17, Kind.SYNTAX, "the list of dims that begins here is not closed", "add a ']'")],
    ),
    "closing bracket missing before a field": (
        'input { dims: [ 1, 2\n name: "a" }',
        [(1, 15, Kind.SYNTAX, "the list of dims", "add a ']' before line 2")],
    ),
    "closing bracket missing before a block": (
        "instance_group [\n  { count: 2 }\n\ndynamic_batching { }",
        [(1, 16, Kind.SYNTAX, "the list of instance_group", "add a ']' before line 4")],
    ),
    "stray closing brace": (
        "dynamic_batching { }\n}",
        [(2, 1, Kind.SYNTAX, "'}' closes nothing", "remove it")],
    ),
    "stray closing brace in a list": (
        "input [ { } } ]",
        [(1, 13, Kind.SYNTAX, "'}' closes nothing", "remove it")],
    ),
    "stray closing bracket": (
        'name: "a" ]',
        [(1, 11, Kind.SYNTAX, "']' closes nothing", "remove it")],
    ),
    "value missing": (
        'name:\nplatform: "a"',
        [(1, 1, Kind.SYNTAX, "name: the value is missing", "name: …")],
    ),
    "block missing": (
        'dynamic_batching\nname: "a"',
        [(1, 1, Kind.SYNTAX, "dynamic_batching: the value is missing", "dynamic_batching { … }")],
    ),
    "colon missing": (
        'name "a"',
        [(1, 6, Kind.SYNTAX, "name: expected ':' before the value", "name: …")],
    ),
    "colon missing before a list": (
        "input { dims [ 1 ] }",
        [(1, 14, Kind.SYNTAX, "dims: expected ':' before the value", "dims: [ … ]")],
    ),
    "string not closed": (
        'name: "a',
        [(1, 7, Kind.SYNTAX, "name: the string that begins here has no", 'add a " where it ends')],
    ),
    "string not closed within a block": (
        'input [ { name: "a, dims: [ 1 ] } ]',
        [(1, 17, Kind.SYNTAX, "name: the string that begins here has no", 'add a " where it ends')],
    ),
    "string not closed at the end of a block": (
        'input [ { dims: [ 1 ], name: "a } ]',
        [(1, 30, Kind.SYNTAX, "name: the string that begins here has no", 'add a " where it ends')],
    ),
    "backslash in a string": (
        r'name: "C:\models"',
        [(1, 7, Kind.SYNTAX, r"name: \m is no escape sequence", r"written \\")],
    ),
    "block for a scalar": (
        "max_batch_size { value: 8 }",
        [(1, 16, Kind.VALUE, "expected a whole number, got a block", "max_batch_size: …")],
    ),
    "list for one scalar": (
        "max_batch_size: [ 8, 9 ]",
        [(1, 17, Kind.VALUE, "max_batch_size: expected one value, got a list", "size: …")],
    ),
    "list for one block": (
        "dynamic_batching [ { } ]",
        [(1, 18, Kind.VALUE, "expected one value, got a list", "dynamic_batching { … }")],
    ),
    "scalar for a block": (
        "dynamic_batching: true",
        [(1, 19, Kind.VALUE, "expected a block { … }, got true", "dynamic_batching { … }")],
    ),
    "scalar for a block of one field": (
        'parameters { key: "a" value: "1" }',
        [(1, 30, Kind.VALUE, 'a block { … }, got "1"', "value { string_value: … }")],
    ),
    "two of a oneof": (
        "version_policy {\n  latest { }\n  all { }\n}",
        [(3, 3, Kind.REPEATED, "all and latest (line 2) exclude each other", "keep one")],
    ),
    "an extension": (
        "[a.com/b.C] { x: 1 }",
        [(1, 1, Kind.SYNTAX, "expected the name of a field, got '['", "no extensions here")],
    ),
    "a space that is none": (
        'name:\u00a0"a"',
        [(1, 6, Kind.SYNTAX, "U+00A0 may stand in strings and comments only", "remove it")],
    ),
    "words": (
        "- what is this",
        [(1, 1, Kind.SYNTAX, "expected the name of a field, got - what is this", "remove it")],
    ),
}


@pytest.mark.parametrize(("text", "expected"), MISTAKES.values(), ids=MISTAKES)
def test_a_mistake_is_one_fault_and_hides_none(text: str, expected: list[Expected]) -> None:
    """With place, message and remedy; a mistake in the next line is found too, and is the last."""
    _, faults = read_pbtxt(f"{text}\nruntime: 5\n")
    *faults, last = faults
    assert (last.place, last.message) == (
        (text.count("\n") + 2, 10),
        "runtime: expected a string in quotes, got 5",
    )
    assert [(*fault.place, fault.kind) for fault in faults] == [row[:3] for row in expected]
    for fault, (*_, message, remedy) in zip(faults, expected, strict=True):
        assert message in fault.message
        assert remedy in fault.remedy


@pytest.mark.parametrize("text", [text for text, _ in MISTAKES.values()], ids=MISTAKES)
def test_every_mistake_is_one_to_triton_too(triton: Oracle, text: str) -> None:
    """None of them is a matter of taste."""
    assert triton(text) is None


@pytest.mark.parametrize(
    ("mistake", "config"),
    [
        ("elements without braces", ModelConfig(input=(Input("a", dims=(1,)), Input("b")))),
        (
            "two blocks of a message that there is one of",
            ModelConfig(dynamic_batching=DynamicBatching(preserve_ordering=True)),
        ),
        (
            "two pairs in an entry of a map",
            ModelConfig(metric_tags={"a": "1", "b": "2", "c": "3"}),
        ),
        ("comma missing between blocks", ModelConfig(input=(Input(), Input()))),
        ("= for :", ModelConfig(name="a")),
        ("JSON", ModelConfig(name="a", platform="b")),
        (
            "string without quotes",
            ModelConfig(default_model_filename="my-model/x.onnx"),
        ),
        ("enum in quotes", ModelConfig(input=(Input(data_type="TYPE_FP32"),))),
        ("enum without its prefix", ModelConfig(input=(Input(data_type="TYPE_FP32"),))),
        ("float for a whole number", ModelConfig(max_batch_size=8)),
        ("misspelt field", ModelConfig(max_batch_size=8)),
        (
            "misspelt block, with a fault in it",
            ModelConfig(instance_group=(InstanceGroup(),)),
        ),
        (
            "closing brace missing, next field outside",
            ModelConfig(max_batch_size=8, dynamic_batching=DynamicBatching(preserve_ordering=True)),
        ),
        (
            "closing brace missing before another element",
            ModelConfig(input=(Input(reshape=Reshape((1,))), Input("b"))),
        ),
        ("string not closed within a block", ModelConfig(input=(Input("a", dims=(1,)),))),
        ("list for one scalar", ModelConfig(max_batch_size=8)),
        ("scalar for a block of one field", ModelConfig(parameters={"a": "1"})),
    ],
)
def test_a_mistake_is_read_as_it_was_meant(mistake: str, config: ModelConfig) -> None:
    """So that what is checked next is what the writer had in mind."""
    read, _ = read_pbtxt(MISTAKES[mistake][0])
    assert read.config == config


def test_a_block_of_one_field_may_be_meant_by_its_value() -> None:
    """A fault, but understood."""
    read, faults = read_pbtxt("input { reshape: [ 1, 2 ] } response_cache: true")
    assert [fault.remedy for fault in faults] == [
        "reshape { shape: … }",
        "response_cache { enable: … }",
    ]
    assert read.config == ModelConfig(
        input=(Input(reshape=Reshape((1, 2))),), response_cache=ResponseCache(True)
    )


def test_an_element_that_is_not_closed_ends_where_a_line_begins_the_next() -> None:
    text = """\
input [
  { name: "a" dims: [ 4 ]
  { name: "b" dims: [ 4 ] }
]
name: "m"
"""
    read, faults = read_pbtxt(text)
    assert [tensor.name for tensor in read.config.input] == ["a", "b"]
    assert read.config.name == "m"
    assert [(fault.place.line, fault.place.column) for fault in faults] == [(2, 3), (3, 3)]


def test_a_map_written_as_in_json_is_read_as_meant() -> None:
    read, faults = read_pbtxt('metric_tags { "a": "b" } parameters { "c": { string_value: "d" } }')
    assert (read.config.metric_tags, read.config.parameters) == ({"a": "b"}, {"c": "d"})
    assert [fault.kind for fault in faults] == [Kind.MAP_ENTRY] * 2
    assert faults[0].remedy == 'key: "a" value: …'
