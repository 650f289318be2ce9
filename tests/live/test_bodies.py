"""Files of commands, user-defined commands and blocks on real ranks."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from pgdb.jobs import procfs
from tests.conftest import Build
from tests.support.processes import status, wait_until
from tests.support.programs import Mpi
from tests.support.prompts import PROMPT, launched, ranks_of, wait_running
from tests.support.terminal import Finished, ex, run_json

pytestmark = [pytest.mark.mpi, pytest.mark.any_mpi]

_FILE = """
# A line goes on behind a backslash.
break \\
  work
define rounds
  set $count = 0
  while $count < $arg0
    continue
    print round
    set $count = $count + 1
  end
  if rank == 1
    print 100 + round
  else
    proc 0 print 200 + round
  end
end
document rounds
Continue and print.
if you like
end
rounds 3
"""


_TICKS = 20
"""CPU time that shows a GDB to compute, in ticks of the kernel's clock."""
_ENDLESS = """
set timeout 2
python
try:
  while True:
    pass
except KeyboardInterrupt:
  print("ended by itself")
end
print 1 + 10
while 1
  set $i = 1
end
print 1 + 20
define spin
  while 1
    set $i = 1
  end
end
spin
print 1 + 30
"""


def values(finished: Finished, command: str) -> list[dict[str, str]]:
    """Return the value of each rank set, for each answer to a command."""
    return [
        {each["ranks"]: each["record"]["text"] for each in answer["classes"]}
        for answer in finished.answers(command)
    ]


def errors(finished: Finished) -> list[str]:
    return [str(each["message"]) for each in finished.objects if each["type"] == "error"]


def test_a_file_defines_commands_that_wait_for_the_ranks(
    mpi: Mpi, build: Build, tmp_path: Path
) -> None:
    script = tmp_path / "rounds.gdb"
    script.write_text(_FILE)
    finished = run_json(
        "launch",
        *ex(f"source {script}", "help rounds", "delete", "continue"),
        *mpi.line(2, build("bodies.c")),
    )
    assert finished.status == 0, finished.out
    assert values(finished, "print round") == [
        {"0-1": "0"},
        {"0": "1", "1": "2"},
        {"0": "2", "1": "4"},
    ]
    assert values(finished, "print 100 + round") == [{"1": "104"}]
    assert values(finished, "print 200 + round") == [{"0": "202"}]
    assert "Continue and print.\\nif you like" in finished.out
    assert_ended_well(finished)


def test_an_eval_whose_addresses_differ_by_rank_is_carried_out_once(
    mpi: Mpi, build: Build, tmp_path: Path
) -> None:
    script = tmp_path / "evals.gdb"
    # The rank in the address makes it another one on each rank.
    script.write_text(
        "set $i = 0\ndefine f\nproc 0-1 print 1\n"
        'eval "print $arg%d + (%p == 0)", $i++, (char *) $sp + 64 * $_rank\n'
        "print 100 + $i\nend\nf 7 8\n"
    )
    finished = run_json("launch", *ex(f"source {script}"), *mpi.line(2, build("bodies.c")))
    assert not errors(finished), finished.out
    evaluated = [each for each in finished.objects if "print 7 + (0x" in str(each.get("command"))]
    shown = {each["ranks"]: each["record"]["text"] for one in evaluated for each in one["classes"]}
    assert shown == {"0": "7", "1": "7"}, finished.out
    assert values(finished, "print 100 + $i") == [{"0-1": "101"}]


def assert_ended_well(finished: Finished) -> None:
    """Check that both ranks have computed what they do without a debugger."""
    assert "rank 0 sum 100 args 1" in finished.out
    assert "rank 1 sum 63 args 1" in finished.out


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ("attach 1", "'attach' is refused"),
        ("file /bin/true", "'file' is refused"),
        ("set non-stop on", "PGDB needs"),
        ("if 1\ndisconnect\nend", "line 1 of 'if', 'disconnect'"),
        ("commands\nkill\nend", "line 1 of 'commands', 'kill'"),
        ("python gdb.execute('detach')", "'detach' is refused"),
        ("define hook-stop\ntree\nend", "line 1 of 'hook-stop', 'tree'"),
    ],
)
def test_a_file_is_refused_what_a_line_is(
    mpi: Mpi, build: Build, tmp_path: Path, line: str, says: str
) -> None:
    script = tmp_path / "bad.gdb"
    script.write_text(f"break work\ncontinue\n{line}\nprint 7\n")
    finished = run_json(
        "launch",
        *ex(f"source {script}", "print round", "delete", "continue"),
        *mpi.line(2, build("bodies.c")),
    )
    (error,) = errors(finished)
    assert says in error and "bad.gdb:3" in error
    assert values(finished, "print 7") == []
    assert values(finished, "print round") == [{"0-1": "0"}]
    assert_ended_well(finished)


def test_a_line_that_is_made_at_run_time_is_refused_what_a_line_is(mpi: Mpi, build: Build) -> None:
    """GDB alone sees the text of an ``eval``, and text that code computes."""
    made = (
        'eval "de%s", "tach"',
        'python gdb.execute("k" + "")',
        'python gdb.execute("detach" + " inferiors 1")',
        'python gdb.execute("target" + " remote :1")',
        'python gdb.execute("q" + "uit")',
    )
    finished = run_json(
        "launch",
        *ex("break work", "continue", *made, "help user-defined", "print 40 + 2"),
        *ex("delete", "continue"),
        *mpi.line(2, build("bodies.c")),
        has_tracebacks=True,
    )
    for command in made:
        (found,) = finished.answer(command)["classes"]
        assert "is refused inside another command" in found["text"], command
    assert "hook-" not in finished.answer("help user-defined")["classes"][0]["text"]
    (found,) = finished.answer("print 40 + 2")["classes"]
    assert (found["ranks"], found["record"]["text"]) == ("0-1", "42")
    assert_ended_well(finished)


def test_a_rank_on_which_a_line_fails_leaves_the_body(mpi: Mpi, build: Build) -> None:
    body = ["define both", "print 10 / rank", "proc 0-1 print 3", "info line", "print 5", "end"]
    finished = run_json(
        "launch",
        *ex("break work", "continue", *body, "both", "print 6", "delete", "continue"),
        *mpi.line(2, build("bodies.c")),
    )
    assert values(finished, "print 5") == [{"1": "5"}]
    assert values(finished, "print 6") == [{"0-1": "6"}]
    assert "[0] left 'both' after 'print 10 / rank' (line 1 of 'both')" in finished.out


def test_a_python_file_is_python(mpi: Mpi, build: Build, tmp_path: Path) -> None:
    script = tmp_path / "names.py"
    script.write_text("if True:\n    print('sum is', 6 * 7)\n")
    finished: Any = run_json(
        "launch", "-x", script, *ex("continue"), *mpi.line(2, build("bodies.c"))
    )
    texts = [
        each["record"].get("text") for each in finished.answers(f"source {script}")[0]["classes"]
    ]
    assert texts == ["sum is 42"]


def test_arguments_are_set_for_the_next_launch(mpi: Mpi, build: Build) -> None:
    finished = run_json(
        "launch",
        *ex("show args", "set args 'a b' c", "show args", "break work", "run", "up", "print argc"),
        *ex("show args", "set args", "starti", "print argc", "print argv[1]", "delete", "run"),
        *mpi.line(2, build("bodies.c")),
        "first",
    )
    assert finished.status == 0, finished.out
    shown = [
        str(each["text"]).rstrip()
        for each in finished.of_type("output")
        if "Argument list" in str(each.get("text"))
    ]
    begin = "Argument list to give the program when it is launched again is"
    assert shown == [
        f'{begin} "first".',
        f"""{begin} "'a b' c". Now it has "first".""",
        f"""{begin} "'a b' c".""",
    ]
    assert values(finished, "print argc") == [{"0-1": "3"}, {"0-1": "1"}]
    assert values(finished, "print argv[1]") == [{"0-1": "0x0"}]
    assert "rank 0 sum 100 args 1" in finished.out


def test_quit_gives_its_status(mpi: Mpi, build: Build) -> None:
    finished = run_json(
        "launch", *ex("break work", "continue", "quit rank + 7"), *mpi.line(2, build("bodies.c"))
    )
    assert finished.status == 1
    assert "no whole number in common" in finished.out
    finished = run_json("launch", *ex("quit argc + 6"), *mpi.line(2, build("bodies.c")))
    assert finished.status == 7


def test_ctrl_c_ends_a_body_and_stops_its_ranks(mpi: Mpi, build: Build, tmp_path: Path) -> None:
    program = build("storm.c")
    with launched(mpi, program, home=tmp_path) as terminal:
        terminal.send("\x1b[200~while 1\nproc 0-1 print 40 + 2\nend\x1b[201~\r")
        terminal.expect(r"= 42")
        terminal.control_c()
        terminal.expect(r"'while' ended.*\(Ctrl-C\)")
        terminal.expect(PROMPT)
        terminal.send("\x1b[200~define on\nwhile 1\ncontinue\nend\nend\x1b[201~\r")
        terminal.ask("print 1 + 1", r"= 2")
        terminal.line("on")
        wait_running(ranks_of(terminal, program))
        terminal.control_c()
        terminal.expect(r"'on' ended.*\(Ctrl-C\)")
        terminal.expect(PROMPT)
        terminal.ask("print 2 + 2", r"= 4")


def test_code_without_an_end_is_interrupted_at_the_end_of_its_time(
    mpi: Mpi, build: Build, tmp_path: Path
) -> None:
    script = tmp_path / "endless.gdb"
    script.write_text(_ENDLESS)
    finished = run_json("launch", "-x", script, *mpi.line(2, build("bodies.c")))
    assert values(finished, "python") == [{"0-1": "ended by itself"}]
    for command in ("while 1", "spin"):
        (answer,) = finished.answers(command)
        (failed,) = answer["classes"]
        assert failed["ranks"] == "0-1"
        assert "interrupted at the end of the command's time (set timeout)" in str(failed), command
    for command, value in (("1 + 10", 11), ("1 + 20", 21), ("1 + 30", 31)):
        (answer,) = finished.answers(f"print {command}")
        assert [(each["ranks"], each["value"]) for each in answer["classes"]] == [("0-1", value)]


@pytest.mark.parametrize(
    ("block", "says"),
    [
        ("python\nwhile True: pass\nend", "Traceback[^$]*KeyboardInterrupt"),
        ("while 1\nset $i = 1\nend", "error: interrupted"),
    ],
)
def test_ctrl_c_ends_a_block_without_an_end(
    mpi: Mpi, build: Build, tmp_path: Path, block: str, says: str
) -> None:
    program = build("bodies.c")
    with launched(mpi, program, home=tmp_path) as terminal:
        gdbs = [int(status(pid, "TracerPid")) for pid in ranks_of(terminal, program)]
        before = {pid: procfs.work_done(pid)[0] for pid in gdbs}
        terminal.send(f"\x1b[200~{block}\x1b[201~\r")
        wait_until(
            lambda: all(procfs.work_done(pid)[0] > before[pid] + _TICKS for pid in gdbs),
            "the GDBs compute",
        )
        terminal.control_c()
        terminal.expect(r"\(interrupting what is asked; Ctrl-C again gives up waiting\)")
        terminal.expect(rf"\[0-1\]\s+{says}")
        terminal.expect(PROMPT)
        terminal.ask("p 1 + 1", r"\[0-1\] 1 \+ 1 = 2")
