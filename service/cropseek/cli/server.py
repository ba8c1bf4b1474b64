"""The commands around a server: `serve`, `doctor` and `demo`; and the text of `cropseek --help`."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter
from typing import Annotated

import typer

from cropseek import __version__
from cropseek.cli import options


def _print_version(wanted: bool) -> None:
    if wanted:
        print(f"cropseek {__version__}")
        raise typer.Exit


def cropseek(
    version: Annotated[
        bool,
        typer.Option(
            "--version", callback=_print_version, is_eager=True, help="Print the version."
        ),
    ] = False,
) -> None:
    """Find things in pictures: detect the objects, embed each, search for its look-alikes.

    Start with [bold]cropseek demo[/bold]. Commands on pictures talk to a running
    [bold]cropseek serve[/bold], or take [bold]--local[/bold].
    """


def serve(
    host: Annotated[
        str | None,
        typer.Option(help="Address to listen on.  [dim]\\[default: 127.0.0.1][/dim]"),
    ] = None,
    port: Annotated[
        int | None,
        typer.Option(min=0, max=65535, help="Its port, 0 for any.  [dim]\\[default: 50051][/dim]"),
    ] = None,
    data_dir: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR",
            help=f"Where the catalog is kept.  [dim]\\[default: {options.DEFAULT_DATA_DIR}][/dim]",
        ),
    ] = None,
    json: options.Json = False,
) -> None:
    """Run the server until ctrl-C or SIGTERM.

    Each option can also be set in the environment, as CROPSEEK_PORT.
    """
    from cropseek.cli import show
    from cropseek.cli.connect import make_settings
    from cropseek.cli.failures import stderr
    from cropseek.rpc.server import serve as run_server

    settings = make_settings(host=host, port=port, data_dir=data_dir)
    if stderr.is_terminal:
        stderr.print("starting Triton and its models, a few seconds …")
    run_server(
        settings,
        on_ready=lambda running: show.print_serving(
            running.target, settings.data_dir, as_json=json
        ),
    )


def doctor(json: options.Json = False) -> None:
    """Check that this machine has what the server needs, and say what to do if not."""
    from cropseek.cli import show
    from cropseek.cli.connect import make_settings
    from cropseek.triton.machine import check_machine

    checks = check_machine(make_settings())
    show.print_checks(checks, as_json=json)
    if not all(check.ok for check in checks):
        raise typer.Exit(1)


def demo(
    output: Annotated[
        Path, typer.Option("--output", "-o", metavar="DIR", help="Where the page is written.")
    ] = Path("demo"),
    server: Annotated[
        str | None,
        typer.Option(metavar="HOST:PORT", help="A running server, in place of an embedded one."),
    ] = None,
    json: options.Json = False,
) -> None:
    """Index frames of a real video, search by a later one, and write a page of what was found.

    Starts an embedded server with its own temporary data. With [bold]--server[/bold] it fills
    the collection "demo" of that one.
    """
    from cropseek.cli import show
    from cropseek.cli.connect import Where, connected
    from cropseek.cli.failures import working
    from cropseek.demo import run_demo, write_demo

    began = perf_counter()
    with TemporaryDirectory(prefix="cropseek-demo-") as data_dir:
        where = Where(server, Path(data_dir))
        with connected(where) as client, working("indexing and searching …"):
            ready_s = perf_counter() - began
            result = run_demo(client)
    page = write_demo(result, output)
    show.print_demo(result, page, ready_s, perf_counter() - began, as_json=json)
