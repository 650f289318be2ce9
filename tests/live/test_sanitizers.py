"""Stops at the reports of sanitizers, of programs that GCC has built with them."""

from __future__ import annotations

from typing import Any

import pytest

from pgdb.ranks import RankSet
from tests.conftest import StartJob
from tests.support.programs import Builder, Mpi, find_mpi
from tests.support.terminal import Finished, ex, foreign_code, run_json, run_pgdb

pytestmark = pytest.mark.mpi

UNDEFINED, ADDRESS = "-fsanitize=undefined", "-fsanitize=address"
NO_LEAKS = {"ASAN_OPTIONS": "detect_leaks=0"}
"""LeakSanitizer works under no debugger."""


@pytest.fixture
def openmpi() -> Mpi:
    return find_mpi("openmpi")


def reports(finished: Finished) -> list[tuple[str, int]]:
    """Return the kinds of the reports with their lines, once for each rank, in their order."""
    stops: list[dict[str, Any]] = [
        each for line in finished.of_type("stop") for each in line["classes"]
    ]
    return [
        (each["event"], each["frame"]["line"])
        for each in stops
        if each["reason"] == "sanitizer-report"
    ]


def test_equal_reports_are_one_line_and_the_ranks_go_on(openmpi: Mpi, builder: Builder) -> None:
    program = builder.build(openmpi, "sanitized.c", UNDEFINED)
    commands = ("--settle", "10", *ex("c", "c", "info breakpoints", "c"))
    line = openmpi.line(2, program, "so")
    finished = run_pgdb("launch", "--batch", *commands, *line, deadline_s=150.0)
    assert finished.status == 5, finished.out
    out = finished.out
    assert "[0-1] sanitizer report: invalid-shift-exponent <- shift (n=…) at " in out, out
    assert "[1] runtime error: shift exponent 41 is too large for 32-bit type 'int'" in out
    assert "[0-1] sanitizer report: signed-integer-overflow <- add (n=…) at " in out
    assert "No breakpoints or watchpoints." in out
    assert finished.ranks_reported("exited normally") == "0-1", out


@pytest.mark.parametrize(
    ("flags", "errors", "expected"),
    [
        ((ADDRESS,), "h", [("heap-buffer-overflow", "behind")]),
        ((ADDRESS, "-fsanitize-recover=address"), "r", [("heap-buffer-overflow", "copy")]),
        (
            (ADDRESS, UNDEFINED),
            "sh",
            [("invalid-shift-exponent", "shift"), ("heap-buffer-overflow", "behind")],
        ),
        ((UNDEFINED, "-fno-sanitize-recover"), "s", [("invalid-shift-exponent", "shift")]),
        (
            (UNDEFINED, "-fno-sanitize-recover", "-static-libubsan"),
            "s",
            [("invalid-shift-exponent", "shift")],
        ),
    ],
    ids=["address", "recover", "both", "fatal", "static"],
)
def test_each_report_stops_once(
    flags: tuple[str, ...],
    errors: str,
    expected: list[tuple[str, str]],
    openmpi: Mpi,
    builder: Builder,
) -> None:
    program = builder.build(openmpi, "sanitized.c", *flags)
    commands = ("--stop-before-death", *ex("c", "c", "c"))
    line = openmpi.line(1, program, errors)
    options = {
        "ASAN_OPTIONS": f"{NO_LEAKS['ASAN_OPTIONS']}:halt_on_error={int('r' not in errors)}",
        "UBSAN_OPTIONS": "print_summary=1",
    }
    finished = run_json("launch", *commands, *line, changes=options, deadline_s=150.0)
    assert reports(finished) == [(kind, program.line(mark)) for kind, mark in expected], (
        finished.out
    )
    assert finished.status == 5
    reasons = {e["reason"] for line in finished.of_type("stop") for e in line["classes"]}
    assert "death" not in reasons, finished.out
    assert finished.of_type("exit"), finished.out


@pytest.mark.parametrize(
    ("source", "flags", "errors", "kind", "mark"),
    [
        ("sanitized.c", (ADDRESS,), ("h",), "heap-buffer-overflow", "behind"),
        ("race.c", ("-fsanitize=thread",), (), "data race", ""),
    ],
    ids=["address", "thread"],
)
def test_reports_of_several_ranks_are_equal_but_for_addresses(
    source: str,
    flags: tuple[str, ...],
    errors: tuple[str, ...],
    kind: str,
    mark: str,
    openmpi: Mpi,
    builder: Builder,
) -> None:
    program = builder.build(openmpi, source, *flags)
    line = openmpi.line(3, program, *errors)
    finished = run_json("launch", *ex("c", "kill"), *line, changes=NO_LEAKS, deadline_s=150.0)
    found = finished.answer("continue")["classes"]
    ranks = RankSet.union(RankSet.parse(each["ranks"]) for each in found)
    assert ranks == RankSet(range(3)), finished.out
    if mark:
        assert set(reports(finished)) == {(kind, program.line(mark))}
        assert len(found) == 1, finished.out
    else:
        # Either of the two threads meets the race.
        assert {each for each, _ in reports(finished)} == {kind}


def test_reports_do_not_stop_when_that_is_off(openmpi: Mpi, builder: Builder) -> None:
    program = builder.build(openmpi, "sanitized.c", UNDEFINED)
    line = openmpi.line(1, program, "so")
    off = run_json("launch", "--no-stop-on-report", *ex("c"), *line, deadline_s=150.0)
    assert not reports(off) and off.status == 0, off.out
    commands = ex("c", "set stop-on-report off", "c", "set stop-on-report on", "restart", "c")
    again = run_json("launch", *commands, *line, deadline_s=150.0)
    shift = ("invalid-shift-exponent", program.line("shift"))
    assert reports(again) == [shift, shift], again.out
    # A new GDB stops at reports by itself. The session stays while rank 1 is attached.
    detached = ("proc 0 detach", "proc 0 reattach", "set var go = 1", "c")
    two = openmpi.line(2, program, "ws")
    new = run_json("launch", *ex("set stop-on-report off", *detached), *two, deadline_s=90.0)
    assert not reports(new) and new.of_type("exit"), new.out


def test_attached_ranks_stop_and_keep_no_breakpoint(
    mpi: Mpi, builder: Builder, start_job: StartJob
) -> None:
    program = builder.build(mpi, "sanitized.c", UNDEFINED)
    with start_job(2, program, "wsw") as job:
        commands = ex("set var go = 1", "c")
        finished = run_json("attach", *commands, job.pid, deadline_s=150.0)
        assert ("invalid-shift-exponent", program.line("shift")) in reports(finished)
        assert not [code for pid in job.ranks.values() for code in foreign_code(pid)]
