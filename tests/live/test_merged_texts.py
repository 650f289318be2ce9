"""GDB's commands on ranks in other functions and with other threads: no text is repeated."""

from __future__ import annotations

import re

import pytest

from tests.conftest import Build
from tests.support.programs import Mpi
from tests.support.shown_answers import shown
from tests.support.terminal import ex, run_pgdb

pytestmark = [pytest.mark.mpi, pytest.mark.any_mpi]


def test_memory_maps_are_one_list(mpi: Mpi, build: Build) -> None:
    program = build("shapes.cpp")
    commands = ("info proc mappings", "proc 1 info proc mappings")
    finished = run_pgdb("launch", "--batch", *ex(*commands), *mpi.line(4, program))
    lines = shown(finished.out, "info proc mappings")
    # Libraries are in another order on each rank, and the program begins with one header.
    first = [line for line in lines if re.search(rf" 0x0 +r--p +{program.path}\Z", line)]
    assert len(first) == 1 and not re.match(r"\[[0-2]\]", first[0]), lines
    assert any(line.endswith("[stack]") for line in lines)
    assert "0x7f" not in "".join(lines)
    assert "'proc N info proc mappings' shows those of a rank" in lines[-1]
    of_one = "\n".join(shown(finished.out, "proc 1 info proc mappings"))
    assert re.search(r"Start Addr +End Addr", of_one) and "0x7f" in of_one


def test_threads_and_frames_of_ranks_in_other_functions(mpi: Mpi, build: Build) -> None:
    program = build("shapes.cpp")
    commands = (
        f"break {program.at('deep')}",
        f"break {program.at('elsewhere')}",
        "c",
        "info threads",
        "info stack",
        "thread apply all p $_thread * 0 + done",
        "thread apply 1 info frame",
        "frame apply all p n",
        "frame apply all info locals",
        "x/i $pc",
        "p shape.list",
        "x/s shape.name.c_str",
        "p -pretty -- shape",
        "p -elements 2 -- /x shape.v",
        "p -5",
        "p $",
        "call shape.inner",
        "show convenience",
        "help function",
        "complete p $_pgdb",
        "nexti",
        "set disassemble-next-line on",
        "next",
    )
    finished = run_pgdb("launch", "--batch", *ex(*commands), *mpi.line(4, program))
    out = finished.out
    threads = shown(out, "info threads")
    assert re.fullmatch(r" +Id +Target Id +Frame", threads[0]), threads
    first = [line for line in threads if re.match(r"\[[\d,-]+\] +\* 1 ", line)]
    assert len(first) == 2, threads
    where = rf"deep \(n=0\) at .*{program.at('deep')}"
    assert re.search(rf'^\[0,2-3\] \* 1 .*"  +{where}\Z', first[0])
    where = rf"elsewhere \(k=1\) at .*{program.at('elsewhere')}  @2"
    assert re.search(rf'^\[1\] +\* 1 .*"  +{where}\Z', first[1])
    # The other threads are where they are on the other ranks, and rank 2 has one more.
    assert sum(line.startswith("[2] ") for line in threads) == 1
    # The C library has arguments only where its debug information is installed.
    assert all("timeout=…" in line for line in threads if re.search(r"poll \([^)]", line))

    assert shown(out, "info stack")[0] == "[0,2]  2 of 4  @1"

    values = shown(out, "thread apply all p $_thread * 0 + done")
    assert len(values) == 1 and re.fullmatch(
        r"\[0-3\] threads [\d ]+, \[2\] thread \d+: \$… = 0", values[0]
    )

    frame = shown(out, "thread apply 1 info frame")
    assert frame[:2] == ["[0-3] thread 1", "Stack level 0, frame at …:"]
    assert len(frame) < 14

    applied = shown(out, "frame apply all info locals")
    assert applied.count("[0-3]") == 1
    assert sum(line.startswith("main (argc=1") for line in applied) == 1
    assert any(line.split() == ["rank", "[0]", "0", "@1"] for line in applied), applied

    assert re.fullmatch(r"\[0,2-3\] => … <deep\(int\)\+\d+>:\tmovl .*", shown(out, "x/i $pc")[0])

    pointer = shown(out, "p shape.list")
    assert pointer[0] == "[0-3] shape.list = (Node *) …"
    assert re.fullmatch(
        r"\(addresses differ between the ranks; expand \d+ shows them\)", pointer[1]
    )

    pretty = shown(out, "p -pretty -- shape")
    assert pretty[0] == "[0-3] shape = {"
    assert "        rank = …," in pretty
    assert any(line.split()[0] == ".inner.a[1]" for line in pretty if line.startswith("    ."))

    assert shown(out, "p -elements 2 -- /x shape.v")[0].endswith("= {0x0, 0xa...}")
    assert shown(out, "p -5") == ["[0-3] -5 = -5"]

    called = shown(out, "call shape.inner")
    assert called[0].startswith("[0-3] $… = {a = {0, …, 0}, d = 1.5}")

    convenience = shown(out, "show convenience")
    assert sum("$_probe_arg" in line for line in convenience) <= 14
    assert any("$_inferior_thread_count" in line and "[0-1,3]" in line for line in convenience)
    # PGDB's own names are in no list, apart from the function that users may call.
    for command, word in (("show convenience", "$_"), ("help function", "function _")):
        names = re.findall(rf"{re.escape(word)}(\w+)", "\n".join(shown(out, command)))
        assert "element" in names and "regex" in names
        own = {"object", "string", "variable", "component"}
        assert not own & {*names} and not any(name.startswith("pgdb") for name in names)
    assert shown(out, "complete p $_pgdb") == []

    instruction = [line for line in shown(out, "nexti") if "=> " in line]
    assert re.fullmatch(r"\[0,2-3\] => … <deep\(int\)\+\d+>:\t.*", instruction[0])
    assert len(instruction) == 2
    following = [line for line in shown(out, "next") if "=> " in line]
    assert following and all("<deep(int)" in line or "<elsewhere" in line for line in following)


def test_listed_lines_have_marks_of_ranks_and_breakpoints(mpi: Mpi, build: Build) -> None:
    program = build("shapes.cpp")
    deep, elsewhere = program.line("deep"), program.line("elsewhere")
    commands = (
        f"break {program.at('deep')}",
        f"break {program.at('elsewhere')}",
        f"break {program.at('call')}",
        "disable 3",
        "c",
        "list",
        "list 1,3",
    )
    finished = run_pgdb("launch", "--batch", *ex(*commands), *mpi.line(4, program))
    assert finished.status == 0, finished.out
    listed = shown(finished.out, "list")
    assert listed[0] == "[0-3]"  # the parts around the two places meet
    found = [line.split("\t")[0].split() for line in listed[1:]]
    assert [words for words in found if len(words) > 1] == [
        ["▶", "[0,2-3]", "●1", str(deep)],
        ["○3", str(program.line("call"))],
        ["▶", "[1]", "●2", str(elsewhere)],
    ]
    numbers = [int(words[-1]) for words in found]
    assert numbers == list(range(deep - 5, elsewhere + 5))
    assert shown(finished.out, "list 1,3")[1].startswith("1\t// shapes")


def test_threads_are_selected_named_and_found(mpi: Mpi, build: Build) -> None:
    program = build("shapes.cpp")
    commands = (
        f"break {program.at('deep')}",
        f"break {program.at('elsewhere')}",
        "c",
        "thread name chosen",
        "thread find chosen",
        "proc 2 thread 2",
        "info threads",
        "thread",
        "thread 99",
        "thread apply 1 99 p done",
        "set scheduler-locking on",
        "show scheduler-locking",
        "thread 1",
        "next",
    )
    finished = run_pgdb("launch", "--batch", *ex(*commands), *mpi.line(4, program))
    out = finished.out
    assert shown(out, "thread find chosen") == ["[0-3] Thread 1 has name 'chosen'"]
    current = [
        (line.partition(" ")[0], line.split()[2])
        for line in shown(out, "info threads")
        if re.match(r"\[[\d,-]+\] +\* ", line)
    ]
    assert sorted(current) == [("[0,3]", "1"), ("[1]", "1"), ("[2]", "2")]
    selected = shown(out, "thread")
    assert [line.partition(" (")[0] for line in selected] == [
        "[0-1,3] [Current thread is 1",
        "[2]     [Current thread is 2",
    ]
    assert shown(out, "thread 99") == ["[0-3] error: Unknown thread 99."]
    assert 'locking scheduler during execution is "on"' in shown(out, "show scheduler-locking")[0]
    selected = shown(out, "thread 1")
    assert selected[0] == "[0-3]"
    assert re.fullmatch(r"\[Switching to thread 1 \(Thread … \(LWP …\)\)\]", selected[1])
    assert re.match(r"\[0,2-3\] #0  deep \(n=0\) at ", selected[2])
    assert selected[3].startswith(f"{program.line('deep')}\t")
    assert re.match(r"\[1\] +#0  elsewhere \(k=1\) at ", selected[4])
    assert selected[5].startswith(f"{program.line('elsewhere')}\t") and len(selected) == 6
    assert "[0,2-3] stopped in deep " in "\n".join(shown(out, "next"))
