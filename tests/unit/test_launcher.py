"""What the launcher tells of tritonserver's log; that it starts and stops one is integration."""

from __future__ import annotations

from pathlib import Path

import pytest

from cropseek.settings import Settings
from cropseek.triton.launcher import TritonServer

WELL = "I1130 04:00:00.0 1 server.cc:1] started"
TABLE = "| option | value |\n+--------+-------+"
NOISE = "Corrupt JPEG data: 3 extraneous bytes before marker 0xd9"
MEMORY = "W1130 04:00:00.0 1 pinned_memory_manager.cc:170] falling back to non-pinned memory"
PNG = "libpng warning: iCCP: known incorrect sRGB profile"
DRIVER = "W1130 04:00:00.0 1 memory.cc:1] CUDA driver version is insufficient"
GPU = "E1130 04:00:00.0 1 CudaDriverHelper.cc:1] cannot load libcuda.so"
ERROR = "E1130 04:00:00.0 1 model_lifecycle.cc:1] failed to load 'detector'"
STUB = "I1130 04:00:00.0 1 pb_stub.cc:402]  Failed to preinitialize Python stub: no such file"
CRASH = ["terminate called", "  what():  No space left on device", "Signal (6) received."]


@pytest.mark.parametrize(
    ("log", "expected"),
    [
        ([WELL, GPU, ERROR, TABLE, NOISE], [ERROR]),
        ([WELL, STUB, "killed", NOISE], [STUB, "killed"]),
        ([ERROR, *CRASH, " 0# main in tritonserver", "", TABLE], [ERROR, *CRASH]),
        ([WELL, MEMORY, DRIVER, GPU, PNG, "", NOISE, ERROR], [ERROR]),
        ([WELL, "killed", TABLE, NOISE, GPU], ["killed"]),
        ([WELL, TABLE], [WELL]),
        (
            [ERROR, *[f"W1130 {number}" for number in range(9)]],
            [ERROR, *[f"W1130 {n}" for n in range(7)]],
        ),
        ([f"E0000 {number}" for number in range(20)], [f"E0000 {n}" for n in range(12, 20)]),
        (["error: " + "x" * 1000], ["error: " + "x" * 393]),
    ],
    ids=[
        "an error",
        "a stub's",
        "a crash",
        "noise",
        "what is no noise",
        "all there is",
        "warnings after it",
        "the last",
        "no longer lines",
    ],
)
def test_the_end_of_the_log(tmp_path: Path, log: list[str], expected: list[str]) -> None:
    server = TritonServer(Settings(data_dir=tmp_path))
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "triton.log").write_text("\n".join(log), encoding="utf-8")
    assert server.log_tail().splitlines() == expected


def test_without_a_log(tmp_path: Path) -> None:
    assert TritonServer(Settings(data_dir=tmp_path)).log_tail() == "(no log)"
