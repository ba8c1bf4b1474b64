"""The table of verdicts: a real server's on every case, beside the checker's.

python -m tests.oracle.verdicts     # asks the server again, and writes tests/golden/verdicts.json
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from cropseek.triton.check import Options, Severity, check_repository, read_repository
from tests.oracle.cases import Case, all_cases
from tests.oracle.server import Oracle, Verdict, write

GOLDEN = Path(__file__).parents[1] / "golden" / "verdicts.json"
SERVER = (2, 51)  # the wheel's


def checked(case: Case) -> tuple[list[str], list[str]]:
    """Return the codes of the errors and of the warnings that the checker finds in a case."""
    with tempfile.TemporaryDirectory() as folder:
        write(case.files, Path(folder))
        findings = check_repository(read_repository(Path(folder)), Options(SERVER))
    codes: dict[Severity, list[str]] = {Severity.ERROR: [], Severity.WARNING: []}
    for finding in findings:
        codes[finding.rule.severity].append(finding.rule.code)
    return sorted(codes[Severity.ERROR]), sorted(codes[Severity.WARNING])


def asked(cases: Sequence[Case], servers: int) -> dict[str, Verdict]:
    """Return a real server's verdict on each case, by its name."""

    def ask(share: Sequence[Case]) -> dict[str, Verdict]:
        with tempfile.TemporaryDirectory() as folder, Oracle(Path(folder)) as oracle:
            return {case.name: oracle.verdict(case) for case in share}

    with ThreadPoolExecutor(servers) as threads:
        parts = list(threads.map(ask, [cases[i::servers] for i in range(servers)]))
    found = {name: verdict for part in parts for name, verdict in part.items()}
    return {case.name: found[case.name] for case in cases}


def golden() -> dict[str, Verdict]:
    """Return the committed verdicts by the case's name."""
    rows = json.loads(GOLDEN.read_text(encoding="utf-8"))
    return {name: Verdict(row["outcome"], row["message"]) for name, row in rows.items()}


def table() -> str:
    """Return the table of docs/repo-check.md."""
    verdicts = golden()
    lines = ["| repository | the server | its words | the checker | |\n", "|---|---|---|---|---|\n"]
    for case in all_cases():
        verdict = verdicts[case.name]
        words = verdict.message.replace("|", "\\|").replace("\n", " ")
        codes = " ".join(case.rules) or "nothing"
        lines.append(f"| {case.name} | {verdict.outcome} | {words} | {codes} | {case.why} |\n")
    return "".join(lines)


def main() -> None:
    """Ask the server and write the golden file."""
    verdicts = asked(all_cases(), servers=2)
    rows = {name: {"outcome": v.outcome, "message": v.message} for name, v in verdicts.items()}
    GOLDEN.write_text(json.dumps(rows, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
