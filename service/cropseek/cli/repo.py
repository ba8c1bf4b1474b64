"""`cropseek repo …`: check, draw and build Triton model repositories, ours or anybody's."""

from __future__ import annotations

import json
import re
from collections import Counter
from dataclasses import asdict
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from cropseek.cli import options
from cropseek.errors import InvalidInput

if TYPE_CHECKING:
    from cropseek.triton.check import Finding, Options, Repository
    from cropseek.triton.draw import Scene

app = typer.Typer(no_args_is_help=True, rich_markup_mode="rich")


@app.callback()
def repo() -> None:
    """Check, draw and build Triton model repositories, ours or anybody's."""


class FailOn(str, Enum):
    """`--fail-on`: from which severity on the exit code is 1."""

    ERROR = "error"
    WARNING = "warning"
    NEVER = "never"


Repositories = Annotated[
    list[Path],
    typer.Argument(
        metavar="PATH",
        help="Repositories (folders of model folders), model folders, or their config files.",
        show_default=False,
    ),
]
Profile = Annotated[
    str | None,
    typer.Option(
        metavar="NAME",
        help="Read configs/NAME.pbtxt, as --model-config-name does.  "
        "[dim]\\[default: config.pbtxt, and every profile there is][/dim]",
    ),
]
TritonVersion = Annotated[
    str | None,
    typer.Option(
        metavar="X.Y",
        help="Report fields that a server of this version, 2.51 or newer, does not know yet.",
    ),
]
Cores = Annotated[
    int | None, typer.Option(min=1, metavar="N", help="Report more CPU instances than cores.")
]
Gpus = Annotated[
    int | None, typer.Option(min=0, metavar="N", help="Report instances on GPUs beyond these.")
]


@app.command()
def check(
    paths: Repositories,
    profile: Profile = None,
    triton_version: TritonVersion = None,
    cores: Cores = None,
    gpus: Gpus = None,
    fail_on: Annotated[
        FailOn, typer.Option(help="From which severity on the exit code is 1.")
    ] = FailOn.ERROR,
    as_json: options.Json = False,
) -> None:
    """Find what a server would refuse, or fail at later, before one is started.

    [bold]# noqa: E009[/bold] at the end of a line of a configuration hides a rule there,
    [bold]# noqa-file: E009[/bold] in the whole file.
    [bold]cropseek repo explain[/bold] lists the rules.
    """
    from cropseek.triton.check import Options, Severity

    facts = Options(_version(triton_version), cores, gpus)
    findings: set[Finding] = set()
    models: set[Path] = set()
    for root, only in _repositories(paths).items():
        found, there = _check(root, only, profile, facts, as_json)
        findings |= found
        models |= there
    if not as_json:
        _summary(findings, len(models))
    failing = {FailOn.ERROR: [Severity.ERROR], FailOn.WARNING: list(Severity), FailOn.NEVER: []}
    if any(finding.rule.severity in failing[fail_on] for finding in findings):
        raise typer.Exit(1)


def _check(
    root: Path, only: set[str], profile: str | None, facts: Options, as_json: bool
) -> tuple[set[Finding], set[Path]]:
    """Check a repository under one profile or all it has; report, and return findings and models.

    A finding about a file that several profiles share is told once, but in each one's JSON.
    """
    from cropseek.triton.check import check_repository, profiles_of, read_repository

    told: set[Finding] = set()
    models: set[Path] = set()
    for name in [profile] if profile is not None else profiles_of(root):
        repository = read_repository(root, name)
        findings = [
            finding
            for finding in check_repository(repository, facts)
            if not only or finding.model in only
        ]
        _report(
            repository, findings if as_json else [f for f in findings if f not in told], as_json
        )
        told.update(findings)
        models |= {model.folder for model in repository.models.values()}
    return told, models


@app.command()
def explain(
    code: Annotated[
        str | None, typer.Argument(metavar="CODE", help="A rule's code.", show_default=False)
    ] = None,
    as_json: options.Json = False,
) -> None:
    """Say what a rule means and why it exists; all of them without a code."""
    from rich.console import Console
    from rich.text import Text

    from cropseek.triton.check import RULES

    if code is not None and code.upper() not in RULES:
        raise typer.BadParameter(f"expected a rule's code ({', '.join(RULES)}), got {code!r}")
    console = Console(highlight=False)
    for rule in RULES.values() if code is None else [RULES[code.upper()]]:
        if as_json:
            print(json.dumps(_rule(rule) | {"why": rule.why}))
        else:
            title = Text.assemble((rule.code, "bold"), f" {rule.name}, {rule.severity.value}: ")
            console.print(title + Text(rule.why))


@app.command()
def draw(
    path: Annotated[
        Path,
        typer.Argument(
            metavar="PATH",
            help="A repository, or the folder of one model: it and what it uses.",
            show_default=False,
        ),
    ],
    profile: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="Read configs/NAME.pbtxt, as --model-config-name does.  "
            "[dim]\\[default: config.pbtxt, else the first profile][/dim]",
        ),
    ] = None,
    output: Annotated[
        Path | None,
        typer.Option(
            "--output",
            "-o",
            metavar="FILE.svg",
            help="Write an SVG.  [dim]\\[default: draw in the terminal][/dim]",
        ),
    ] = None,
    as_json: options.Json = False,
) -> None:
    """Draw the pipeline of a repository, its faults in red where they are."""
    from cropseek.triton.check import check_repository, profiles_of, read_repository
    from cropseek.triton.draw import scene_of, to_svg

    if output is not None and output.suffix.lower() != ".svg":
        raise typer.BadParameter(f"--output: expected a .svg file, got {output}")
    [(root, only)] = _repositories([path]).items()
    profiles = [profile] if profile is not None else profiles_of(root)
    repository = read_repository(root, None if None in profiles else profiles[0])
    scene = scene_of(repository, check_repository(repository), only)
    if output is not None:
        _write(output, to_svg(scene))
    if as_json:
        print(json.dumps(asdict(scene)))
        return
    if output is None:
        _print_drawing(scene)
    where = f"{output}: " if output is not None else ""
    said = _said(scene.count("error"), scene.count("warning"))
    under = f", profile {scene.profile}" if scene.profile else ""
    print(f"{where}{said} in {_number(scene.models, 'model')}{under}")
    others = [name for name in profiles if name not in (None, scene.profile)]
    if others:
        print(f"other profiles: {', '.join(map(str, others))} (--profile)")


@app.command()
def build(
    description: Annotated[
        Path,
        typer.Argument(
            metavar="FILE.py",
            help="A Python file whose variable [bold]repository[/bold] is a Repository.",
            show_default=False,
        ),
    ],
    output: Annotated[
        Path, typer.Option("-o", "--output", metavar="DIR", help="Where to write it.")
    ],
    force: Annotated[
        bool, typer.Option("--force", help="Write over what is in DIR already.")
    ] = False,
    as_json: options.Json = False,
) -> None:
    """Write the repository that a Python file describes, and check it.

    The file is run. How to write one: [bold]pydoc cropseek.triton.build[/bold]. What the check
    finds does not change the exit code: files that others bring may be missing.
    """
    from cropseek.triton.check import Options

    repository = _described(description)
    if output.exists() and not (output.is_dir() and (force or not any(output.iterdir()))):
        raise InvalidInput(f"{output}: expected an empty folder, or --force to write over it")
    written = repository.write(output)
    findings, models = _check(output, set(), None, Options(), as_json)
    if not as_json:
        made = _number(len(repository.models), "model")
        print(f"{made}, {_number(len(written), 'file')} in {output}")
        _summary(findings, len(models))


def _described(description: Path) -> Any:
    """Return the repository that a file describes; raises `InvalidInput` if it does not."""
    import runpy

    from cropseek.triton.build import Repository

    if not description.is_file():
        raise InvalidInput(f"{description}: expected a Python file, found none")
    try:
        found = runpy.run_path(str(description)).get("repository")
    except Exception as error:  # whatever the file does
        line = _line_of(description, error)
        raise InvalidInput(f"{description}{line}: {type(error).__name__}: {error}") from error
    if not isinstance(found, Repository):
        raise InvalidInput(
            f"{description}: expected a variable `repository` that is a Repository, "
            f"got {type(found).__name__}"
        )
    return found


def _line_of(description: Path, error: Exception) -> str:
    """Return where in a file an error was raised, as `:12`; nothing if it was not there."""
    lines = []
    trace = error.__traceback__
    while trace is not None:
        if trace.tb_frame.f_code.co_filename == str(description):
            lines.append(trace.tb_lineno)
        trace = trace.tb_next
    if isinstance(error, SyntaxError) and error.lineno:
        lines.append(error.lineno)
    return f":{lines[-1]}" if lines else ""


def _version(text: str | None) -> tuple[int, ...] | None:
    from cropseek.triton.check.versions import OLDEST_KNOWN

    if text is None:
        return None
    if not re.fullmatch(r"\d+\.\d+(\.\d+)?", text):
        raise typer.BadParameter(f"--triton-version: expected a version like 2.51, got {text!r}")
    version = tuple(int(part) for part in text.split("."))[:2]
    if version < OLDEST_KNOWN:
        oldest = ".".join(map(str, OLDEST_KNOWN))
        raise typer.BadParameter(f"--triton-version: known from {oldest} on, got {text}")
    return version


def _repositories(paths: list[Path]) -> dict[Path, set[str]]:
    """Return each repository with the models asked for, none meaning all.

    Raises `InvalidInput` for a path that is not there, or a file that is no configuration.
    """
    found: dict[Path, set[str]] = {}
    whole: set[Path] = set()
    for path in paths:
        model = _model_folder(path)
        if model is None:
            whole.add(path)
            found.setdefault(path, set())
        else:
            found.setdefault(model.parent, set()).add(model.name)
    return {root: set() if root in whole else only for root, only in found.items()}


def _model_folder(path: Path) -> Path | None:
    """Return the model's folder that a path is or lies in; None if it is a repository."""
    from cropseek.triton.check.repository import CONFIG, PROFILES

    if path.is_dir():
        absolute = path.resolve()
        is_model = (path / CONFIG).exists() or (path / PROFILES).is_dir()
        return (absolute if path.name in ("", "..") else path) if is_model else None
    if not path.exists():
        raise InvalidInput(f"{path}: expected a repository, a model folder or a config, found none")
    if path.suffix != ".pbtxt":
        raise InvalidInput(f"{path}: expected a folder or a .pbtxt file")
    folder = path.parent.parent if path.parent.name == PROFILES else path.parent
    return folder if folder.name else folder.resolve()


def _report(repository: Repository, findings: list[Finding], as_json: bool) -> None:
    if as_json:
        document = {
            "repository": str(repository.root),
            "profile": repository.profile,
            "models": sorted(repository.models),
            "findings": [_finding(finding) for finding in findings],
        }
        print(json.dumps(document))
        return
    from rich.console import Console
    from rich.text import Text

    from cropseek.triton.check import Severity

    console = Console(highlight=False)
    for finding in findings:
        color = "red" if finding.rule.severity is Severity.ERROR else "yellow"
        where = f"{_shown(finding.file)}:{finding.place.line}:{finding.place.column}"
        line = Text.assemble(
            (where, "bold"), ": ", (finding.rule.code, color), f" {finding.message}"
        )
        console.print(line, soft_wrap=True)
        if finding.remedy:
            console.print(Text(f"    {finding.remedy}", style="dim"), soft_wrap=True)


def _summary(findings: set[Finding], models: int) -> None:
    counts = Counter(finding.rule.severity.value for finding in findings)
    print(f"{_said(counts['error'], counts['warning'])} in {_number(models, 'model')}")


def _said(errors: int, warnings: int) -> str:
    counts = ((errors, "error"), (warnings, "warning"))
    return ", ".join(_number(count, what) for count, what in counts if count) or "nothing found"


def _number(count: int, what: str) -> str:
    return f"{count} {what}" if count == 1 else f"{count} {what}s"


def _shown(path: Path) -> Path:
    absolute = path.absolute()
    return absolute.relative_to(Path.cwd()) if absolute.is_relative_to(Path.cwd()) else path


def _rule(rule: Any) -> dict[str, Any]:
    return {"code": rule.code, "name": rule.name, "severity": rule.severity.value}


def _finding(finding: Finding) -> dict[str, Any]:
    return _rule(finding.rule) | {
        "model": finding.model,
        "file": str(finding.file),
        "line": finding.place.line,
        "column": finding.place.column,
        "message": finding.message,
        "remedy": finding.remedy,
    }


def _write(path: Path, text: str) -> None:
    try:
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise InvalidInput(f"cannot write {path}: {error.strerror or error}") from None


def _print_drawing(scene: Scene) -> None:
    from rich.console import Console

    from cropseek.triton.draw import to_lines

    console = Console(highlight=False)
    for line in to_lines(scene, ascii_only=console.options.ascii_only):
        console.print(line, soft_wrap=True)
