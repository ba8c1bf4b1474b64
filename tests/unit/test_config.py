"""Typed configurations against Triton's own protobuf: every field there and back, text included."""

from __future__ import annotations

from dataclasses import fields
from typing import Any, Literal, get_args, get_origin, get_type_hints

import pytest
from google.protobuf import text_format
from google.protobuf.descriptor import Descriptor, FieldDescriptor
from google.protobuf.message_factory import GetMessageClass
from hypothesis import given, settings
from hypothesis import strategies as st
from tritonclient.grpc import model_config_pb2 as pb

from cropseek.triton import config as module
from cropseek.triton.codec import (
    CLASSES,
    BlockReader,
    FieldPath,
    attribute,
    fill,
    from_message,
    to_text,
)
from cropseek.triton.config import (
    Accelerator,
    All,
    Control,
    ControlInput,
    DynamicBatching,
    Input,
    Latest,
    ModelConfig,
    OptimizationPolicy,
    Output,
    QueuePolicy,
    SequenceBatching,
    Specific,
    StrategyDirect,
    StrategyOldest,
    TransactionPolicy,
    VersionPolicy,
    Warmup,
    WarmupInput,
    read_pbtxt,
)
from cropseek.triton.pbtxt import Kind, Place, parse
from tests.unit.config_builders import (
    CONFIG,
    PARAMETER,
    complete,
    enums,
    messages,
    objects,
    set_fields,
    values,
)

VARIANTS = 6  # so that any two oneofs, of two and of three fields, meet in every combination


def parsed(text: str) -> pb.ModelConfig:
    """Read a text as protobuf itself does."""
    return text_format.Parse(text, pb.ModelConfig())


def messages_with_classes() -> dict[str, Descriptor]:
    """Return the messages that are classes: entries of maps and parameters are plain values."""
    return {
        name: message
        for name, message in messages().items()
        if not message.GetOptions().map_entry and name != PARAMETER
    }


def check_there_and_back(config: ModelConfig) -> None:
    """Assert that neither text nor message loses anything."""
    text = config.to_pbtxt()
    assert ModelConfig.from_pbtxt(text) == config
    assert parsed(text) == config.to_proto()
    assert ModelConfig.from_proto(config.to_proto()).to_proto() == config.to_proto()


@given(objects(CONFIG))
@settings(max_examples=250, deadline=None, derandomize=True)
def test_a_config_comes_back_from_its_text(config: ModelConfig) -> None:
    """Whatever is set; and protobuf reads the same from the text."""
    check_there_and_back(config)


FIELDS = [known for message in messages_with_classes().values() for known in message.fields]


@pytest.mark.parametrize("known", FIELDS, ids=[known.full_name for known in FIELDS])
@given(st.data())
@settings(max_examples=10, deadline=None, derandomize=True)
def test_every_field_comes_back_from_its_text(known: FieldDescriptor, data: st.DataObject) -> None:
    """Each in a message of its own, so none depends on chance to be tried."""
    descriptor = known.containing_type
    assert descriptor is not None
    value = CLASSES[descriptor.full_name](**{attribute(known.name): data.draw(values(known))})
    text = to_text(value, descriptor)
    block, faults = parse(text, descriptor)
    assert faults == []
    assert BlockReader().read([block], descriptor, ()) == value
    message = GetMessageClass(descriptor)()
    fill(message, value)
    assert text_format.Parse(text, GetMessageClass(descriptor)()) == message
    assert from_message(message).keys() <= {attribute(known.name)}


@pytest.mark.parametrize("zeros", [False, True], ids=["values", "zeros"])
@pytest.mark.parametrize("variant", range(VARIANTS))
def test_a_config_with_everything_set_comes_back(variant: int, zeros: bool) -> None:
    """Explicit zeros, empty strings and false are written too, though protobuf drops them."""
    check_there_and_back(complete(CONFIG, variant, zeros))


@pytest.mark.parametrize("zeros", [False, True], ids=["values", "zeros"])
def test_everything_set_is_every_field_of_every_message(zeros: bool) -> None:
    """So a field that Triton adds is tested without a line here."""
    configs = [complete(CONFIG, variant, zeros) for variant in range(VARIANTS)]
    every = {known.full_name for message in messages().values() for known in message.fields}
    assert {name for config in configs for name in set_fields(config, CONFIG)} == every
    text = "".join(config.to_pbtxt() for config in configs)
    written = {token.rstrip(":") for token in text.split()}
    assert {name.rpartition(".")[2] for name in every} <= written


def test_an_empty_config_is_an_empty_text() -> None:
    """Nothing set, nothing written."""
    check_there_and_back(ModelConfig())
    assert ModelConfig().to_pbtxt().strip() == ""


def test_zeros_are_told_from_nothing() -> None:
    """As the files say them: protobuf knows no difference, a reader of the file does."""
    said = ModelConfig.from_pbtxt('max_batch_size: 0 name: "" model_transaction_policy { }')
    assert said == ModelConfig(
        name="", max_batch_size=0, model_transaction_policy=TransactionPolicy()
    )
    assert said.to_proto() == ModelConfig(model_transaction_policy=TransactionPolicy()).to_proto()
    assert "max_batch_size: 0" in said.to_pbtxt()


def test_numbers_that_are_none_are_written_as_protobuf_reads_them() -> None:
    """Infinity and NaN, in a field of single precision."""
    for value in ("inf", "-inf", "nan"):
        batching = SequenceBatching(direct=StrategyDirect(minimum_slot_utilization=float(value)))
        text = ModelConfig(sequence_batching=batching).to_pbtxt()
        read = ModelConfig.from_pbtxt(text).sequence_batching
        assert read is not None
        assert read.direct is not None
        assert str(read.direct.minimum_slot_utilization) == value
        assert str(parsed(text).sequence_batching.direct.minimum_slot_utilization) == value


@pytest.mark.parametrize(
    "config",
    [
        pytest.param(ModelConfig(max_batch_size=2**31), id="too large"),
        pytest.param(ModelConfig(max_batch_size=True), id="bool for a number"),
        pytest.param(ModelConfig(max_batch_size=8.0), id="float for a whole number"),  # type: ignore[arg-type]
        pytest.param(ModelConfig(max_batch_size="8"), id="string for a number"),  # type: ignore[arg-type]
        pytest.param(ModelConfig(name=b"x"), id="bytes"),  # type: ignore[arg-type]
        pytest.param(ModelConfig(name=5), id="number for a string"),  # type: ignore[arg-type]
        pytest.param(ModelConfig(name="\ud800"), id="half a character"),
        pytest.param(ModelConfig(metric_tags={1: "a"}), id="number as a map's key"),  # type: ignore[dict-item]
        pytest.param(ModelConfig(metric_tags={"a": 1}), id="number as a map's value"),  # type: ignore[dict-item]
        pytest.param(ModelConfig(parameters={"a": 1}), id="number as a parameter"),  # type: ignore[dict-item]
        pytest.param(ModelConfig(input=Input()), id="one for several"),  # type: ignore[arg-type]
        pytest.param(ModelConfig(input=(Output(),)), id="another message"),  # type: ignore[arg-type]
        pytest.param(ModelConfig(optimization=Accelerator()), id="another single message"),  # type: ignore[arg-type]
        pytest.param(ModelConfig(input=(Input(dims=(1.5,)),)), id="float dimension"),  # type: ignore[arg-type]
        pytest.param(ModelConfig(input=(Input(data_type="FP32"),)), id="no such type"),  # type: ignore[arg-type]
        pytest.param(ModelConfig(input=(Input(data_type=11),)), id="number of a type"),  # type: ignore[arg-type]
        pytest.param(
            ModelConfig(model_transaction_policy=TransactionPolicy(1)),  # type: ignore[arg-type]
            id="number for a bool",
        ),
        pytest.param(
            ModelConfig(
                dynamic_batching=DynamicBatching(priority_queue_policy={-1: QueuePolicy()})
            ),
            id="negative key of an unsigned map",
        ),
        pytest.param(ModelConfig(version_policy=VersionPolicy(Latest(1), All())), id="two of one"),
        pytest.param(
            ModelConfig(version_policy=VersionPolicy(all=All(), specific=Specific((1,)))),
            id="two of one, empty first",
        ),
        pytest.param(
            ModelConfig(model_warmup=(Warmup(inputs={"a": WarmupInput(None, (), False, True)}),)),
            id="two scalars of one",
        ),
        pytest.param(
            ModelConfig(sequence_batching=SequenceBatching(StrategyDirect(), StrategyOldest())),
            id="two strategies",
        ),
    ],
)
def test_what_protobuf_has_no_place_for_is_refused(config: ModelConfig) -> None:
    """By text and message alike, so that no text is written that cannot be read."""
    with pytest.raises((ValueError, TypeError)):
        config.to_proto()
    with pytest.raises((ValueError, TypeError)):
        config.to_pbtxt()


def test_a_refusal_says_what_is_wrong() -> None:
    """Field, expected, got; and which two exclude each other."""
    with pytest.raises(ValueError, match=r"data_type: expected one of TYPE_INVALID.*got 'FP32'"):
        ModelConfig(input=(Input(data_type="FP32"),)).to_pbtxt()  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="latest and all exclude each other"):
        ModelConfig(version_policy=VersionPolicy(Latest(1), All())).to_pbtxt()


def test_every_message_has_a_class_with_exactly_its_fields() -> None:
    """In Triton's order; `global` alone has another name."""
    assert set(CLASSES) == set(messages_with_classes())
    for name, message in messages_with_classes().items():
        assert [f.name.removesuffix("_") for f in fields(CLASSES[name])] == [
            known.name for known in message.fields
        ], name


def literals(hint: Any) -> list[Any]:
    """Return the Literals within a type hint."""
    if get_origin(hint) is Literal:
        return [hint]
    return [found for part in get_args(hint) for found in literals(part)]


def test_every_literal_has_exactly_its_enums_values() -> None:
    """In Triton's order, at each field of an enum."""
    seen = set()
    for name, message in messages_with_classes().items():
        hints = get_type_hints(CLASSES[name], vars(module))
        for known in message.fields:
            found = literals(hints[attribute(known.name)])
            if known.enum_type is None:
                assert found == [], known.full_name
                continue
            seen.add(known.enum_type.full_name)
            assert [get_args(one) for one in found] == [tuple(known.enum_type.values_by_name)]
    assert seen == set(enums())


def test_fields_that_hold_several_are_empty_by_default_and_others_none() -> None:
    """Nothing is set in a new object of any class."""
    for name, message in messages_with_classes().items():
        assert list(set_fields(CLASSES[name](), message)) == []
        assert len(fields(CLASSES[name])) == len(message.fields)


def test_a_text_with_faults_raises_them_all() -> None:
    """With line and remedy."""
    with pytest.raises(ValueError, match="no field") as raised:
        ModelConfig.from_pbtxt("max_batchsize: 8\nname: x\n")
    assert str(raised.value) == (
        "line 1: ModelConfig has no field 'max_batchsize' (did you mean 'max_batch_size'?); "
        'line 2: name: expected a string in quotes, got x (name: "x")'
    )


TEXT = """\
name: "m"
input [
  { name: "a" dims: [ 1, 2 ] },
  { name: "b" }
]
parameters { key: "k" value: { string_value: "1" } }
parameters { key: "k" value: { string_value: "2" } }
dynamic_batching { priority_queue_policy { key: 3 value: { max_queue_size: 4 } } }
"""


@pytest.mark.parametrize(
    ("path", "place"),
    [
        (("name",), Place(1, 1)),
        (("input",), Place(2, 1)),
        (("input", 0), Place(3, 3)),
        (("input", 0, "dims"), Place(3, 15)),
        (("input", 0, "dims", 1), Place(3, 26)),
        (("input", 1, "name"), Place(4, 5)),
        # not written: the nearest thing around it
        (("input", 1, "dims"), Place(4, 3)),
        (("input", 7), Place(2, 1)),
        (("output",), Place(1, 1)),
        # a map's key stands for a number
        (("parameters", "k"), Place(7, 14)),
        (("dynamic_batching", "priority_queue_policy", "3", "max_queue_size"), Place(8, 60)),
    ],
)
def test_a_field_is_found_where_it_is_written(path: FieldPath, place: Place) -> None:
    """Line and column, counted from 1."""
    read, faults = read_pbtxt(TEXT)
    assert faults == []
    assert read.place(path) == place


def test_keys_of_a_map_are_told_as_written() -> None:
    """Double ones twice; the last one's value is the value, as in protobuf."""
    read, _ = read_pbtxt(TEXT)
    assert read.map_keys[("parameters",)] == ("k", "k")
    assert read.config.parameters == {"k": "2"}
    assert parsed(TEXT) == read.config.to_proto()


@pytest.mark.parametrize(
    ("text", "config"),
    [
        ('parameters { key: "a" }', ModelConfig(parameters={"a": ""})),
        ("parameters { }", ModelConfig(parameters={"": ""})),
        ('metric_tags { value: "b" }', ModelConfig(metric_tags={"": "b"})),
        (
            "dynamic_batching { priority_queue_policy { } }",
            ModelConfig(dynamic_batching=DynamicBatching(priority_queue_policy={0: QueuePolicy()})),
        ),
    ],
)
def test_an_entry_without_key_or_value_has_the_empty_one(text: str, config: ModelConfig) -> None:
    """Of the key's own type, as in protobuf."""
    assert ModelConfig.from_pbtxt(text) == config
    assert parsed(text) == config.to_proto()


def test_what_is_not_understood_of_a_config_leaves_the_rest() -> None:
    """A reader gets a config that protobuf takes, whatever the faults."""
    read, faults = read_pbtxt(
        'max_batch_size: many input [ { dims: [ x, 2 ] }, 3, { name: "b" } ]\n'
        "dynamic_batching { priority_queue_policy { key: x value { max_queue_size: 1 } } }\n"
        "sequence_batching { direct { } oldest { } }\n"
        'optimization { graph: 1 } parameters { key: "a" key: "b" value: "1" value: "2" }'
    )
    assert [(fault.place.line, fault.kind) for fault in faults] == [
        *[(1, Kind.VALUE)] * 3,
        (2, Kind.VALUE),
        *[(3, Kind.REPEATED)] * 2,
        (4, Kind.VALUE),
        (4, Kind.MAP_ENTRY),
        *[(4, Kind.VALUE)] * 2,
    ]
    assert read.config.input == (Input(dims=(2,)), Input(name="b"))
    assert read.config.parameters == {"a": "1", "b": "2"}
    assert read.config.optimization == OptimizationPolicy(graph=module.Graph(level=1))


def test_control_values_keep_their_types() -> None:
    """Single precision is not rounded in text: what was written is read."""
    control = Control(fp32_false_true=(0.1, 1.0), bool_false_true=(False, True))
    batching = SequenceBatching(control_input=(ControlInput(control=(control,)),))
    text = ModelConfig(sequence_batching=batching).to_pbtxt()
    assert "fp32_false_true: [ 0.1, 1.0 ] bool_false_true: [ false, true ]" in text
    assert ModelConfig.from_pbtxt(text).sequence_batching == batching
