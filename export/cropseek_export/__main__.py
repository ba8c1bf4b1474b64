"""`python -m cropseek_export detector|embedder|all --repository model_repository`."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from cropseek_export.graft import NmsSettings
from cropseek_export.manifest import ModelEntry
from cropseek_export.publish import publish_detector, publish_embedder


def main(arguments: Sequence[str] | None = None) -> int:
    """Make what was asked for and print one line a file; returns the exit status."""
    options = _parser().parse_args(arguments)
    repository: Path = options.repository
    try:
        if options.what in ("detector", "all"):
            settings = NmsSettings(
                options.iou_threshold, options.score_floor, options.max_detections
            )
            _report(repository, publish_detector(repository, settings))
        if options.what in ("embedder", "all"):
            _report(repository, publish_embedder(repository))
    except (ImportError, OSError, ValueError) as error:
        print(f"cropseek_export: {error}", file=sys.stderr)
        return 1
    return 0


def _parser() -> argparse.ArgumentParser:
    defaults = NmsSettings()
    parser = argparse.ArgumentParser(
        prog="python -m cropseek_export",
        description="Make the served ONNX files and models.toml from packaged weights.",
    )
    parser.add_argument("what", choices=("detector", "embedder", "all"))
    parser.add_argument(
        "--repository",
        type=Path,
        default=Path("model_repository"),
        help="the model repository to write into (default: %(default)s)",
    )
    parser.add_argument(
        "--iou-threshold",
        type=float,
        default=defaults.iou_threshold,
        help="of two boxes of a class overlapping more than this, one goes (default: %(default)s)",
    )
    parser.add_argument(
        "--score-floor",
        type=float,
        default=defaults.score_floor,
        help="boxes scoring no more than this are never reported (default: %(default)s)",
    )
    parser.add_argument(
        "--max-detections",
        type=int,
        default=defaults.max_detections,
        help="rows a picture in the detector's output (default: %(default)s)",
    )
    return parser


def _report(repository: Path, entry: ModelEntry) -> None:
    path = repository / entry.file
    print(f"{path}  {path.stat().st_size / 1e6:.1f} MB  sha256 {entry.sha256}")


if __name__ == "__main__":
    sys.exit(main())
