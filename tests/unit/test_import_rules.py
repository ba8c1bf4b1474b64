"""Where a line of code lives: what may be imported where, read from the source itself."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SERVICE, EXPORT, MODELS = "service/cropseek", "export/cropseek_export", "model_repository"

# A module, with all below it, and the folders or files that may import it.
RULES = {
    "faiss": (f"{SERVICE}/index/",),
    "sqlite3": (f"{SERVICE}/catalog/",),
    "tritonclient": (f"{SERVICE}/triton/",),
    "triton_python_backend_utils": (f"{SERVICE}/triton/", f"{MODELS}/"),
    "pytriton": (),
    "cropseek.pb": (f"{SERVICE}/rpc/", f"{SERVICE}/client/", f"{SERVICE}/pb/"),
    "av": (f"{SERVICE}/video/",),
    "torch": (f"{EXPORT}/",),
    "torchvision": (f"{EXPORT}/",),
    "ultralytics": (f"{EXPORT}/",),
    "tensorrt": (f"{EXPORT}/",),
    "nvidia": (f"{MODELS}/preprocess/1/dali.py",),
    "cropseek_export": (f"{EXPORT}/",),
    "os.environ": (f"{SERVICE}/settings.py",),
    "os.environb": (),
    "os.getenv": (),
    "os.putenv": (),
}
FILES = sorted(
    path
    for folder in (SERVICE, EXPORT, MODELS)
    for path in (ROOT / folder).rglob("*.py")
    if "__pycache__" not in path.parts
)


# Functions that import the module whose name they are given; `_require` is of cropseek_export.
IMPORTERS = ("import_module", "__import__", "_require")


def names_used(tree: ast.AST, package: str) -> Iterator[tuple[int, str]]:
    """Yield every dotted name that code imports or reads from a module, with its line.

    Relative imports are resolved from `package`; imports by name as text count too.
    """
    modules: dict[str, str] = {}  # what a module is called in this file
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                top = alias.name.split(".")[0]
                modules[alias.asname or top] = alias.name if alias.asname else top
                yield node.lineno, alias.name
        elif isinstance(node, ast.ImportFrom):
            base = absolute(node, package)
            yield from ((node.lineno, f"{base}.{alias.name}") for alias in node.names)
        elif isinstance(node, ast.Call) and node.args:
            if ast.unparse(node.func).split(".")[-1] in IMPORTERS:
                yield node.lineno, str(getattr(node.args[0], "value", "?"))
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            yield node.lineno, f"{modules.get(node.value.id, '?')}.{node.attr}"


def absolute(node: ast.ImportFrom, package: str) -> str:
    """Return the full name of the module that is imported from."""
    if not node.level:
        return node.module or ""
    parents = package.split(".")
    parents = parents[: len(parents) - node.level + 1]
    return ".".join([*parents, *([node.module] if node.module else [])])


def broken_rules(text: str, path: str) -> list[str]:
    """Return what a file's text breaks, `path` being relative to the repository's root."""
    package = ".".join(Path(path).with_suffix("").parts[1:-1])
    return sorted(
        {
            f"{path}:{line}: {module} belongs in {' and '.join(allowed) or 'no file'}"
            for line, name in names_used(ast.parse(text), package)
            for module, allowed in RULES.items()
            if f"{name}.".startswith(f"{module}.") and not path.startswith(allowed)
        }
    )


def test_every_file_keeps_the_rules() -> None:
    """A line that fits two rooms is two lines."""
    assert [
        broken
        for path in FILES
        for broken in broken_rules(
            path.read_text(encoding="utf-8"), path.relative_to(ROOT).as_posix()
        )
    ] == []


def test_the_rules_are_not_idle() -> None:
    """The modules that rooms are named for are imported, and found."""
    used = {
        name
        for path in FILES
        for _, name in names_used(ast.parse(path.read_text(encoding="utf-8")), "cropseek")
    }
    modules = "faiss sqlite3 tritonclient cropseek.pb av torch nvidia os.environ"
    for module in modules.split():
        assert any(f"{name}.".startswith(f"{module}.") for name in used), module


@pytest.mark.parametrize(
    "text",
    [
        "import faiss",
        "import faiss as f",
        "import numpy, faiss.contrib",
        "from faiss import IndexFlatIP",
        "from faiss.contrib import x",
        "def f():\n    import faiss",
        "if TYPE_CHECKING:\n    import faiss",
        "import importlib\nimportlib.import_module('faiss')",
        "from importlib import import_module\nimport_module('faiss.contrib')",
        "__import__('faiss')",
        "import os\nos.environ['A']",
        "import os as system\nsystem.environ",
        "import os\nos.getenv('A')",
        "from os import environ",
        "from os import getenv as g",
        "from cropseek import pb",
        "from cropseek.pb import cropseek_pb2",
        "import cropseek.pb.cropseek_pb2 as pb",
        "from ..pb import cropseek_pb2",
        "from .. import pb",
    ],
)
def test_a_broken_rule_is_seen(text: str) -> None:
    """However it is written."""
    assert broken_rules(text, "service/cropseek/vision/decode.py")


@pytest.mark.parametrize(
    ("text", "path"),
    [
        ("", "service/cropseek/vision/decode.py"),
        ("import faiss_like\nfrom x import faiss", "service/cropseek/vision/decode.py"),
        ("import os\nos.path.join('a')", "service/cropseek/vision/decode.py"),
        ("import faiss", "service/cropseek/index/exact.py"),
        ("import os\nos.environ", "service/cropseek/settings.py"),
        ("import triton_python_backend_utils", "model_repository/preprocess/1/model.py"),
        ("from . import crop", "service/cropseek/vision/decode.py"),
        ("import torch", "export/cropseek_export/embedder.py"),
    ],
)
def test_what_is_allowed_is_let_through(text: str, path: str) -> None:
    """And what only sounds alike."""
    assert broken_rules(text, path) == []
