"""Memory of a process and all that it started: proportional set size, and /dev/shm."""

from __future__ import annotations

import shutil
import threading
from typing import Any

import psutil

_PERIOD_S = 0.1


def pss_mib(pid: int | None = None) -> dict[int, tuple[str, float]]:
    """Return a process (this one) and all below it by id: the name and the PSS in MiB.

    PSS counts a page shared by n processes as 1/n in each, so the sum is what the whole takes;
    pages of /dev/shm that are mapped are in it.
    """
    top = psutil.Process(pid)
    found = {}
    for process in [top, *top.children(recursive=True)]:
        try:
            found[process.pid] = (process.name(), process.memory_full_info().pss / 2**20)
        except psutil.Error:
            continue
    return found


class PeakMemory:
    """Samples memory during a `with` block; the largest sums seen are kept."""

    def __init__(self, pid: int | None = None) -> None:
        self._pid = pid
        self.pss_mib = 0.0
        self.shm_mib = 0.0
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._sample, daemon=True)

    def __enter__(self) -> PeakMemory:
        self._thread.start()
        return self

    def __exit__(self, *_: Any) -> None:
        self._stop.set()
        self._thread.join()

    def _sample(self) -> None:
        while not self._stop.is_set():
            self.pss_mib = max(self.pss_mib, sum(size for _, size in pss_mib(self._pid).values()))
            self.shm_mib = max(self.shm_mib, shutil.disk_usage("/dev/shm").used / 2**20)
            self._stop.wait(_PERIOD_S)
