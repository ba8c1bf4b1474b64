"""`cropseek repo check` and `build` at the terminal: what is printed, and the exit code."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from cropseek.cli import app
from cropseek.triton.check import RULES
from cropseek.triton.config import DynamicBatching, Input
from tests.oracle.cases import chain, single, without
from tests.oracle.server import write

WARNED = single(dynamic_batching=DynamicBatching())
BROKEN = without(single(), "top/1/")


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def run(*arguments: str) -> Result:
    return CliRunner().invoke(app, ["repo", *arguments])


def test_a_sound_repository(tmp_path: Path) -> None:
    write(single(), tmp_path / "models")
    done = run("check", "models")
    assert (done.exit_code, done.stdout) == (0, "no faults in 1 model\n")


def test_an_error(tmp_path: Path) -> None:
    write(BROKEN, tmp_path / "models")
    done = run("check", "models")
    assert done.exit_code == 1
    assert done.stdout == (
        "models/top/config.pbtxt:1:1: error V001 no version folder\n"
        "    mkdir models/top/1; git keeps it only with a file in it\n"
        "1 error in 1 model\n"
    )


@pytest.mark.parametrize(
    ("fail_on", "made", "status"),
    [
        ("error", WARNED, 0),
        ("warning", WARNED, 1),
        ("never", WARNED, 0),
        ("error", BROKEN, 1),
        ("warning", BROKEN, 1),
        ("never", BROKEN, 0),
    ],
)
def test_the_exit_code_by_severity(
    tmp_path: Path, fail_on: str, made: dict[str, str], status: int
) -> None:
    write(made, tmp_path / "models")
    assert run("check", "models", "--fail-on", fail_on).exit_code == status


def test_json(tmp_path: Path) -> None:
    write(BROKEN, tmp_path / "models")
    (line,) = run("check", "models", "--json").stdout.splitlines()
    assert json.loads(line) == {
        "repository": "models",
        "profile": None,
        "models": ["top"],
        "findings": [
            {
                "code": "V001",
                "name": "no-version",
                "severity": "error",
                "model": "top",
                "file": "models/top/config.pbtxt",
                "line": 1,
                "column": 1,
                "message": "no version folder",
                "remedy": "mkdir models/top/1; git keeps it only with a file in it",
            }
        ],
    }


@pytest.mark.parametrize("path", ["models/a", "models/a/config.pbtxt"])
def test_of_a_model_or_its_file_the_whole_repository_is_checked(tmp_path: Path, path: str) -> None:
    wide = {"input": (Input("X", "TYPE_FP32", dims=(5,)),)}
    write(chain(a=wide), tmp_path / "models")
    done = run("check", path)
    assert done.exit_code == 1
    assert "models/top/config.pbtxt" in done.stdout
    assert "E010" in done.stdout


def test_files_of_one_repository_are_one_check(tmp_path: Path) -> None:
    write(chain(), tmp_path / "models")
    files = [f"models/{name}/config.pbtxt" for name in ("a", "b", "top")]
    assert len(run("check", *files, "--json").stdout.splitlines()) == 1


def test_a_profile_s_file_is_of_its_model(tmp_path: Path) -> None:
    made = dict(BROKEN)
    body = made.pop("top/config.pbtxt")
    write(made | {"top/configs/gpu.pbtxt": body}, tmp_path / "models")
    assert "V001" in run("check", "models/top/configs/gpu.pbtxt").stdout


def test_the_repository_that_one_stands_in(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(single(), tmp_path / "models")
    monkeypatch.chdir(tmp_path / "models")
    assert run("check", ".").stdout == "no faults in 1 model\n"
    monkeypatch.chdir(tmp_path / "models" / "top")
    assert run("check", ".").stdout == "no faults in 1 model\n"


def test_what_each_profile_has_is_said(tmp_path: Path) -> None:
    made = single()
    broken = made["top/config.pbtxt"] + "x: 1\n"
    write(made | {"top/configs/gpu.pbtxt": broken}, tmp_path / "models")
    assert run("check", "models").stdout.splitlines() == [
        "no faults in 1 model, config.pbtxt",
        "models/top/configs/gpu.pbtxt:13:1: error S002 ModelConfig has no field 'x'",
        *run("check", "models", "--profile", "gpu").stdout.splitlines()[1:2],
        "1 error in 1 model, profile gpu",
        "1 error in 1 model",
    ]


def test_what_profiles_share_is_told_once(tmp_path: Path) -> None:
    config = BROKEN["top/config.pbtxt"]
    good = single()
    made = {name.replace("top/", "other/"): body for name, body in good.items()}
    made["other/config.pbtxt"] = made["other/config.pbtxt"].replace('"top"', '"other"')
    made |= {f"other/configs/{name}.pbtxt": made["other/config.pbtxt"] for name in ("a", "b")}
    write(made | {"top/config.pbtxt": config}, tmp_path / "models")
    done = run("check", "models")
    assert done.stdout.count("V001") == 1
    assert done.stdout.endswith("1 error in 2 models\n")


@pytest.mark.parametrize("path", ["nowhere", "notes.txt", "other.pbtxt"])
def test_a_path_that_is_neither(tmp_path: Path, path: str) -> None:
    for name in ("notes.txt", "other.pbtxt"):
        (tmp_path / name).write_text("x", encoding="utf-8")
    done = run("check", path)
    assert done.exit_code == 1
    assert done.stderr.count("\n") == 1
    assert path in done.stderr


@pytest.mark.parametrize("version", ["2.x", "24.10", "2.५१"])
def test_a_version_that_is_none(version: str) -> None:
    assert run("check", ".", "--triton-version", version).exit_code == 2


def test_a_profile_that_no_model_has(tmp_path: Path) -> None:
    made = single()
    write(made | {"top/configs/gpu.pbtxt": made["top/config.pbtxt"]}, tmp_path / "models")
    assert run("check", "models", "--profile", "gpu").exit_code == 0
    done = run("check", "models", "--profile", "gpuu")
    assert done.exit_code == 1
    assert "expected one that models has (gpu), got 'gpuu'" in done.stderr


def test_names_that_would_order_the_terminal_about(tmp_path: Path) -> None:
    write({"red \x1b[31m/1/x": "", "red \x1b[31m/config.pbtxt": "[red]x[/red]: 1"}, tmp_path / "m")
    done = run("check", "m")
    assert done.exit_code == 1
    assert "\x1b" not in done.stdout
    assert r"m/red \x1b[31m/config.pbtxt:1:1" in done.stdout


def test_a_version_of_which_nothing_is_known() -> None:
    assert run("check", ".", "--triton-version", "2.20").exit_code == 2


def test_explaining_one_rule() -> None:
    done = run("explain", "e002")
    assert done.exit_code == 0
    assert " ".join(done.stdout.split()) == f"E002 unknown-input, error: {RULES['E002'].why}"


def test_explaining_a_topic_or_a_name() -> None:
    topic = [json.loads(line)["code"] for line in run("explain", "B", "--json").stdout.splitlines()]
    assert topic == [code for code in RULES if code.startswith("B")]
    assert run("explain", "cycle").stdout.startswith("E011 cycle")


def test_explaining_every_rule() -> None:
    lines = run("explain", "--json").stdout.splitlines()
    assert [json.loads(line)["code"] for line in lines] == list(RULES)


def test_a_rule_that_is_none() -> None:
    done = run("explain", "E999")
    assert done.exit_code == 2
    assert "cropseek repo explain lists them" in " ".join(done.stderr.replace("│", " ").split())


DESCRIPTION = """
from cropseek.triton.build import Repository, model, tensor
one = model("one", "python", inputs=[tensor("X", "FP32", 1)], outputs=[tensor("Y", "FP32", 1)],
            files={"1/model.py": "pass"})
repository = Repository([one])
"""


def test_building(tmp_path: Path) -> None:
    (tmp_path / "d.py").write_text(DESCRIPTION, encoding="utf-8")
    done = run("build", "d.py", "-o", "models")
    assert done.exit_code == 0
    assert done.stdout == "1 model, 2 files in models\nno faults in 1 model\n"
    assert (tmp_path / "models" / "one" / "config.pbtxt").is_file()


def test_models_that_are_left_over_are_told(tmp_path: Path) -> None:
    (tmp_path / "d.py").write_text(DESCRIPTION, encoding="utf-8")
    write(single(), tmp_path / "models")
    done = run("build", "d.py", "-o", "models", "--force")
    assert "models/top: was there before, and is served as well" in done.stdout


def test_building_over_what_is_there_takes_force(tmp_path: Path) -> None:
    (tmp_path / "d.py").write_text(DESCRIPTION, encoding="utf-8")
    write({"mine.txt": ""}, tmp_path / "models")
    done = run("build", "d.py", "-o", "models")
    assert done.exit_code == 1
    assert "--force" in done.stderr
    assert run("build", "d.py", "-o", "models", "--force").exit_code == 0
    assert (tmp_path / "models" / "mine.txt").is_file()


def test_what_building_finds_fails_it_if_asked_to(tmp_path: Path) -> None:
    lacking = DESCRIPTION.replace('files={"1/model.py": "pass"}', "files={}")
    (tmp_path / "d.py").write_text(lacking, encoding="utf-8")
    assert run("build", "d.py", "-o", "models").exit_code == 0
    assert run("build", "d.py", "-o", "models", "--force", "--fail-on", "error").exit_code == 1


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ("x = 1", "expected a variable `repository`"),
        ("def f(:", "d.py:1: SyntaxError"),
        ("x = 1\nraise RuntimeError('no')", "d.py:2: RuntimeError: no"),
    ],
)
def test_a_description_that_is_none(tmp_path: Path, source: str, message: str) -> None:
    (tmp_path / "d.py").write_text(source, encoding="utf-8")
    done = run("build", "d.py", "-o", "models")
    assert done.exit_code == 1
    assert message in done.stderr
    assert not (tmp_path / "models").exists()
