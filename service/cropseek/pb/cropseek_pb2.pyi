from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class Regions(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    REGIONS_UNSPECIFIED: _ClassVar[Regions]
    REGIONS_DETECTIONS: _ClassVar[Regions]
    REGIONS_WHOLE_PICTURE: _ClassVar[Regions]
    REGIONS_DETECTIONS_AND_WHOLE_PICTURE: _ClassVar[Regions]
    REGIONS_BOXES: _ClassVar[Regions]
REGIONS_UNSPECIFIED: Regions
REGIONS_DETECTIONS: Regions
REGIONS_WHOLE_PICTURE: Regions
REGIONS_DETECTIONS_AND_WHOLE_PICTURE: Regions
REGIONS_BOXES: Regions

class Box(_message.Message):
    __slots__ = ("x1", "y1", "x2", "y2")
    X1_FIELD_NUMBER: _ClassVar[int]
    Y1_FIELD_NUMBER: _ClassVar[int]
    X2_FIELD_NUMBER: _ClassVar[int]
    Y2_FIELD_NUMBER: _ClassVar[int]
    x1: float
    y1: float
    x2: float
    y2: float
    def __init__(self, x1: _Optional[float] = ..., y1: _Optional[float] = ..., x2: _Optional[float] = ..., y2: _Optional[float] = ...) -> None: ...

class Size(_message.Message):
    __slots__ = ("width", "height")
    WIDTH_FIELD_NUMBER: _ClassVar[int]
    HEIGHT_FIELD_NUMBER: _ClassVar[int]
    width: int
    height: int
    def __init__(self, width: _Optional[int] = ..., height: _Optional[int] = ...) -> None: ...

class RegionOptions(_message.Message):
    __slots__ = ("regions", "boxes", "min_score", "max_detections", "classes")
    REGIONS_FIELD_NUMBER: _ClassVar[int]
    BOXES_FIELD_NUMBER: _ClassVar[int]
    MIN_SCORE_FIELD_NUMBER: _ClassVar[int]
    MAX_DETECTIONS_FIELD_NUMBER: _ClassVar[int]
    CLASSES_FIELD_NUMBER: _ClassVar[int]
    regions: Regions
    boxes: _containers.RepeatedCompositeFieldContainer[Box]
    min_score: float
    max_detections: int
    classes: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, regions: _Optional[_Union[Regions, str]] = ..., boxes: _Optional[_Iterable[_Union[Box, _Mapping]]] = ..., min_score: _Optional[float] = ..., max_detections: _Optional[int] = ..., classes: _Optional[_Iterable[str]] = ...) -> None: ...

class Detection(_message.Message):
    __slots__ = ("box", "score", "label", "class_id", "neighbors", "embedding")
    BOX_FIELD_NUMBER: _ClassVar[int]
    SCORE_FIELD_NUMBER: _ClassVar[int]
    LABEL_FIELD_NUMBER: _ClassVar[int]
    CLASS_ID_FIELD_NUMBER: _ClassVar[int]
    NEIGHBORS_FIELD_NUMBER: _ClassVar[int]
    EMBEDDING_FIELD_NUMBER: _ClassVar[int]
    box: Box
    score: float
    label: str
    class_id: int
    neighbors: _containers.RepeatedCompositeFieldContainer[Neighbor]
    embedding: _containers.RepeatedScalarFieldContainer[float]
    def __init__(self, box: _Optional[_Union[Box, _Mapping]] = ..., score: _Optional[float] = ..., label: _Optional[str] = ..., class_id: _Optional[int] = ..., neighbors: _Optional[_Iterable[_Union[Neighbor, _Mapping]]] = ..., embedding: _Optional[_Iterable[float]] = ...) -> None: ...

class Neighbor(_message.Message):
    __slots__ = ("item_id", "similarity", "source", "time_s", "box", "label", "score", "metadata")
    class MetadataEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    ITEM_ID_FIELD_NUMBER: _ClassVar[int]
    SIMILARITY_FIELD_NUMBER: _ClassVar[int]
    SOURCE_FIELD_NUMBER: _ClassVar[int]
    TIME_S_FIELD_NUMBER: _ClassVar[int]
    BOX_FIELD_NUMBER: _ClassVar[int]
    LABEL_FIELD_NUMBER: _ClassVar[int]
    SCORE_FIELD_NUMBER: _ClassVar[int]
    METADATA_FIELD_NUMBER: _ClassVar[int]
    item_id: int
    similarity: float
    source: str
    time_s: float
    box: Box
    label: str
    score: float
    metadata: _containers.ScalarMap[str, str]
    def __init__(self, item_id: _Optional[int] = ..., similarity: _Optional[float] = ..., source: _Optional[str] = ..., time_s: _Optional[float] = ..., box: _Optional[_Union[Box, _Mapping]] = ..., label: _Optional[str] = ..., score: _Optional[float] = ..., metadata: _Optional[_Mapping[str, str]] = ...) -> None: ...

class Error(_message.Message):
    __slots__ = ("code", "message", "reason")
    CODE_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    code: str
    message: str
    reason: str
    def __init__(self, code: _Optional[str] = ..., message: _Optional[str] = ..., reason: _Optional[str] = ...) -> None: ...

class SearchRequest(_message.Message):
    __slots__ = ("image", "collection", "options", "top_k", "min_similarity", "include_embeddings")
    IMAGE_FIELD_NUMBER: _ClassVar[int]
    COLLECTION_FIELD_NUMBER: _ClassVar[int]
    OPTIONS_FIELD_NUMBER: _ClassVar[int]
    TOP_K_FIELD_NUMBER: _ClassVar[int]
    MIN_SIMILARITY_FIELD_NUMBER: _ClassVar[int]
    INCLUDE_EMBEDDINGS_FIELD_NUMBER: _ClassVar[int]
    image: bytes
    collection: str
    options: RegionOptions
    top_k: int
    min_similarity: float
    include_embeddings: bool
    def __init__(self, image: _Optional[bytes] = ..., collection: _Optional[str] = ..., options: _Optional[_Union[RegionOptions, _Mapping]] = ..., top_k: _Optional[int] = ..., min_similarity: _Optional[float] = ..., include_embeddings: _Optional[bool] = ...) -> None: ...

class SearchResponse(_message.Message):
    __slots__ = ("size", "detections", "index_sequence", "timings_ms", "truncated")
    class TimingsMsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: float
        def __init__(self, key: _Optional[str] = ..., value: _Optional[float] = ...) -> None: ...
    SIZE_FIELD_NUMBER: _ClassVar[int]
    DETECTIONS_FIELD_NUMBER: _ClassVar[int]
    INDEX_SEQUENCE_FIELD_NUMBER: _ClassVar[int]
    TIMINGS_MS_FIELD_NUMBER: _ClassVar[int]
    TRUNCATED_FIELD_NUMBER: _ClassVar[int]
    size: Size
    detections: _containers.RepeatedCompositeFieldContainer[Detection]
    index_sequence: int
    timings_ms: _containers.ScalarMap[str, float]
    truncated: bool
    def __init__(self, size: _Optional[_Union[Size, _Mapping]] = ..., detections: _Optional[_Iterable[_Union[Detection, _Mapping]]] = ..., index_sequence: _Optional[int] = ..., timings_ms: _Optional[_Mapping[str, float]] = ..., truncated: _Optional[bool] = ...) -> None: ...

class SearchStreamResponse(_message.Message):
    __slots__ = ("position", "result", "error")
    POSITION_FIELD_NUMBER: _ClassVar[int]
    RESULT_FIELD_NUMBER: _ClassVar[int]
    ERROR_FIELD_NUMBER: _ClassVar[int]
    position: int
    result: SearchResponse
    error: Error
    def __init__(self, position: _Optional[int] = ..., result: _Optional[_Union[SearchResponse, _Mapping]] = ..., error: _Optional[_Union[Error, _Mapping]] = ...) -> None: ...

class DetectRequest(_message.Message):
    __slots__ = ("image", "min_score", "max_detections", "classes")
    IMAGE_FIELD_NUMBER: _ClassVar[int]
    MIN_SCORE_FIELD_NUMBER: _ClassVar[int]
    MAX_DETECTIONS_FIELD_NUMBER: _ClassVar[int]
    CLASSES_FIELD_NUMBER: _ClassVar[int]
    image: bytes
    min_score: float
    max_detections: int
    classes: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, image: _Optional[bytes] = ..., min_score: _Optional[float] = ..., max_detections: _Optional[int] = ..., classes: _Optional[_Iterable[str]] = ...) -> None: ...

class DetectResponse(_message.Message):
    __slots__ = ("size", "detections", "timings_ms", "truncated")
    class TimingsMsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: float
        def __init__(self, key: _Optional[str] = ..., value: _Optional[float] = ...) -> None: ...
    SIZE_FIELD_NUMBER: _ClassVar[int]
    DETECTIONS_FIELD_NUMBER: _ClassVar[int]
    TIMINGS_MS_FIELD_NUMBER: _ClassVar[int]
    TRUNCATED_FIELD_NUMBER: _ClassVar[int]
    size: Size
    detections: _containers.RepeatedCompositeFieldContainer[Detection]
    timings_ms: _containers.ScalarMap[str, float]
    truncated: bool
    def __init__(self, size: _Optional[_Union[Size, _Mapping]] = ..., detections: _Optional[_Iterable[_Union[Detection, _Mapping]]] = ..., timings_ms: _Optional[_Mapping[str, float]] = ..., truncated: _Optional[bool] = ...) -> None: ...

class EmbedRequest(_message.Message):
    __slots__ = ("image", "options")
    IMAGE_FIELD_NUMBER: _ClassVar[int]
    OPTIONS_FIELD_NUMBER: _ClassVar[int]
    image: bytes
    options: RegionOptions
    def __init__(self, image: _Optional[bytes] = ..., options: _Optional[_Union[RegionOptions, _Mapping]] = ...) -> None: ...

class EmbedResponse(_message.Message):
    __slots__ = ("size", "detections", "timings_ms", "truncated", "embedder")
    class TimingsMsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: float
        def __init__(self, key: _Optional[str] = ..., value: _Optional[float] = ...) -> None: ...
    SIZE_FIELD_NUMBER: _ClassVar[int]
    DETECTIONS_FIELD_NUMBER: _ClassVar[int]
    TIMINGS_MS_FIELD_NUMBER: _ClassVar[int]
    TRUNCATED_FIELD_NUMBER: _ClassVar[int]
    EMBEDDER_FIELD_NUMBER: _ClassVar[int]
    size: Size
    detections: _containers.RepeatedCompositeFieldContainer[Detection]
    timings_ms: _containers.ScalarMap[str, float]
    truncated: bool
    embedder: str
    def __init__(self, size: _Optional[_Union[Size, _Mapping]] = ..., detections: _Optional[_Iterable[_Union[Detection, _Mapping]]] = ..., timings_ms: _Optional[_Mapping[str, float]] = ..., truncated: _Optional[bool] = ..., embedder: _Optional[str] = ...) -> None: ...

class IndexImagesRequest(_message.Message):
    __slots__ = ("image", "collection", "source", "time_s", "metadata", "options")
    class MetadataEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    IMAGE_FIELD_NUMBER: _ClassVar[int]
    COLLECTION_FIELD_NUMBER: _ClassVar[int]
    SOURCE_FIELD_NUMBER: _ClassVar[int]
    TIME_S_FIELD_NUMBER: _ClassVar[int]
    METADATA_FIELD_NUMBER: _ClassVar[int]
    OPTIONS_FIELD_NUMBER: _ClassVar[int]
    image: bytes
    collection: str
    source: str
    time_s: float
    metadata: _containers.ScalarMap[str, str]
    options: RegionOptions
    def __init__(self, image: _Optional[bytes] = ..., collection: _Optional[str] = ..., source: _Optional[str] = ..., time_s: _Optional[float] = ..., metadata: _Optional[_Mapping[str, str]] = ..., options: _Optional[_Union[RegionOptions, _Mapping]] = ...) -> None: ...

class Indexed(_message.Message):
    __slots__ = ("item_ids", "sequence", "detections")
    ITEM_IDS_FIELD_NUMBER: _ClassVar[int]
    SEQUENCE_FIELD_NUMBER: _ClassVar[int]
    DETECTIONS_FIELD_NUMBER: _ClassVar[int]
    item_ids: _containers.RepeatedScalarFieldContainer[int]
    sequence: int
    detections: _containers.RepeatedCompositeFieldContainer[Detection]
    def __init__(self, item_ids: _Optional[_Iterable[int]] = ..., sequence: _Optional[int] = ..., detections: _Optional[_Iterable[_Union[Detection, _Mapping]]] = ...) -> None: ...

class IndexImagesResponse(_message.Message):
    __slots__ = ("position", "source", "indexed", "error")
    POSITION_FIELD_NUMBER: _ClassVar[int]
    SOURCE_FIELD_NUMBER: _ClassVar[int]
    INDEXED_FIELD_NUMBER: _ClassVar[int]
    ERROR_FIELD_NUMBER: _ClassVar[int]
    position: int
    source: str
    indexed: Indexed
    error: Error
    def __init__(self, position: _Optional[int] = ..., source: _Optional[str] = ..., indexed: _Optional[_Union[Indexed, _Mapping]] = ..., error: _Optional[_Union[Error, _Mapping]] = ...) -> None: ...

class CreateCollectionRequest(_message.Message):
    __slots__ = ("name",)
    NAME_FIELD_NUMBER: _ClassVar[int]
    name: str
    def __init__(self, name: _Optional[str] = ...) -> None: ...

class Collection(_message.Message):
    __slots__ = ("name", "embedder", "dim", "items")
    NAME_FIELD_NUMBER: _ClassVar[int]
    EMBEDDER_FIELD_NUMBER: _ClassVar[int]
    DIM_FIELD_NUMBER: _ClassVar[int]
    ITEMS_FIELD_NUMBER: _ClassVar[int]
    name: str
    embedder: str
    dim: int
    items: int
    def __init__(self, name: _Optional[str] = ..., embedder: _Optional[str] = ..., dim: _Optional[int] = ..., items: _Optional[int] = ...) -> None: ...

class ListCollectionsRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class ListCollectionsResponse(_message.Message):
    __slots__ = ("collections",)
    COLLECTIONS_FIELD_NUMBER: _ClassVar[int]
    collections: _containers.RepeatedCompositeFieldContainer[Collection]
    def __init__(self, collections: _Optional[_Iterable[_Union[Collection, _Mapping]]] = ...) -> None: ...
