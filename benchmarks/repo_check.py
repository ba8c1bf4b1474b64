"""How long `cropseek repo check` takes over 1,000 models: the whole command, as a user runs it.

    python -m benchmarks.repo_check --json OUT [--models 1000] [--rounds 7]

The models are those of a pipeline of three and its ensemble, made again and again under other
names, with what real configurations have: queues, warm-up, instance groups.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from benchmarks.machine import description
from cropseek.triton.build import Ensemble, Model, Repository, model, tensor
from cropseek.triton.config import DynamicBatching, QueuePolicy, Warmup, WarmupInput

_MODEL = "class TritonPythonModel:\n    def execute(self, requests):\n        return []\n"
_BATCHING = DynamicBatching((4, 8), 500, default_queue_policy=QueuePolicy("REJECT", 10**6, True, 8))


def pipeline(number: int) -> list[Model | Ensemble]:
    """Return three models and the ensemble over them."""
    image = tensor("IMAGE", "UINT8", -1)
    pixels = tensor("PIXELS", "FP32", 3, 224, 224)
    vector = tensor("VECTOR", "FP32", 1280)
    files = {"1/model.py": _MODEL}
    common: dict[str, Any] = {"max_batch_size": 8, "files": files, "dynamic_batching": _BATCHING}
    zeros = WarmupInput("TYPE_FP32", (3, 224, 224), zero_data=True)
    warmup = (Warmup("zeros", 8, {"PIXELS": zeros}),)
    decode = model(f"decode_{number}", "python", inputs=[image], outputs=[pixels], **common)
    embed = model(
        f"embed_{number}",
        "python",
        inputs=[pixels],
        outputs=[vector],
        model_warmup=warmup,
        **common,
    )
    rank = model(f"rank_{number}", "python", inputs=[vector], outputs=[vector], **common)
    whole = Ensemble(f"search_{number}", inputs=[image], max_batch_size=8)
    made = whole.call(decode, IMAGE=whole["IMAGE"])["PIXELS"]
    made = whole.call(embed, PIXELS=made)["VECTOR"]
    whole.output("VECTOR", whole.call(rank, VECTOR=made)["VECTOR"])
    return [decode, embed, rank, whole]


def main() -> None:
    """Measure, print, and write the JSON."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--json", type=Path, required=True)
    parser.add_argument("--models", type=int, default=1000)
    parser.add_argument("--rounds", type=int, default=7)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        models = [m for number in range(arguments.models // 4) for m in pipeline(number)]
        Repository(models).write(root)
        command = [sys.executable, "-m", "cropseek", "repo", "check", str(root)]
        seconds = []
        for _ in range(arguments.rounds):
            begin = time.perf_counter()
            done = subprocess.run(command, check=True, capture_output=True, text=True)
            seconds.append(round(time.perf_counter() - begin, 3))
        said = done.stdout.splitlines()[-1]
    print(said, sorted(seconds))
    result = {"machine": description(), "models": len(models), "said": said, "seconds": seconds}
    arguments.json.parent.mkdir(parents=True, exist_ok=True)
    arguments.json.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
