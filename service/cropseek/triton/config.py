"""Typed Triton model configurations: dataclasses, Triton's `ModelConfig` protobuf, and pbtxt.

One class a message of Triton's model_config.proto, the fields named and ordered as there (the
prefix `Model` of most messages is left out; a test holds the two to each other). None means that a
field is not written: protobuf itself cannot tell an explicit `max_batch_size: 0` from none, so text
is written from the dataclasses and read into them, and zeros are kept.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from tritonclient.grpc import model_config_pb2 as pb

from cropseek.triton import codec, pbtxt
from cropseek.triton.codec import FieldPath, message_class
from cropseek.triton.pbtxt import Fault, Place

DataType = Literal[
    "TYPE_INVALID",
    "TYPE_BOOL",
    "TYPE_UINT8",
    "TYPE_UINT16",
    "TYPE_UINT32",
    "TYPE_UINT64",
    "TYPE_INT8",
    "TYPE_INT16",
    "TYPE_INT32",
    "TYPE_INT64",
    "TYPE_FP16",
    "TYPE_FP32",
    "TYPE_FP64",
    "TYPE_STRING",
    "TYPE_BF16",
]
InstanceKind = Literal["KIND_AUTO", "KIND_GPU", "KIND_CPU", "KIND_MODEL"]
Format = Literal["FORMAT_NONE", "FORMAT_NHWC", "FORMAT_NCHW"]
BatchInputKind = Literal[
    "BATCH_ELEMENT_COUNT",
    "BATCH_ACCUMULATED_ELEMENT_COUNT",
    "BATCH_ACCUMULATED_ELEMENT_COUNT_WITH_ZERO",
    "BATCH_MAX_ELEMENT_COUNT_AS_SHAPE",
    "BATCH_ITEM_SHAPE",
    "BATCH_ITEM_SHAPE_FLATTEN",
]
BatchOutputKind = Literal["BATCH_SCATTER_WITH_INPUT_SHAPE"]
ModelPriority = Literal["PRIORITY_DEFAULT", "PRIORITY_MAX", "PRIORITY_MIN"]
TimeoutAction = Literal["REJECT", "DELAY"]
ControlKind = Literal[
    "CONTROL_SEQUENCE_START",
    "CONTROL_SEQUENCE_READY",
    "CONTROL_SEQUENCE_END",
    "CONTROL_SEQUENCE_CORRID",
]


@message_class(pb.ModelRateLimiter.Resource)
@dataclass(frozen=True)
class Resource:
    """Something that an execution holds: `count` of it, one supply for all devices if `global_`."""

    name: str | None = None
    global_: bool | None = None
    count: int | None = None


@message_class(pb.ModelRateLimiter)
@dataclass(frozen=True)
class RateLimiter:
    """What an execution needs before it may run, and its priority (1 is the default)."""

    resources: tuple[Resource, ...] = ()
    priority: int | None = None


@message_class(pb.ModelInstanceGroup.SecondaryDevice)
@dataclass(frozen=True)
class SecondaryDevice:
    """A device beside the instance's own (a DLA)."""

    kind: Literal["KIND_NVDLA"] | None = None
    device_id: int | None = None


@message_class(pb.ModelInstanceGroup)
@dataclass(frozen=True)
class InstanceGroup:
    """How many instances of a model run on what; `count` is of each GPU, with KIND_GPU."""

    name: str | None = None
    kind: InstanceKind | None = None
    count: int | None = None
    rate_limiter: RateLimiter | None = None
    gpus: tuple[int, ...] = ()
    secondary_devices: tuple[SecondaryDevice, ...] = ()
    profile: tuple[str, ...] = ()
    passive: bool | None = None
    host_policy: str | None = None


@message_class(pb.ModelTensorReshape)
@dataclass(frozen=True)
class Reshape:
    """The shape that the model sees, where the client's is another."""

    shape: tuple[int, ...] = ()


@message_class(pb.ModelInput)
@dataclass(frozen=True)
class Input:
    """An input tensor; `dims` without the batch dimension unless `max_batch_size` is 0."""

    name: str | None = None
    data_type: DataType | None = None
    format: Format | None = None
    dims: tuple[int, ...] = ()
    reshape: Reshape | None = None
    is_shape_tensor: bool | None = None
    allow_ragged_batch: bool | None = None
    optional: bool | None = None
    is_non_linear_format_io: bool | None = None


@message_class(pb.ModelOutput)
@dataclass(frozen=True)
class Output:
    """An output tensor; `dims` without the batch dimension unless `max_batch_size` is 0."""

    name: str | None = None
    data_type: DataType | None = None
    dims: tuple[int, ...] = ()
    reshape: Reshape | None = None
    label_filename: str | None = None
    is_shape_tensor: bool | None = None
    is_non_linear_format_io: bool | None = None


@message_class(pb.BatchInput)
@dataclass(frozen=True)
class BatchInput:
    """An input that Triton makes from how a batch was put together."""

    kind: BatchInputKind | None = None
    target_name: tuple[str, ...] = ()
    data_type: DataType | None = None
    source_input: tuple[str, ...] = ()


@message_class(pb.BatchOutput)
@dataclass(frozen=True)
class BatchOutput:
    """Outputs that Triton cuts apart by an input's shape."""

    target_name: tuple[str, ...] = ()
    kind: BatchOutputKind | None = None
    source_input: tuple[str, ...] = ()


@message_class(pb.ModelVersionPolicy.Latest)
@dataclass(frozen=True)
class Latest:
    """Serve the newest versions."""

    num_versions: int | None = None


@message_class(pb.ModelVersionPolicy.All)
@dataclass(frozen=True)
class All:
    """Serve every version."""


@message_class(pb.ModelVersionPolicy.Specific)
@dataclass(frozen=True)
class Specific:
    """Serve these versions."""

    versions: tuple[int, ...] = ()


@message_class(pb.ModelVersionPolicy)
@dataclass(frozen=True)
class VersionPolicy:
    """Which versions are served, one of three ways; the newest one if nothing is said."""

    latest: Latest | None = None
    all: All | None = None
    specific: Specific | None = None


@message_class(pb.ModelOptimizationPolicy.Graph)
@dataclass(frozen=True)
class Graph:
    """How far a framework optimises its graph: -1, 0 (default), 1, 2 and up."""

    level: int | None = None


@message_class(pb.ModelOptimizationPolicy.Cuda.GraphSpec.Shape)
@dataclass(frozen=True)
class Shape:
    """A tensor's shape."""

    dim: tuple[int, ...] = ()


@message_class(pb.ModelOptimizationPolicy.Cuda.GraphSpec.LowerBound)
@dataclass(frozen=True)
class LowerBound:
    """The least batch and shapes that a CUDA graph also serves."""

    batch_size: int | None = None
    input: Mapping[str, Shape] = field(default_factory=dict)


@message_class(pb.ModelOptimizationPolicy.Cuda.GraphSpec)
@dataclass(frozen=True)
class GraphSpec:
    """A batch and its input shapes for which a CUDA graph is captured."""

    batch_size: int | None = None
    input: Mapping[str, Shape] = field(default_factory=dict)
    graph_lower_bound: LowerBound | None = None


@message_class(pb.ModelOptimizationPolicy.Cuda)
@dataclass(frozen=True)
class Cuda:
    """CUDA graphs and streams."""

    graphs: bool | None = None
    busy_wait_events: bool | None = None
    graph_spec: tuple[GraphSpec, ...] = ()
    output_copy_stream: bool | None = None


@message_class(pb.ModelOptimizationPolicy.ExecutionAccelerators.Accelerator)
@dataclass(frozen=True)
class Accelerator:
    """An accelerator of a framework, such as `tensorrt` or `openvino`."""

    name: str | None = None
    parameters: Mapping[str, str] = field(default_factory=dict)


@message_class(pb.ModelOptimizationPolicy.ExecutionAccelerators)
@dataclass(frozen=True)
class ExecutionAccelerators:
    """Accelerators in the order they are tried."""

    gpu_execution_accelerator: tuple[Accelerator, ...] = ()
    cpu_execution_accelerator: tuple[Accelerator, ...] = ()


@message_class(pb.ModelOptimizationPolicy.PinnedMemoryBuffer)
@dataclass(frozen=True)
class PinnedMemoryBuffer:
    """Whether tensors go through page-locked memory."""

    enable: bool | None = None


@message_class(pb.ModelOptimizationPolicy)
@dataclass(frozen=True)
class OptimizationPolicy:
    """What a backend may do to run faster."""

    graph: Graph | None = None
    priority: ModelPriority | None = None
    cuda: Cuda | None = None
    execution_accelerators: ExecutionAccelerators | None = None
    input_pinned_memory: PinnedMemoryBuffer | None = None
    output_pinned_memory: PinnedMemoryBuffer | None = None
    gather_kernel_buffer_threshold: int | None = None
    eager_batching: bool | None = None


@message_class(pb.ModelQueuePolicy)
@dataclass(frozen=True)
class QueuePolicy:
    """How long a request may wait, and how many; 0 is no limit."""

    timeout_action: TimeoutAction | None = None
    default_timeout_microseconds: int | None = None
    allow_timeout_override: bool | None = None
    max_queue_size: int | None = None


@message_class(pb.ModelDynamicBatching)
@dataclass(frozen=True)
class DynamicBatching:
    """Requests that wait are run together."""

    preferred_batch_size: tuple[int, ...] = ()
    max_queue_delay_microseconds: int | None = None
    preserve_ordering: bool | None = None
    priority_levels: int | None = None
    default_priority_level: int | None = None
    default_queue_policy: QueuePolicy | None = None
    priority_queue_policy: Mapping[int, QueuePolicy] = field(default_factory=dict)


@message_class(pb.ModelSequenceBatching.Control)
@dataclass(frozen=True)
class Control:
    """What a control tensor says of a sequence, and with which values."""

    kind: ControlKind | None = None
    int32_false_true: tuple[int, ...] = ()
    fp32_false_true: tuple[float, ...] = ()
    bool_false_true: tuple[bool, ...] = ()
    data_type: DataType | None = None


@message_class(pb.ModelSequenceBatching.ControlInput)
@dataclass(frozen=True)
class ControlInput:
    """A tensor by which the batcher tells the model where in a sequence it is."""

    name: str | None = None
    control: tuple[Control, ...] = ()


@message_class(pb.ModelSequenceBatching.InitialState)
@dataclass(frozen=True)
class InitialState:
    """What a state holds when a sequence begins."""

    data_type: DataType | None = None
    dims: tuple[int, ...] = ()
    zero_data: bool | None = None
    data_file: str | None = None
    name: str | None = None


@message_class(pb.ModelSequenceBatching.State)
@dataclass(frozen=True)
class State:
    """A tensor that Triton keeps from one request of a sequence to the next."""

    input_name: str | None = None
    output_name: str | None = None
    data_type: DataType | None = None
    dims: tuple[int, ...] = ()
    initial_state: tuple[InitialState, ...] = ()
    use_same_buffer_for_input_output: bool | None = None
    use_growable_memory: bool | None = None


@message_class(pb.ModelSequenceBatching.StrategyDirect)
@dataclass(frozen=True)
class StrategyDirect:
    """Each sequence has a slot of an instance."""

    max_queue_delay_microseconds: int | None = None
    minimum_slot_utilization: float | None = None


@message_class(pb.ModelSequenceBatching.StrategyOldest)
@dataclass(frozen=True)
class StrategyOldest:
    """Requests of different sequences are batched, oldest first."""

    max_candidate_sequences: int | None = None
    preferred_batch_size: tuple[int, ...] = ()
    max_queue_delay_microseconds: int | None = None
    preserve_ordering: bool | None = None


@message_class(pb.ModelSequenceBatching)
@dataclass(frozen=True)
class SequenceBatching:
    """Requests of a sequence go to the same instance."""

    direct: StrategyDirect | None = None
    oldest: StrategyOldest | None = None
    max_sequence_idle_microseconds: int | None = None
    control_input: tuple[ControlInput, ...] = ()
    state: tuple[State, ...] = ()
    iterative_sequence: bool | None = None


@message_class(pb.ModelEnsembling.Step)
@dataclass(frozen=True)
class Step:
    """A member of an ensemble: its tensors by the ensemble's names."""

    model_name: str | None = None
    model_version: int | None = None
    input_map: Mapping[str, str] = field(default_factory=dict)
    output_map: Mapping[str, str] = field(default_factory=dict)
    model_namespace: str | None = None


@message_class(pb.ModelEnsembling)
@dataclass(frozen=True)
class EnsembleScheduling:
    """The members of an ensemble."""

    step: tuple[Step, ...] = ()
    max_inflight_requests: int | None = None


@message_class(pb.ModelWarmup.Input)
@dataclass(frozen=True)
class WarmupInput:
    """A tensor of a warm-up request, without the batch dimension."""

    data_type: DataType | None = None
    dims: tuple[int, ...] = ()
    zero_data: bool | None = None
    random_data: bool | None = None
    input_data_file: str | None = None


@message_class(pb.ModelWarmup)
@dataclass(frozen=True)
class Warmup:
    """A request that a model answers before it is ready."""

    name: str | None = None
    batch_size: int | None = None
    inputs: Mapping[str, WarmupInput] = field(default_factory=dict)
    count: int | None = None


@message_class(pb.ModelOperations)
@dataclass(frozen=True)
class Operations:
    """Libraries of custom operations."""

    op_library_filename: tuple[str, ...] = ()


@message_class(pb.ModelTransactionPolicy)
@dataclass(frozen=True)
class TransactionPolicy:
    """Whether a request may have any number of responses."""

    decoupled: bool | None = None


@message_class(pb.ModelRepositoryAgents.Agent)
@dataclass(frozen=True)
class Agent:
    """A plug-in that acts on a model as it is loaded."""

    name: str | None = None
    parameters: Mapping[str, str] = field(default_factory=dict)


@message_class(pb.ModelRepositoryAgents)
@dataclass(frozen=True)
class RepositoryAgents:
    """Agents in the order they act."""

    agents: tuple[Agent, ...] = ()


@message_class(pb.ModelResponseCache)
@dataclass(frozen=True)
class ResponseCache:
    """Whether equal inputs are answered from a cache; request parameters are not in its key."""

    enable: bool | None = None


@message_class(pb.ModelMetrics.MetricControl.MetricIdentifier)
@dataclass(frozen=True)
class MetricIdentifier:
    """The metrics that a setting is for."""

    family: str | None = None


@message_class(pb.ModelMetrics.MetricControl.HistogramOptions)
@dataclass(frozen=True)
class HistogramOptions:
    """A histogram's upper bounds."""

    buckets: tuple[float, ...] = ()


@message_class(pb.ModelMetrics.MetricControl)
@dataclass(frozen=True)
class MetricControl:
    """A setting of some metrics."""

    metric_identifier: MetricIdentifier | None = None
    histogram_options: HistogramOptions | None = None


@message_class(pb.ModelMetrics)
@dataclass(frozen=True)
class Metrics:
    """What is measured of a model, and how."""

    metric_control: tuple[MetricControl, ...] = ()


@message_class(pb.ModelConfig)
@dataclass(frozen=True)
class ModelConfig:
    """A Triton model's configuration. `parameters` are the strings that Triton wraps."""

    name: str | None = None
    platform: str | None = None
    backend: str | None = None
    runtime: str | None = None
    version_policy: VersionPolicy | None = None
    max_batch_size: int | None = None
    input: tuple[Input, ...] = ()
    output: tuple[Output, ...] = ()
    batch_input: tuple[BatchInput, ...] = ()
    batch_output: tuple[BatchOutput, ...] = ()
    optimization: OptimizationPolicy | None = None
    dynamic_batching: DynamicBatching | None = None
    sequence_batching: SequenceBatching | None = None
    ensemble_scheduling: EnsembleScheduling | None = None
    instance_group: tuple[InstanceGroup, ...] = ()
    default_model_filename: str | None = None
    cc_model_filenames: Mapping[str, str] = field(default_factory=dict)
    metric_tags: Mapping[str, str] = field(default_factory=dict)
    parameters: Mapping[str, str] = field(default_factory=dict)
    model_warmup: tuple[Warmup, ...] = ()
    model_operations: Operations | None = None
    model_transaction_policy: TransactionPolicy | None = None
    model_repository_agents: RepositoryAgents | None = None
    response_cache: ResponseCache | None = None
    model_metrics: Metrics | None = None

    def to_proto(self) -> pb.ModelConfig:
        """Return Triton's own message; raises `ValueError` or `TypeError` for what it refuses."""
        message = pb.ModelConfig()
        codec.fill(message, self)
        return message

    @classmethod
    def from_proto(cls, message: pb.ModelConfig) -> ModelConfig:
        """Return what a message says; its zeros are None, for it cannot tell them from nothing."""
        return cls(**codec.from_message(message))

    def to_pbtxt(self) -> str:
        """Return the text of config.pbtxt; raises as `to_proto` does."""
        self.to_proto()  # refuses what Triton's protobuf would
        return codec.to_text(self, pb.ModelConfig.DESCRIPTOR)

    @classmethod
    def from_pbtxt(cls, text: str) -> ModelConfig:
        """Return what a config.pbtxt says; raises `ValueError` with every fault in it."""
        read, faults = read_pbtxt(text)
        if faults:
            raise ValueError(
                "; ".join(
                    f"line {f.place.line}: {f.message}" + (f" ({f.remedy})" if f.remedy else "")
                    for f in faults
                )
            )
        return read.config


# What runs a model that names a platform and no backend.
PLATFORM_BACKENDS = {
    "ensemble": "ensemble",
    "onnxruntime_onnx": "onnxruntime",
    "pytorch_libtorch": "pytorch",
    "tensorflow_graphdef": "tensorflow",
    "tensorflow_savedmodel": "tensorflow",
    "tensorrt_plan": "tensorrt",
}


def backend_of(config: ModelConfig) -> str:
    """Return what runs a model, by its `backend` or its `platform`; "" if neither is set."""
    if config.platform == "ensemble" or config.backend == "ensemble":
        return "ensemble"
    return config.backend or PLATFORM_BACKENDS.get(config.platform or "", config.platform or "")


@dataclass(frozen=True)
class Read:
    """A config as read, with the place of every field.

    A place's path names fields and counts elements from 0: `("input", 1, "dims")`; for a map the
    key stands where an element's number would. `map_keys` lists the keys of each map as written,
    double ones twice.
    """

    config: ModelConfig
    places: Mapping[FieldPath, Place]
    map_keys: Mapping[FieldPath, tuple[Any, ...]]

    def place(self, path: FieldPath) -> Place:
        """Return where a field stands, or the nearest thing around it that is written."""
        while path and path not in self.places:
            path = path[:-1]
        return self.places.get(path, Place(1, 1))


def read_pbtxt(text: str) -> tuple[Read, list[Fault]]:
    """Return what a config.pbtxt says as far as it is understood, and every fault in it."""
    block, faults = pbtxt.parse(text, pb.ModelConfig.DESCRIPTOR)
    reader = codec.BlockReader()
    config = reader.read([block], pb.ModelConfig.DESCRIPTOR, ())
    return Read(config, reader.places, reader.map_keys), faults
