"""Values that functions returned, and that watchpoints saw change, on real ranks: in full."""

from __future__ import annotations

import platform
import re
from typing import Any

import pytest

from tests.conftest import Build
from tests.support.programs import Mpi
from tests.support.terminal import ex, run_json, run_pgdb

pytestmark = [pytest.mark.mpi, pytest.mark.any_mpi]

RETURNED = {
    "vector_of": ("[999]", "[0-1] 2", "[2] 9"),
    "text_of": ("", "[0-1] value returned: …", "[2] value returned: …"),
    "field_of": (".values[900]", "[0-1] 900", "[2] -1"),
    "reference_of": (".values[900]", "[0-1] 0", "[2] 1"),
    "map_of": ("[299]", '[0-1] "v"', '[2] "w"'),
    "characters_of": ("", "[0-1] value returned: …", "[2] value returned: …"),
}
"""The place at which what a function returned differs, and the texts there."""


def squeezed(text: str) -> list[str]:
    return [re.sub(r" +", " ", line.strip()) for line in text.splitlines()]


def outputs(out: str, word: str) -> list[list[str]]:
    """Return the output of each command *word*, in order."""
    parts = re.split(r"^\(pgdb [\d,-]+\) (.*)\n", out, flags=re.M)[1:]
    return [
        squeezed(text) for line, text in zip(parts[::2], parts[1::2], strict=True) if line == word
    ]


@pytest.mark.parametrize("limits", [(), ("set print elements 10",)], ids=["usual", "small"])
def test_returned_values_are_compared_in_full(
    mpi: Mpi, build: Build, limits: tuple[str, ...]
) -> None:
    program = build("stop_values.cpp")
    commands = [f"tbreak {program.at('call')}", "c", *limits]
    for function in RETURNED:
        commands += (f"tbreak {function}", "c", "finish")
    commands += ("show print elements", "show max-value-size")
    finished = run_pgdb("launch", "--batch", *ex(*commands), *mpi.line(3, program))
    assert finished.status == 0, finished.out
    found = outputs(finished.out, "finish")
    for lines, (function, (place, most, odd)) in zip(found, RETURNED.items(), strict=True):
        at = next(
            (n for n, line in enumerate(lines) if line.startswith(f"{place} {most}".strip())), -1
        )
        assert at > 0, (function, lines)
        assert lines[at + 1].startswith(odd) and lines[at + 1].endswith("<-- differs"), function
        assert limits == () or all(len(line) < 200 for line in lines), lines
    assert f"is {10 if limits else 200}." in outputs(finished.out, "show print elements")[0][0]
    assert "65536 bytes" in outputs(finished.out, "show max-value-size")[0][0]


def test_more_elements_than_are_listed_are_compared_by_their_hash(mpi: Mpi, build: Build) -> None:
    program = build("stop_values.cpp")
    commands = ("tbreak long_vector", "c", "finish", "print $", "proc 0-1 print $")
    finished = run_pgdb("launch", "--batch", *ex(*commands), *mpi.line(3, program))
    lines = outputs(finished.out, "finish")[0]
    assert "(2 different values, beyond the elements shown: [0-1], [2];" in lines
    assert "'print $' shows where they differ)" in lines
    printed = outputs(finished.out, "print $")[0]
    assert printed[1].startswith("[4999] [0-1] 7"), finished.out


def test_what_watchpoints_saw_change(mpi: Mpi, build: Build) -> None:
    program = build("stop_values.cpp")
    commands = (f"tbreak {program.at('watch')}", "c", "watch words", "c", "expand", "delete")
    commands = (*commands, "watch cell.x", "c", "delete", "watch total", "c", "expand")
    finished = run_pgdb("launch", "--batch", *ex(*commands), *mpi.line(3, program))
    assert finished.status == 0, finished.out
    words, cell, total = outputs(finished.out, "c")[1:]
    assert any(line.startswith("[0-2] words, old value: 0x0") for line in words)
    assert any('<main::storage> "abcabc' in line for line in words)
    assert cell[1:3] == ["[0-1] cell.x[1]: 0 -> 1.5", "[2] cell.x[1]: 0 -> 2.5 <-- differs"]
    # A rank that stops later than the others is an event of its own, without its number.
    expected = [re.compile(rf"(\[{rank}\] )?total: \d+ -> {5 + rank}\Z") for rank in range(3)]
    for lines in (total, outputs(finished.out, "expand")[1]):
        for each in expected:
            assert any(each.match(line) for line in lines), finished.out


def test_what_is_false_everywhere_fails(mpi: Mpi, build: Build) -> None:
    program = build("stop_values.cpp")
    asked = {
        "assert 0": "0 is true: FAILED on [0-2] (3 of 3)",
        "assert is_ready": "is_ready is true: FAILED on [0-2] (3 of 3)",
        "assert flag == 3": "flag == 3: FAILED on [0-2] (3 of 3)",
        "assert !is_last": "!is_last: FAILED on [2] (1 of 3)",
        "assert flag true": "flag is true: FAILED on [0-2] (3 of 3)",
        "assert is_ready same": "is_ready is the same on all ranks: passed on [0-2]",
        "assert size": "size is the same on all ranks: passed on [0-2]",
        "assert 1": "1 is true: passed on [0-2]",
    }
    commands = (f"tbreak {program.at('call')}", "c", *asked, "assert flag")
    finished = run_pgdb("launch", "--batch", *ex(*commands), *mpi.line(3, program))
    assert finished.status == 1
    for command, expected in asked.items():
        assert outputs(finished.out, command)[0][0] == expected, finished.out
    assert outputs(finished.out, "assert flag")[0] == [
        "flag is the same on all ranks: passed on [0-2]",
        "(the value is 0; 'assert flag true' fails for a zero)",
    ]


def test_a_finish_that_gets_into_a_signal_handler_has_not_returned(mpi: Mpi, build: Build) -> None:
    program = build("inlined.c")
    quiet = "handle SIGUSR1 nostop noprint pass"
    commands = ("handle SIGUSR1 stop print pass", f"break {program.at('inlined')}", "c", "finish")
    commands = (*commands, "finish", quiet, "c", "finish", "delete")
    commands = (*commands, f"tbreak {program.at('nothing')}", "c", "finish")
    finished = run_pgdb("launch", "--batch", *ex(*commands), *mpi.line(2, program))
    assert finished.status == 0, finished.out
    signalled, in_handler, returned, from_void = outputs(finished.out, "finish")
    assert signalled[0].startswith("[0-1] SIGUSR1, User defined signal 1: ")
    assert in_handler[0].startswith("[0-1] stopped in handler (signal=")
    assert in_handler[1] == "has not returned yet; the handler of a signal was called first"
    assert returned[0].startswith("[0-1] returned to outer (value=4) at ")
    assert from_void[0].startswith("[0-1] returned to outer (value=4) at ")


WIDE_RESULTS = {
    "returned.c": {
        "wide": ("1180591620717411303424", "1180591620717411303425"),
        "negative": ("-1180591620717411303424", "-1180591620717411303425"),
        "unsigned_wide": (
            "340282366920938463463374607431768211455",
            "340282366920938463463374607431768211454",
        ),
        "quad": ("0.25", "1.25"),
        "member": ("{part = 1180591620717411303424}", "{part = 1180591620717411303425}"),
        "quad_member": ("{part = 0.25}", "{part = 1.25}"),
        "extended": ("0.5", "1.5"),
        "narrow": ("-1", "-2"),
        "real": ("0.125", "1.125"),
    },
    "returned.f90": {
        "wide": ("1180591620717411303424", "1180591620717411303425"),
        "quad": ("0.25", "1.25"),
        "two": ("(0,0.5)", "(1,0.5)"),
    },
}
"""The results of each function on ranks 0 and 1."""


@pytest.mark.skipif(platform.machine() != "x86_64", reason="GDB's fault is on x86-64 only")
@pytest.mark.parametrize("source", WIDE_RESULTS)
def test_returned_numbers_of_128_bits(mpi: Mpi, build: Build, source: str) -> None:
    program = build(source)
    commands: list[str] = []
    for function in WIDE_RESULTS[source]:
        commands += (f"tbreak {function}", "c", "proc 0 finish", "proc 1 finish", "output $")
    finished = run_json("launch", *ex(*commands), *mpi.line(2, program))
    answers = [each for each in finished.objects if each["type"] == "answer"]
    returned = [_returned(each) for each in answers if each["command"] == "finish"]
    expected = [each for values in WIDE_RESULTS[source].values() for each in values]
    assert returned == expected
    # The right value is the last one in GDB's history, too.
    kept = [each["classes"] for each in answers if each["command"] == "output $"]
    assert [each["text"] for classes in kept for each in classes] == expected


def _returned(answer: dict[str, Any]) -> str:
    (only,) = answer["classes"]
    return str(only["text"]).partition("value returned: ")[2]
