"""Texts that are to be drawn: shortened, printable, counted."""

from __future__ import annotations

import re

from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len

from cropseek.triton.draw.words import counted, shortened


@given(st.text(), st.integers(-3, 40))
def test_a_shortened_text_fits_and_is_printable(text: str, limit: int) -> None:
    short = shortened(text, limit)
    assert cell_len(short) <= max(limit, 1)
    assert not re.search(r"[\x00-\x1f\x7f-\x9f]", short)


def test_the_middle_is_what_is_left_out() -> None:
    assert shortened("abcdefghij", 10) == "abcdefghij"
    assert shortened("abcdefghij", 7) == "abc…hij"
    assert shortened("abcdefghij", 1) == "…"


def test_things_are_counted() -> None:
    assert [counted(count, "model") for count in range(3)] == ["0 models", "1 model", "2 models"]
