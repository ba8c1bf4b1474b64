"""`cropseek repo …`: check, draw and build Triton model repositories, ours or anybody's."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Collection
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from cropseek.cli import options
from cropseek.errors import InvalidInput
from cropseek.text import printable

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
    typer.Option(metavar="NAME", help="Read configs/NAME.pbtxt, as --model-config-name does."),
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

    Without [bold]--profile[/bold], config.pbtxt and every profile are checked.
    [bold]# noqa: E009[/bold] at the end of a line of a configuration hides a rule there,
    [bold]# noqa-file: E009[/bold] in the whole file.
    [bold]cropseek repo explain[/bold] lists the rules.
    """
    from cropseek.triton.check import Options

    facts = Options(_version(triton_version), cores, gpus)
    findings: set[Finding] = set()
    models: set[Path] = set()
    roots = [_located(path)[0] for path in paths]
    for root in {root.resolve(): root for root in roots}.values():  # each once
        found, there = _check(root, profile, facts, as_json)
        findings |= found
        models |= there
    if not as_json:
        print(_said(findings, len(models)))
    _exit(findings, fail_on)


def _exit(findings: set[Finding], fail_on: FailOn) -> None:
    from cropseek.triton.check import Severity

    failing = {FailOn.ERROR: [Severity.ERROR], FailOn.WARNING: list(Severity), FailOn.NEVER: []}
    if any(finding.rule.severity in failing[fail_on] for finding in findings):
        raise typer.Exit(1)


def _check(
    root: Path, profile: str | None, facts: Options, as_json: bool
) -> tuple[set[Finding], set[Path]]:
    """Check a repository under one profile or all it has; report, and return findings and models.

    A finding about a file that several profiles share is told once, but in each one's JSON. Raises
    `InvalidInput` for a profile that no model has.
    """
    from cropseek.triton.check import check_repository, read_repository

    profiles = _profiles(root, profile)
    told: set[Finding] = set()
    models: set[Path] = set()
    for name in profiles:
        repository = read_repository(root, name)
        findings = check_repository(repository, facts)
        _report(
            repository, findings if as_json else [f for f in findings if f not in told], as_json
        )
        told.update(findings)
        models |= {model.folder for model in repository.models.values()}
        if len(profiles) > 1 and not as_json:
            print(f"{_said(findings, len(repository.models))}, {_title(name)}")
    return told, models


def _title(profile: str | None) -> str:
    return "config.pbtxt" if profile is None else f"profile {profile}"


@app.command()
def explain(
    code: Annotated[
        str | None,
        typer.Argument(metavar="RULE", help="A rule's code, letter or name.", show_default=False),
    ] = None,
    as_json: options.Json = False,
) -> None:
    """Say what a rule means and why it exists; all of them without a code."""
    from rich.console import Console
    from rich.text import Text

    from cropseek.triton.check import RULES

    wanted = [
        rule
        for rule in RULES.values()
        if code is None or rule.code.startswith(code.upper()) or rule.name == code
    ]
    if not wanted:
        raise typer.BadParameter(
            f"expected a rule's code, letter or name, got {code!r}; "
            "cropseek repo explain lists them"
        )
    console = Console(highlight=False)
    for rule in wanted:
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
    profile: Profile = None,
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
    """Draw the pipeline of a repository, its faults in red where they are.

    Without [bold]--profile[/bold], config.pbtxt is drawn, or else the profile cpu, or the first.
    """
    from cropseek.triton.check import check_repository, read_repository
    from cropseek.triton.draw import scene_of, to_svg

    if output is not None and output.suffix.lower() != ".svg":
        raise typer.BadParameter(f"--output: expected a .svg file, got {output}")
    root, model = _located(path)
    profiles = _profiles(root, profile)
    first = next((name for name in (None, "cpu") if name in profiles), profiles[0])
    repository = read_repository(root, first)
    if not repository.models:
        raise InvalidInput(f"{root}: {repository.findings[0].message}")
    scene = scene_of(repository, check_repository(repository), {model} if model else set())
    if output is not None:
        _write(output, to_svg(scene))
    if as_json:
        print(json.dumps(scene, default=_plain))
        return
    if output is None:
        _print_drawing(scene)
    where = f"{output}: " if output is not None else ""
    under = f", profile {scene.profile}" if scene.profile else ""
    print(f"{where}{_said(scene.findings, scene.models)}{under}")
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
    fail_on: Annotated[
        FailOn,
        typer.Option(
            help="From which severity on the exit code is 1: the models' own files may be yet "
            "to come."
        ),
    ] = FailOn.NEVER,
    as_json: options.Json = False,
) -> None:
    """Write the repository that a Python file describes, and check it.

    The file is run. docs/repo-check.md and docs/examples/text_search.py show how to write one.
    """
    from cropseek.triton.check import Options
    from cropseek.triton.draw.words import counted

    repository = _described(description)
    if output.exists() and not (output.is_dir() and (force or not any(output.iterdir()))):
        raise InvalidInput(f"{output}: expected an empty folder, or --force to write over it")
    try:
        written = repository.write(output)
    except (ValueError, TypeError, OSError) as error:  # ValueError: BuildError, ModelConfig's own
        raise InvalidInput(f"{description}: {error}") from error
    findings, models = _check(output, None, Options(), as_json)
    if not as_json:
        for folder in sorted(models - {output / model.name for model in repository.models}):
            print(f"{folder}: was there before, and is served as well")
        made = counted(len(repository.models), "model")
        print(f"{made}, {counted(len(written), 'file')} in {output}")
        print(_said(findings, len(models)))
    _exit(findings, fail_on)


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
    if not re.fullmatch(r"2\.\d+(\.\d+)?", text, re.ASCII):
        raise typer.BadParameter(
            f"--triton-version: expected Triton's own version, such as 2.51 (the container 24.10 "
            f"has it), got {text!r}"
        )
    version = tuple(int(part) for part in text.split("."))[:2]
    if version < OLDEST_KNOWN:
        oldest = ".".join(map(str, OLDEST_KNOWN))
        raise typer.BadParameter(f"--triton-version: known from {oldest} on, got {text}")
    return version


def _profiles(root: Path, profile: str | None) -> list[str | None]:
    """Return the profile asked for, or all there are; raises `InvalidInput` for one that is not."""
    from cropseek.triton.check import profiles_of

    profiles = profiles_of(root)
    if profile is None:
        return profiles
    if profile not in profiles:
        there = ", ".join(name for name in profiles if name is not None) or "none"
        raise InvalidInput(f"--profile: expected one that {root} has ({there}), got {profile!r}")
    return [profile]


def _located(path: Path) -> tuple[Path, str | None]:
    """Return the repository that a path is or lies in, and which of its models, if it is one's.

    Raises `InvalidInput` for a path that is not there, or a file that is no configuration.
    """
    try:
        model = _model_folder(path)
    except PermissionError as error:
        raise InvalidInput(f"{path}: cannot be read: {error.strerror}") from None
    return (path, None) if model is None else (model.parent, model.name)


def _model_folder(path: Path) -> Path | None:
    from cropseek.triton.check.repository import CONFIG, PROFILES

    if path.is_dir():
        absolute = path.resolve()
        is_model = (path / CONFIG).exists() or any((path / PROFILES).glob("*.pbtxt"))
        return (absolute if path.name in ("", "..") else path) if is_model else None
    if not path.exists():
        raise InvalidInput(f"{path}: expected a repository, a model folder or a config, found none")
    in_profiles = path.parent.name == PROFILES and path.suffix == ".pbtxt"
    if path.suffix == ".py":
        raise InvalidInput(f"{path}: a description is checked when built: cropseek repo build")
    if path.name != CONFIG and not in_profiles:
        raise InvalidInput(f"{path}: expected a folder, {CONFIG}, or a file of {PROFILES}/")
    folder = path.parent.parent if in_profiles else path.parent
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
            (printable(where), "bold"),
            ": ",
            (f"{finding.rule.severity.value} {finding.rule.code}", color),
            f" {printable(finding.message)}",
        )
        console.print(line, soft_wrap=True)
        if finding.remedy:
            remedy = Text(f"    {printable(finding.remedy)}", style="dim")
            console.print(remedy, soft_wrap=True)


def _said(findings: Collection[Finding], models: int) -> str:
    """Return how much was found, as `2 errors, 1 warning in 4 models`."""
    from cropseek.triton.check import Severity
    from cropseek.triton.draw.words import counted

    counts = Counter(finding.rule.severity for finding in findings)
    found = [counted(counts[what], what.value) for what in Severity if counts[what]]
    return f"{', '.join(found) or 'no faults'} in {counted(models, 'model')}"


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


def _plain(part: Any) -> dict[str, Any]:
    """Return a part of a scene as JSON has it."""
    from cropseek.triton.check import Finding

    return _finding(part) if isinstance(part, Finding) else vars(part)


def _write(path: Path, text: str) -> None:
    try:
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise InvalidInput(f"cannot write {path}: {error.strerror or error}") from None


def _print_drawing(scene: Scene) -> None:
    from rich.console import Console

    from cropseek.triton.draw import to_lines

    console = Console(highlight=False)
    for line in to_lines(scene, max(60, console.width), console.options.ascii_only):
        console.print(line, soft_wrap=True)
