"""What a Python user imports: `from cropseek.client import Client`.

    with Client("127.0.0.1:50051") as client:
        for detection in client.search("photo.jpg", top_k=5).detections:
            print(detection.label, [neighbor.source for neighbor in detection.neighbors])

Errors are those of `cropseek.errors`.
"""

from cropseek.client.client import DEFAULT_TARGET, Client
from cropseek.client.convert import DetectOptions, RegionOptions, SearchOptions
from cropseek.client.results import (
    Collection,
    Detection,
    DetectResult,
    EmbedResult,
    Indexed,
    IndexItem,
    IndexOutcome,
    Neighbor,
    SearchOutcome,
    SearchResult,
)
from cropseek.types import Regions

__all__ = [
    "DEFAULT_TARGET",
    "Client",
    "Collection",
    "DetectOptions",
    "DetectResult",
    "Detection",
    "EmbedResult",
    "IndexItem",
    "IndexOutcome",
    "Indexed",
    "Neighbor",
    "RegionOptions",
    "Regions",
    "SearchOptions",
    "SearchOutcome",
    "SearchResult",
]
