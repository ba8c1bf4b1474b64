"""What the source of a Python model shows of how it behaves, without running it."""

from __future__ import annotations

import ast
import warnings
from dataclasses import dataclass


@dataclass(frozen=True)
class Source:
    """Whether a source makes requests to models, reads request parameters, completes its config."""

    makes_requests: bool = False
    reads_parameters: bool = False
    completes: bool = False

    @classmethod
    def of(cls, text: str) -> Source:
        """Return what a source shows; raises `SyntaxError` or `ValueError` if it is not Python."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of somebody else's string escapes
            nodes = list(ast.walk(ast.parse(text)))
        calls = [node for node in nodes if isinstance(node, ast.Call)]
        functions = (ast.FunctionDef, ast.AsyncFunctionDef)
        return cls(
            makes_requests=any(_name(call) == "InferenceRequest" for call in calls),
            reads_parameters=any(
                _name(call) == "parameters" and not call.args and not call.keywords
                for call in calls
            ),
            completes=any(
                isinstance(node, functions) and node.name == "auto_complete_config"
                for node in nodes
            ),
        )


def _name(call: ast.Call) -> str:
    """Return the last part of what is called: `InferenceRequest` of `pb_utils.InferenceRequest`."""
    called = call.func
    if isinstance(called, ast.Attribute):
        return called.attr
    return called.id if isinstance(called, ast.Name) else ""
