"""The status line."""

from __future__ import annotations

import pytest

from pgdb.frontend.api.job_state import JobState
from pgdb.frontend.show.text.status_text import status_line
from pgdb.ranks import RankSet


def states(**sets: str) -> JobState:
    state = JobState(RankSet(range(32)))
    for name, text in sets.items():
        setattr(state, name, RankSet.parse(text))
    return state


@pytest.mark.parametrize(
    ("state", "focus", "text"),
    [
        (states(stopped="0-31"), "0-31", " focus 0-31: 32 ranks · 32 stopped"),
        (
            states(stopped="0-2,8", running="3-7,9-30", exited="31"),
            "8",
            " focus 8: 1 of 32 ranks · 4 stopped [0-2,8] · 27 running [3-7,9-30] · 1 exited [31]",
        ),
        (
            states(lost="4", detached="5"),
            "4",
            " focus 4: 1 of 32 ranks · 1 lost [4] · 1 detached [5]",
        ),
        # A long set is only counted.
        (
            states(running="0,2,5,6,9,11,14,15,17,20,22,26"),
            "0-31",
            " focus 0-31: 32 ranks · 12 running",
        ),
    ],
)
def test_states_are_counted(state: JobState, focus: str, text: str) -> None:
    assert status_line(state, RankSet.parse(focus), 100) == text


def test_it_is_cut_to_the_terminal_and_has_a_last_word() -> None:
    state = states(stopped="0-31")
    assert status_line(state, state.ranks, 100, note="recorded").endswith("stopped · recorded")
    for width in range(3, 40):
        text = status_line(state, state.ranks, width, note="recorded")
        assert len(text) < width and text.endswith("…")
