"""How much memory the whole server takes, and how long it takes to be ready.

    python -m benchmarks.footprint --images DIR --json OUT

Starts `cropseek serve` as a user does, times it from the start of the process until a search has
answered, runs the demo's work through it, lets it rest, then sends 12-megapixel pictures at
concurrency 4. Memory is the proportional set size of the server's processes, all of them.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from pathlib import Path

import cv2
import numpy as np

from benchmarks.end_to_end import closed_loop
from benchmarks.machine import description
from benchmarks.memory import PeakMemory, pss_mib
from benchmarks.served import served
from cropseek.client.results import IndexItem
from cropseek.vision.decode import decode_image
from cropseek.vision.encode import encode_jpeg

STARTS = 5
REST_S = 5.0
LARGE_WH = (4000, 3000)


def main() -> None:
    """Measure, print, and write the JSON."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--images", type=Path, required=True)
    parser.add_argument("--json", type=Path, required=True)
    arguments = parser.parse_args()
    photos = [path.read_bytes() for path in sorted(arguments.images.glob("*.jpg"))]
    large = [enlarged(photo) for photo in photos]
    ready = []
    for _ in range(STARTS):
        with served() as server:
            ready.append(server.ready_s)
    with served() as server:
        pid, client = server.pid, server.client
        for outcome in client.index_images(IndexItem(photo) for photo in photos):
            assert outcome.error is None, outcome
        closed_loop(client.search, photos, 8)
        time.sleep(REST_S)
        rest = pss_mib(pid)
        with PeakMemory(pid) as peak:
            figures = closed_loop(client.search, large, 4)
        time.sleep(REST_S)
        after = pss_mib(pid)
    result = {
        "machine": description(),
        "ready_s": {"median": statistics.median(ready), "all": ready},
        "rest_pss_mib": round(sum(size for _, size in rest.values())),
        "rest_by_process": [f"{name} {size:.0f}" for name, size in rest.values()],
        "large_pictures_per_s": figures["pictures_per_s"],
        "large_peak_pss_mib": round(peak.pss_mib),
        "large_peak_shm_mib": round(peak.shm_mib),
        "after_large_pss_mib": round(sum(size for _, size in after.values())),
    }
    arguments.json.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")
    print(json.dumps(result, indent=1))


def enlarged(photo: bytes) -> bytes:
    """Return a photo as a 12-megapixel JPEG."""
    pixels = cv2.resize(decode_image(photo), LARGE_WH, interpolation=cv2.INTER_CUBIC)
    return encode_jpeg(np.asarray(pixels, np.uint8), quality=90)


if __name__ == "__main__":
    main()
