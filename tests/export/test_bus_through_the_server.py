"""The picture that everybody knows, through the real server, against Ultralytics' own figures."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from cropseek.client import Client
from cropseek.rpc.server import running_server
from cropseek.settings import Settings
from tests.builders import packaged

GOLDEN = Path(__file__).parents[1] / "golden" / "bus_ultralytics.json"


def test_the_server_finds_what_ultralytics_finds(tmp_path: Path) -> None:
    bus = packaged("ultralytics", "assets", "bus.jpg").read_bytes()
    with running_server(Settings(data_dir=tmp_path)) as server, Client(server.target) as client:
        found = client.detect(bus).detections
    expected = json.loads(GOLDEN.read_text(encoding="utf-8"))["detections"]
    assert [d.label for d in found] == ["bus", "person", "person", "person", "person"]
    assert [d["label"] for d in expected] == [d.label for d in found]
    for ours, theirs in zip(found, expected, strict=True):
        assert ours.score == pytest.approx(theirs["score"], abs=0.02)
        assert list(ours.box_xyxy) == pytest.approx(theirs["box"], abs=2)
    assert list(found[0].box_xyxy) == pytest.approx([11.9, 228.4, 799.2, 735.2], abs=2)
    assert [d.score for d in found] == pytest.approx([0.939, 0.902, 0.849, 0.833, 0.399], abs=0.02)
