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
    from cropseek.triton.check import Finding, Repository
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
        metavar="X.Y", help="Report fields that a server of this version does not know yet."
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
    from cropseek.triton.check import Options, Severity, check_repository, read_repository

    facts = Options(_version(triton_version), cores, gpus)
    counts: Counter[Severity] = Counter()
    models: set[Path] = set()
    for root, only in _repositories(paths).items():
        for name in [profile] if profile is not None else _profiles(root):
            repository = read_repository(root, name)
            findings = [
                finding
                for finding in check_repository(repository, facts)
                if not only or finding.model in only
            ]
            counts.update(finding.rule.severity for finding in findings)
            models |= {model.folder for model in repository.models.values()}
            _report(repository, findings, as_json)
    if not as_json:
        _summary(counts, len(models))
    failing = {FailOn.ERROR: [Severity.ERROR], FailOn.WARNING: list(Severity), FailOn.NEVER: []}
    if any(counts[severity] for severity in failing[fail_on]):
        raise typer.Exit(1)


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
    from cropseek.triton.check import check_repository, read_repository
    from cropseek.triton.draw import scene_of, to_svg

    if output is not None and output.suffix.lower() != ".svg":
        raise typer.BadParameter(f"--output: expected a .svg file, got {output}")
    [(root, only)] = _repositories([path]).items()
    profiles = [profile] if profile is not None else _profiles(root)
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

    The file is run. How to write one: [bold]pydoc cropseek.triton.build[/bold].
    """
    from cropseek.triton.check import check_repository, read_repository

    repository = _described(description)
    if output.exists() and not (output.is_dir() and (force or not any(output.iterdir()))):
        raise InvalidInput(f"{output}: expected an empty folder, or --force to write over it")
    written = repository.write(output)
    made = read_repository(output)
    findings = check_repository(made)
    _report(made, findings, as_json)
    if not as_json:
        models = _number(len(repository.models), "model")
        print(f"{models}, {_number(len(written), 'file')} in {output}")
        _summary(Counter(finding.rule.severity for finding in findings), len(made.models))


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
    if text is None:
        return None
    if not re.fullmatch(r"\d+\.\d+(\.\d+)?", text):
        raise typer.BadParameter(f"--triton-version: expected a version like 2.51, got {text!r}")
    return tuple(int(part) for part in text.split("."))[:2]


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


def _profiles(root: Path) -> list[str | None]:
    from cropseek.triton.check import profiles_of

    return profiles_of(root)


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


def _summary(counts: Counter[Any], models: int) -> None:
    from cropseek.triton.check import Severity

    said = _said(counts[Severity.ERROR], counts[Severity.WARNING])
    print(f"{said} in {_number(models, 'model')}")


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
