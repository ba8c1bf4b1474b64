"""One process a data directory.

Why flock: the kernel lets go of it when its process ends, however that happens, so a lock that a
dead process left behind does not exist. The file stays; what is written in it is only for the
message to whoever comes second.
"""

from __future__ import annotations

import fcntl
import os
from pathlib import Path

from cropseek.errors import DataDirInUse

LOCK_NAME = "catalog.lock"


class DataDirLock:
    """Holds a data directory until closed or until its process ends; raises `DataDirInUse`."""

    def __init__(self, data_dir: Path) -> None:
        self._file = open(data_dir / LOCK_NAME, "a+", encoding="ascii")
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            self._file.seek(0)
            owner = self._file.read(20).strip() or "unknown"
            self._file.close()
            raise DataDirInUse(
                f"data directory {data_dir} is in use by the cropseek process {owner}: "
                "stop that one, or give this one another data directory"
            ) from None
        self._file.truncate(0)
        self._file.write(f"{os.getpid()}\n")
        self._file.flush()

    def close(self) -> None:
        """Let go of the directory."""
        self._file.close()
