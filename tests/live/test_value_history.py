"""Values of GDB's history on ranks that have printed different things."""

from __future__ import annotations

import pytest

from tests.conftest import Build
from tests.support.programs import Mpi
from tests.support.shown_answers import shown
from tests.support.terminal import ex, run_pgdb

pytestmark = [pytest.mark.mpi, pytest.mark.any_mpi]


def test_histories_of_different_length(mpi: Mpi, build: Build) -> None:
    lines = (
        "print 10",
        "print $1 + 1",
        "proc 0 print 30",
        "print $$ + 1",
        "print $",
        "proc 1-2 print $$",
        "show values",
        *(f"print {n}" for n in range(100, 108)),
        "show val",
    )
    finished = run_pgdb("launch", "--batch", *ex(*lines), *mpi.line(3, build("again.c")))
    out = finished.out
    assert shown(out, "print $1 + 1") == ["[0-2] $1 + 1 = 11"]
    note = (
        "note: $N is the value of another print on some ranks, since each rank counts its own "
        "values: "
    )
    assert f"{note}2 on [1-2], 3 on [0]\n" in out
    assert out.count(note) == 1, "not for '$', nor for ranks with equal histories"
    assert any("12" in line for line in shown(out, "print $"))
    # The fourth value is there on all ranks, and on each it is another one.
    values = shown(out, "show values")
    assert values[:3] == ["[0-2]", "$1 = 10", "$2 = 11"]
    assert any(
        "$3" in line and "[0]" in line + values[i + 1] for i, line in enumerate(values[3:], 3)
    )
    last = shown(out, "show val")
    assert last[1].startswith("$4 = "), last
