"""The tree of errors: its drawing, its codes, and the way back from a code."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import grpc
import pytest

from cropseek import errors

PACKAGES = Path(errors.__file__).parents[1], Path(errors.__file__).parents[2] / "export"
TREE = [cls for cls in errors.all_errors() if cls.__module__ == errors.__name__]
_BRANCH = re.compile(r"^    (?P<lines>[│├└─ ]*)(?P<name>[A-Z]\w+)( +(?P<code>[A-Z_]+)\b.*)?$")


def drawn() -> dict[str, tuple[str | None, str]]:
    """Each class in the docstring's drawing: its parent and its code (the root has neither)."""
    found: dict[str, tuple[str | None, str]] = {}
    path: list[str] = []
    for line in (errors.__doc__ or "").splitlines():
        branch = _BRANCH.match(line)
        if branch is None:
            continue
        depth = len(branch["lines"]) // 4
        del path[depth:]
        found[branch["name"]] = (path[-1] if path else None, branch["code"] or "INTERNAL")
        path.append(branch["name"])
    return found


def test_the_docstring_draws_the_tree() -> None:
    """Every class, below its parent, with its code; and no class more."""
    assert drawn() == {
        cls.__name__: (
            None if cls is errors.CropseekError else cls.__bases__[0].__name__,
            cls.code,
        )
        for cls in TREE
    }


@pytest.mark.parametrize("cls", TREE, ids=lambda cls: cls.__name__)
def test_every_error_has_a_grpc_code(cls: type[errors.CropseekError]) -> None:
    """One that says that something went wrong; and a docstring."""
    assert cls.code in grpc.StatusCode.__members__
    assert cls.code not in ("OK", "UNKNOWN")
    assert cls.__doc__
    assert str(cls("what went wrong")) == "what went wrong"


def test_errors_are_defined_in_one_file() -> None:
    """No other file of ours derives from a class of the tree."""
    names = {cls.__name__ for cls in TREE}
    strays = [
        f"{path}:{node.lineno}"
        for package in PACKAGES
        for path in package.rglob("*.py")
        if path != Path(errors.__file__)
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.ClassDef)
        for base in node.bases
        if ast.unparse(base).split(".")[-1] in names
    ]
    assert strays == []


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        ("INVALID_ARGUMENT", errors.InvalidInput),
        ("NOT_FOUND", errors.CollectionNotFound),
        ("FAILED_PRECONDITION", errors.EmbedderMismatch),
        ("RESOURCE_EXHAUSTED", errors.Overloaded),
        ("UNAVAILABLE", errors.NotReady),
        ("DEADLINE_EXCEEDED", errors.DeadlineExceeded),
        ("INTERNAL", errors.ModelFailed),
        ("UNIMPLEMENTED", errors.CropseekError),
    ],
)
def test_a_code_becomes_an_error_again(code: str, expected: type[errors.CropseekError]) -> None:
    """Of the first class that has it; the code stays even if no class has it."""
    error = errors.from_code(code, "why")
    assert type(error) is expected
    assert (error.code, str(error)) == (code, "why")


@pytest.mark.parametrize("cls", TREE, ids=lambda cls: cls.__name__)
def test_a_class_keeps_its_code(cls: type[errors.CropseekError]) -> None:
    """`from_code` sets the code of the one error, not of its class."""
    errors.from_code("UNIMPLEMENTED", "x")
    errors.from_code(cls.code, "x")
    assert cls.code == drawn()[cls.__name__][1]
