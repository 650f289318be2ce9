"""Displays have one number for the whole job, whatever each rank's GDB has displayed before."""

from __future__ import annotations

import pytest

from tests.conftest import Build
from tests.support.programs import Mpi
from tests.support.terminal import Finished, ex, run_json

pytestmark = [pytest.mark.mpi, pytest.mark.any_mpi]


def texts(finished: Finished, command: str) -> dict[str, str]:
    """Return the text of each class in the last answer to a command."""
    found = finished.answers(command)[-1]["classes"]
    return {each["ranks"]: each["text"] for each in found}


def test_a_display_has_the_same_number_on_all_ranks(mpi: Mpi, build: Build) -> None:
    finished = run_json(
        "launch",
        *ex("break work", "continue", "proc 1 display rank + 40", "display round"),
        *ex("proc 0 up", "display nosuch", "display 7", "undisplay 2", "info display"),
        *ex("undisplay 3", "undisplay 99", "define more", "display 8", "end", "more"),
        *ex("display 9", "kill"),
        *mpi.line(2, build("bodies.c")),
    )
    assert texts(finished, "display round") == {"0-1": "2: round = 0"}
    assert texts(finished, "display 7") == {"0-1": "3: 7 = 7"}, "none has taken number 3"
    assert texts(finished, "undisplay 2") == {"0-1": ""}
    assert texts(finished, "undisplay 3") == {"0-1": ""}
    assert texts(finished, "undisplay 99") == {"0-1": "No display number 99."}
    assert texts(finished, "display 9") == {"0-1": "5: 9 = 9"}, "a body has made number 4"


def test_a_display_that_only_some_ranks_have_is_removed_on_these(mpi: Mpi, build: Build) -> None:
    finished = run_json(
        "launch",
        *ex("break work", "continue", "proc 1 display rank + 40", "display round"),
        *ex("undisplay 1", "info display", "kill"),
        *mpi.line(2, build("bodies.c")),
    )
    assert list(texts(finished, "undisplay 1")) == ["1"]
    (left,) = texts(finished, "info display").values()
    assert "2:   y  round" in left
    assert "1:" not in left


def test_a_disabled_display_is_disabled_after_a_restart(mpi: Mpi, build: Build) -> None:
    finished = run_json(
        "launch",
        *ex("break work", "continue", "display rank", "display round", "disable display"),
        *ex("restart", "continue", "info display", "kill"),
        *mpi.line(2, build("bodies.c")),
    )
    (left,) = texts(finished, "info display").values()
    assert "1:   n  rank" in left
    assert "2:   n  round" in left
