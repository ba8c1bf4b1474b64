"""The documents: every figure is the committed one, every link leads somewhere."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from benchmarks.report import DOCUMENT, rendered

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / name for name in ("README.md", "CHANGELOG.md", "CONTRIBUTING.md")]
PAGES += sorted((ROOT / "docs").glob("*.md"))


def test_the_tables_are_the_committed_results() -> None:
    """Else run `python -m benchmarks.report`."""
    document = DOCUMENT.read_text(encoding="utf-8")
    assert rendered(document) == document


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_somewhere(page: Path) -> None:
    """Relative ones; also the tests that a page cites as evidence."""
    text = page.read_text(encoding="utf-8")
    links = re.findall(r"\]\((?!https?://)([^)#]+)", text)
    cited = re.findall(r"\btests/[\w/]+\.py", text)
    for target in links:
        assert (page.parent / target).exists(), target
    for target in cited:
        assert (ROOT / target).exists(), target


def test_the_sections_that_the_code_cites_exist() -> None:
    """As `docs/performance.md, "The crop"`."""
    headings = re.findall(r"^## (.+)$", DOCUMENT.read_text(encoding="utf-8"), re.MULTILINE)
    for path in (ROOT / "service").rglob("*.py"):
        text = re.sub(r"\s+(# )?", " ", path.read_text(encoding="utf-8"))
        for heading in re.findall(r'docs/performance\.md, "([^"]+)"', text):
            assert heading in headings, f"{path}: {heading}"
