"""`cropseek …`: the commands, and how their errors and exit codes look.

Exit codes: 0 nothing failed, 1 something did, 2 wrong usage, 130 stopped by ctrl-C. Commands import
what is heavy inside, so that `cropseek --help` is quick.
"""

from __future__ import annotations

import io
import os
import sys
from typing import Any

import typer
from typer.core import TyperGroup

from cropseek.cli import pictures, repo, server
from cropseek.cli.failures import print_error
from cropseek.errors import CropseekError

_PIPE_CLOSED = 128 + 13  # as a shell tells of SIGPIPE
_INTERRUPTED = 128 + 2


class _Group(TyperGroup):
    """Turns what ends a command early into one line and an exit code."""

    def invoke(self, ctx: Any) -> Any:
        try:
            result = super().invoke(ctx)
            sys.stdout.flush()
        except CropseekError as error:
            print_error(error.message, error.details)
            raise typer.Exit(1) from None
        except UnicodeEncodeError as error:  # of an argument, where protobuf wants text
            if error.encoding != "utf-8":
                raise
            print_error(f"expected UTF-8, got {error.object!r}")
            raise typer.Exit(1) from None
        except FileNotFoundError:
            if _has_current_folder():
                raise
            print_error("the current folder has been deleted")
            raise typer.Exit(1) from None
        except KeyboardInterrupt:
            raise typer.Exit(_INTERRUPTED) from None
        except BrokenPipeError:
            # Else the interpreter flushes into the closed pipe once more when it ends.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            raise typer.Exit(_PIPE_CLOSED) from None
        except Exception as error:
            # Ctrl-C inside `threading` may surface as the lock error that it causes there.
            if not isinstance(error.__context__, KeyboardInterrupt):
                raise
            raise typer.Exit(_INTERRUPTED) from None
        return result


def _has_current_folder() -> bool:
    try:
        os.getcwd()
    except FileNotFoundError:
        return False
    return True


app = typer.Typer(
    cls=_Group,
    add_completion=False,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
)
app.callback()(server.cropseek)
for _command in (
    server.demo,
    server.serve,
    pictures.index,
    pictures.search,
    pictures.detect,
    pictures.embed,
    pictures.draw,
    server.doctor,
):
    app.command()(_command)
app.add_typer(repo.app, name="repo")


def main() -> None:
    """Run the command line."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):  # a file's name may hold what it cannot encode
            stream.reconfigure(errors="backslashreplace")
    app()
