"""Stop lines of real ranks: what was hit, by which thread, and in which frame."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.support.programs import Builder, Mpi, Program
from tests.support.terminal import run_pgdb

pytestmark = pytest.mark.mpi


@pytest.fixture
def stops(mpi: Mpi, builder: Builder) -> Program:
    library = builder.build_library("stops.cpp", "-DLIBRARY", "-O0")
    rpath = f"-Wl,-rpath,{library.parent}"
    flags = ("-Wl,--no-as-needed", str(library), rpath, "-pthread")
    return builder.build(mpi, "stops.cpp", *flags)


# Each command, and a pattern for what follows it, or nothing.
ASKED = (
    ("break plain_inner", r"\[0-1\] Breakpoint 1: plain_inner"),
    ("continue", r"\[0-1\] Breakpoint 1, plain_inner \(\) from /\S+/stops\.so$"),
    ("x/i $pc", r".*<plain_inner"),
    ("info args", r"\[0-1\] No symbol table info available\.$"),
    ("info locals", r"\[0-1\] No symbol table info available\.$"),
    ("info sharedlibrary /stops", r"\[0-1\]$"),
    ("finish", r"\[0-1\] returned to plain_outer \(\) from /\S+/stops\.so$"),
    ("delete", ""),
    ("finish", r"\[0-1\] returned to main \(.*\) at .*stops\.cpp:\d+$"),
    ("break plain_inner", ""),
    ("commands\nsilent\nend", ""),
    ("continue", r"\[0-1\] Breakpoint 2, plain_inner \(\) from"),
    ("delete", ""),
    ("stepi", r"\[0-1\] stopped in plain_inner\+[1-9]\d* \(\) from"),
    ("info symbol $pc", r".*plain_inner \+ \d+ in"),
    ("tbreak work", ""),
    ("continue", r'\[0-1\] Thread \S+ "…" hit Temporary breakpoint 3, work \(number=3\) at'),
    ("watch watched", ""),
    ("continue", r'\[0-1\] Thread \S+ "…" hit Hardware watchpoint 4, work \(number=3\) at'),
    ("delete", ""),
    ("rwatch watched", ""),
    ("continue", r"\[0-1\] Hardware read watchpoint 5, work \(number=1\) at"),
    ("delete", ""),
    ('dprintf events,"at %d of %d\\n",watched,7', r"\[0-1\] Dprintf 6: file"),
    ("tbreak events", ""),
    ("continue", r"\[0-1\] at 4 of 7$"),
    ("delete", ""),
    ("catch throw", ""),
    ("catch signal SIGUSR2", ""),
    ("catch syscall getppid", ""),
    ("catch fork", r"\[0-1\] Catchpoint 11 \(fork\)$"),
    ("continue", r"\[0-1\] Catchpoint 8 \(exception thrown\), __cxa_throw \("),
    ("continue", r"\[0-1\] Catchpoint 9 \(signal SIGUSR2\), \w+"),
    ("continue", r"\[0-1\] Catchpoint 10 \(call to syscall getppid\), \w+"),
    ("continue", r"\[0-1\] Catchpoint 10 \(returned from syscall getppid\), \w+"),
    ("continue", r"\[0-1\] Catchpoint 11 \(forked process …\), \w+"),
    ("info breakpoints", r"\[0-1\]$"),
    ("delete", ""),
    (
        "continue",
        # GDB is asked for the cause, which takes longer on one rank than on another.
        r"(?:\[\d\] \[Detaching .*\n)*(?:\[(?:0|1|0-1)\] SIGSEGV, Segmentation fault: "
        r"plain_fault \(\) from /\S+/stops\.so\n +"
        r"cause: .+\n +called by main at stops\.cpp:\d+ \('frame 1' selects it\)\n?)+\Z",
    ),
    ("x/i $pc", r".*<plain_fault"),
    ("info registers rip", r".*<plain_fault"),
    ("frame", r"\[0-1\] #0 +plain_fault \(\) from"),
)


def test_stops_say_what_was_hit_by_whom_and_where(mpi: Mpi, stops: Program, tmp_path: Path) -> None:
    script = tmp_path / "commands"
    script.write_text("".join(f"{command}\n" for command, _ in ASKED))
    finished = run_pgdb("launch", "--batch", "-x", script, *mpi.line(2, stops))
    left = finished.out
    for command, expected in ASKED:
        first = command.partition("\n")[0]
        _, found, left = left.partition(f") {first}\n")
        assert found, (first, finished.out)
        if expected:
            shown = left.partition("\n(pgdb ")[0]
            assert re.match(expected, shown, re.M), (first, left[:300], finished.out)
    # As GDB marks libraries without debug information.
    assert re.search(r"Yes \(\*\) +/\S+/stops\.so$", finished.out, re.M)
    assert "(*): Shared library is missing debugging information." in finished.out


def test_a_temporary_breakpoint_is_called_so_if_its_commands_are_silent(
    mpi: Mpi, builder: Builder, tmp_path: Path
) -> None:
    script = tmp_path / "commands"
    script.write_text("tbreak twice\ncommands\nsilent\necho here\\n\nend\ncontinue\nkill\n")
    program = builder.build(mpi, "language.c")
    shown = run_pgdb("launch", "--batch", "-x", script, *mpi.line(2, program)).out
    assert "[0-1] Temporary breakpoint 1, twice (value=0)" in shown and "[0-1] here\n" in shown


def test_a_stop_inside_a_call_comes_before_the_answer_of_the_call(
    mpi: Mpi, builder: Builder
) -> None:
    program = builder.build(mpi, "language.c")
    called = "call twice(rank_value + 3)"
    lines = ("break twice", called, called, "print twice(5)", "bt 1", "kill")
    script = [word for line in lines for word in ("-ex", line)]
    shown = run_pgdb("launch", "--batch", *script, *mpi.line(2, program)).out
    _, call, again = shown.split(") call twice", 2)
    again, rest = again.split(") print twice", 1)
    printed, frames = rest.split(") bt 1", 1)
    for text in (call, again, printed):
        stop, error = text.split("[0-1] Breakpoint 1, twice (value=")[1].split("error: ")
        assert error.startswith("The program being debugged stopped while in a function called")
        assert "hit Breakpoint" not in stop + error, "the stop is shown once"
    assert "Breakpoint 1," not in frames


def test_errors_of_the_users_own_code_at_a_stop_are_shown(
    mpi: Mpi, builder: Builder, tmp_path: Path
) -> None:
    program = builder.build(mpi, "again.c")
    script = tmp_path / "commands"
    script.write_text(
        """break work
commands
print i
print nosuch_1
print rank
end
watch counter if i == 2
commands
python raise ValueError("odd one")
end
continue
delete 1
continue
delete
define hook-stop
print nosuch_2
end
break work
continue
define hook-stop
end
python
def fail(event):
    raise RuntimeError("at a stop")
gdb.events.stop.connect(fail)
end
next
python gdb.events.stop.disconnect(fail)
print nosuch_3
"""
    )
    shown = run_pgdb(
        "launch", "--batch", "-x", script, *mpi.line(2, program, "6"), has_tracebacks=True
    ).out
    first, second, hooked, stepped, last = (
        part.partition("\n(pgdb ")[0]
        for part in re.split(r"\) (?:continue|next|print nosuch_3)\n", shown)[1:]
    )
    no_symbol = r'No symbol "nosuch_{}" in current context\.'
    place = r"work \(rank=…, i=\d\) at \S+again\.c:\d+\n.*\n"
    assert re.fullmatch(
        rf"\[0-1\] Breakpoint 1, {place}\[0-1\] \$1 = 0\n\[0-1\] error: {no_symbol.format(1)}",
        first,
    ), shown
    traceback = (
        "[0-1] Traceback (most recent call last):\n"
        '[0-1]   File "<string>", line 1, in <module>\n'
        "[0-1] ValueError: odd one\n"
        "[0-1] error: Error while executing Python code."
    )
    words_of_gdb_18 = (
        "[0-1] Python Exception <class 'ValueError'>: odd one\n"
        "[0-1] error: Error occurred in Python: odd one"
    )
    assert second.endswith((traceback, words_of_gdb_18)), shown
    assert re.match(
        rf"\[0-1\] Error while running hook_stop:\n\[0-1\] {no_symbol.format(2)}\n"
        rf"\[0-1\] Breakpoint 3, {place}".rstrip(),
        hooked + "\n",
    ), shown
    assert stepped.endswith("[0-1] Python Exception <class 'RuntimeError'>: at a stop"), shown
    assert re.fullmatch(rf"\[0-1\] error: {no_symbol.format(3)}", last.rstrip()), shown


def test_long_displays_do_not_hide_what_was_hit(mpi: Mpi, builder: Builder) -> None:
    program = builder.build(mpi, "again.c")
    lines = (
        *("set print elements unlimited", "set print repeats unlimited", "set print max-depth 3"),
        *("display (char[9000])*(char*)$sp", "watch counter", "continue"),
    )
    script = [word for line in lines for word in ("-ex", line)]
    shown = run_pgdb("launch", "--batch", *script, *mpi.line(2, program)).out
    stop = shown.rpartition(") continue\n")[2]
    assert re.match(r"\[\d(-1)?\] Hardware watchpoint 1, work \(", stop), stop
