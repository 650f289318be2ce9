"""Durations as users write them."""

from __future__ import annotations

import pytest

from pgdb.errors import UsageError
from pgdb.frontend.system.durations import duration


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("300", 300), ("300s", 300), ("10m", 600), ("1.5h", 5400), ("01:30:00", 5400), ("1d", 86400)],
)
def test_durations(text: str, seconds: float) -> None:
    assert duration("--hang-after", text) == seconds


@pytest.mark.parametrize("text", ["", "soon", "-3s", "0", "nan", "inf", "3 weeks"])
def test_what_is_no_duration(text: str) -> None:
    with pytest.raises(UsageError, match="--hang-after"):
        duration("--hang-after", text)
