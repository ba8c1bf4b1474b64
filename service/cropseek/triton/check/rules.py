"""Every rule of the checker. docs/repo-check.md is rendered from this table."""

from __future__ import annotations

from cropseek.triton.check.findings import Rule, Severity

_E, _W = Severity.ERROR, Severity.WARNING

_TABLE = (
    # S: the text of a configuration
    ("S001", "syntax", _E, "The file is not valid protobuf text, so the server refuses the model."),
    ("S002", "unknown-field", _E, "ModelConfig has no such field there; the server refuses it."),
    ("S003", "wrong-value", _E, "The value is not of the field's type; the server refuses it."),
    (
        "S004",
        "set-twice",
        _E,
        "A field that may stand once is set twice, or two that exclude each other are both set.",
    ),
    (
        "S005",
        "map-entry",
        _E,
        "An entry of a map is one key and one value: `input_map { key: … value: … }` for each.",
    ),
    ("S006", "not-text", _E, "A configuration is UTF-8 text; this file is something else."),
    (
        "S007",
        "newer-field",
        _E,
        "The server named by --triton-version does not know this field yet and refuses the model.",
    ),
    (
        "S008",
        "key-twice",
        _W,
        "Of two entries of a map with one key the server keeps the last.",
    ),
    # R: the repository and its folders
    ("R001", "no-models", _E, "A repository is a folder of model folders; none was found here."),
    ("R002", "unreadable", _E, "The file system does not let this be read."),
    (
        "R003",
        "no-config",
        _E,
        "Without a configuration the server must complete it from the model file, and for this "
        "folder it cannot.",
    ),
    (
        "R004",
        "folder-name",
        _E,
        "A model is served under its folder's name, and `name` must be the same or be left out.",
    ),
    (
        "R005",
        "misplaced-config",
        _W,
        "config.pbtxt belongs beside the version folders; inside one the server does not read it.",
    ),
    (
        "R006",
        "stray-folder",
        _E,
        "The server takes every folder of a repository for a model, hidden ones too.",
    ),
    # M: one model
    ("M001", "no-backend", _E, "Neither `backend` nor `platform` says what runs the model."),
    (
        "M002",
        "wrong-platform",
        _E,
        "The server knows a fixed set of platforms, and each belongs to one backend. An ensemble "
        'is `platform: "ensemble"` without a backend; there is none of that name.',
    ),
    (
        "M003",
        "ensemble-steps",
        _E,
        'An ensemble has steps, and only `platform: "ensemble"` may have them.',
    ),
    ("M004", "no-tensors", _E, "An ensemble must list its inputs and outputs."),
    ("M005", "negative-batch-size", _E, "`max_batch_size` is 0 (no batching) or more."),
    (
        "M006",
        "platform-ignored",
        _W,
        "`backend` decides; a `platform` of another backend is ignored.",
    ),
    (
        "M007",
        "odd-backend",
        _W,
        "The backend is called nearly, not quite, as one of Triton's: the server refuses the model "
        "unless it has a backend of this name, too.",
    ),
    # T: tensors of one model
    ("T001", "tensor-name", _E, "A tensor without a name cannot be sent or asked for."),
    ("T002", "tensor-twice", _E, "Two inputs, or two outputs, of one model share a name."),
    ("T003", "tensor-type", _E, "A tensor needs a `data_type`."),
    (
        "T004",
        "no-dims",
        _E,
        "A tensor needs `dims`; with batching a scalar is `dims: [ 1 ]` and an empty `reshape`.",
    ),
    ("T005", "wrong-dims", _E, "A dimension is 1 or more, or -1 for any."),
    (
        "T006",
        "reshape",
        _E,
        "A reshape keeps the number of elements; an empty one, for a scalar, needs batching.",
    ),
    ("T007", "format", _E, "FORMAT_NCHW and FORMAT_NHWC are for three dims."),
    (
        "T008",
        "ragged",
        _W,
        "`allow_ragged_batch` without batching does nothing: no requests are put together.",
    ),
    ("T009", "labels", _E, "The label file is not in the model's folder."),
    # V: versions and files
    (
        "V001",
        "no-version",
        _E,
        "A model needs a version folder such as `1/`, an ensemble too; that may be empty.",
    ),
    (
        "V002",
        "absent-version",
        _E,
        "`version_policy` serves no version, or names only ones without a folder.",
    ),
    (
        "V003",
        "no-model-file",
        _E,
        "A served version lacks the file that its backend loads.",
    ),
    (
        "V004",
        "ignored-version",
        _W,
        "A version folder is a whole number without a leading zero; others are ignored.",
    ),
    (
        "V005",
        "partly-absent-versions",
        _W,
        "`version_policy` names a version that has no folder; the server serves the others.",
    ),
    # E: ensembles
    ("E001", "absent-member", _E, "A step names a model that is not in the repository."),
    ("E002", "unknown-input", _E, "A step feeds an input that its model does not have."),
    ("E003", "unknown-output", _E, "A step takes an output that its model does not have."),
    (
        "E004",
        "input-not-fed",
        _E,
        "A step leaves out an input that its model needs, or feeds it what may be left out.",
    ),
    ("E005", "nobody-produces", _E, "A step reads a tensor that no input or step writes."),
    ("E006", "output-not-written", _E, "No step writes this output of the ensemble."),
    ("E007", "input-unused", _E, "No step reads this input of the ensemble."),
    ("E008", "two-producers", _E, "A tensor of an ensemble is written once."),
    ("E009", "type-mismatch", _E, "Producer and consumer of a tensor differ in data type."),
    ("E010", "shape-mismatch", _E, "Producer and consumer of a tensor differ in shape."),
    ("E011", "cycle", _E, "Steps, or ensembles, that wait for each other never begin."),
    (
        "E012",
        "batch-size",
        _E,
        "An ensemble hands its batches on whole, so no member may take less; of a member that "
        "takes none, requests of more than one row fail.",
    ),
    (
        "E013",
        "output-unused",
        _E,
        "A step's output is mapped to a tensor that nobody reads: leave out the mapping.",
    ),
    ("E014", "step-model", _E, "A step needs a `model_name`, and maps of inputs and outputs."),
    (
        "E015",
        "dali-output",
        _E,
        "DALI answers only requests for all of its outputs, and an ensemble asks for the mapped "
        "ones: map every output, used or not.",
    ),
    ("E016", "member-version", _E, "A step pins a version of its model that is not served."),
    # B: calls from Python models, declared in the parameter `bls_models`
    ("B001", "absent-callee", _E, "`bls_models` names a model that is not in the repository."),
    (
        "B002",
        "call-circle",
        _W,
        "A model that waits for another's answer takes no requests meanwhile: a circle of calls "
        "waits for ever, unless there are instances left and the recursion ends.",
    ),
    # D: scheduling
    (
        "D001",
        "preferred-batch",
        _E,
        "A preferred batch size lies between 1 and `max_batch_size`.",
    ),
    (
        "D002",
        "batcher-on-ensemble",
        _E,
        "An ensemble has no batcher, instances or optimization of its own: its members have.",
    ),
    ("D003", "priority-level", _E, "A priority level lies between 1 and `priority_levels`."),
    (
        "D004",
        "ordering-priorities",
        _E,
        "`preserve_ordering` excludes more than one priority level, and DELAY.",
    ),
    (
        "D005",
        "endless-queue",
        _W,
        "Without `max_queue_size` or a default timeout a queue grows until memory or patience "
        "ends; clients see time-outs instead of a refusal.",
    ),
    (
        "D006",
        "member-batching",
        _W,
        "Requests to an ensemble are batched by its members only: one that could batch should.",
    ),
    (
        "D007",
        "instances",
        _W,
        "More instances than there are cores wait for each other and take memory.",
    ),
    ("D008", "instance-group", _E, "A list of GPUs is for KIND_GPU and KIND_AUTO only."),
    ("D009", "cache-decoupled", _E, "Answers of a decoupled model cannot be cached."),
    (
        "D010",
        "cache-parameters",
        _W,
        "The cache's key ignores request parameters: a model that reads them is answered with "
        "another request's result.",
    ),
    ("D011", "idle-batcher", _W, "Without `max_batch_size` a dynamic batcher has nothing to do."),
    ("D012", "instance-count", _W, "A count below 0 is taken for the default."),
    ("D013", "absent-gpu", _E, "The server refuses an instance on a GPU that is not there."),
    # W: warm-up
    (
        "W001",
        "warmup-place",
        _E,
        "Warm up the leaf models only: an ensemble's is refused, and a BLS model's runs before "
        "the models it calls are ready, which stops the server.",
    ),
    ("W002", "warmup-inputs", _E, "A warm-up request feeds all of the model's inputs."),
    ("W003", "warmup-shape", _E, "A warm-up tensor has the type and shape that the input has."),
    ("W004", "warmup-batch", _E, "A warm-up batch lies between 1 and `max_batch_size`."),
    ("W005", "warmup-data", _E, "A warm-up tensor says what it holds, and its file exists."),
    ("W006", "warmup-extra", _W, "A warm-up request feeds what is no input; it is ignored."),
    # X: DALI
    (
        "X001",
        "dali-root-config",
        _E,
        "The DALI backend reads `max_batch_size` from the config.pbtxt beside `configs/`, whatever "
        "profile is served: keep one there that says the same.",
    ),
    # O: ONNX files
    ("O001", "not-onnx", _E, "The model file is no ONNX model, or a damaged one."),
    ("O002", "onnx-tensors", _E, "The configuration and the graph name different tensors."),
    ("O003", "onnx-type", _E, "The configuration and the graph differ in a tensor's type."),
    ("O004", "onnx-shape", _E, "The configuration and the graph differ in a tensor's shape."),
)

RULES: dict[str, Rule] = {row[0]: Rule(*row) for row in _TABLE}
