"""The committed verdicts are what the wheel's tritonserver says today."""

from __future__ import annotations

import pytest

from tests.oracle.cases import all_cases
from tests.oracle.verdicts import asked, golden


@pytest.mark.timeout(600)
def test_a_real_server_says_what_the_table_says() -> None:
    said = {name: verdict.outcome for name, verdict in asked(all_cases(), servers=2).items()}
    assert said == {name: verdict.outcome for name, verdict in golden().items()}
