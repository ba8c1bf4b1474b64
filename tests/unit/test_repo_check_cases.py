"""The checker on every generated repository, against what a real server said of it."""

from __future__ import annotations

from pathlib import Path

import pytest

from cropseek.triton.check import RULES
from tests.oracle.cases import Case, all_cases
from tests.oracle.page import DOCUMENT, rendered
from tests.oracle.verdicts import checked, golden

CASES = all_cases()
VERDICTS = golden()
COMMON = {"D005", "D006"}  # warnings of every small pipeline; test_repo_check.py has theirs
# What a Python model on a CPU cannot show: DALI, ONNX, file systems, machines, unasked options.
ELSEWHERE = {"D005", "D006", "D007", "D009", "D010", "D013", "E015", "R001", "R002", "R005", "R006"}
ELSEWHERE |= {"S006", "X001", "O001", "O002", "O003", "O004", "R003", "M001", "B002", "V004"}


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_the_checker_finds_what_is_wrong_and_nothing_else(case: Case) -> None:
    errors, warnings = checked(case)
    assert errors == list(case.rules)
    assert [code for code in warnings if code not in COMMON] == list(case.warnings)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_a_verdict_that_is_not_the_servers_is_explained(case: Case) -> None:
    differs = bool(case.rules) != (VERDICTS[case.name].outcome != "answers")
    assert differs == bool(case.why)
    if differs:
        assert case.why.startswith("stricter" if case.rules else "laxer")


def test_every_case_has_a_verdict_and_none_is_left_over() -> None:
    assert [case.name for case in CASES] == list(VERDICTS)


def test_half_of_the_cases_are_broken() -> None:
    broken = [case for case in CASES if VERDICTS[case.name].outcome != "answers"]
    assert len(CASES) >= 60
    assert len(broken) >= len(CASES) // 2
    assert len({code for case in CASES for code in case.rules}) >= 20


def test_every_rule_has_a_case_or_a_test_elsewhere() -> None:
    found = {code for case in CASES for code in (*case.rules, *case.warnings)}
    assert found | ELSEWHERE == set(RULES)
    tested = (Path(__file__).parent / "test_repo_check.py").read_text(encoding="utf-8")
    assert {code for code in ELSEWHERE if f'"{code}"' not in tested} == set()


def test_the_page_of_rules_is_what_is_rendered() -> None:
    document = DOCUMENT.read_text(encoding="utf-8")
    assert rendered(document) == document, "python -m tests.oracle.page"
