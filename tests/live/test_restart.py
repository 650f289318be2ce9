"""Launch the job again in the same session, and keep its breakpoints in files."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import pytest

import pgdb
from tests.conftest import Build, StartJob
from tests.support.processes import is_alive, programs_with, wait_until
from tests.support.programs import Mpi, Program
from tests.support.terminal import (
    MARK,
    PGDB,
    Finished,
    Terminal,
    assert_nothing_left,
    assert_untouched,
    ex,
    run_json,
    run_pgdb,
)

pytestmark = [pytest.mark.mpi, pytest.mark.any_mpi]
PROMPT = r"\(pgdb 0-1\)"

MADE = (
    "break work if i == 1",
    "tbreak nosuch_before",
    "proc 0 condition 1 i == 2",
    "break *$pc",
    "watch counter",
    "disable $bpnum",
    "break main",
    "proc 1 ignore 1 1",
)


@pytest.fixture
def program(build: Build) -> Program:
    return build("again.c")


def listed(finished: Finished) -> list[list[tuple[str, list[dict[str, Any]]]]]:
    """Return the breakpoints of each ``info breakpoints``, by class, without hit counts.

    A place that depends on the frame (``*$pc``) is another one, of the same meaning, afterwards.
    """
    return [
        [
            (
                each["ranks"],
                [
                    {
                        name: value
                        for name, value in one.items()
                        if name not in ("times", "original")
                    }
                    for one in each["record"]["breakpoints"]
                ],
            )
            for each in answer["classes"]
        ]
        for answer in finished.answers("info breakpoints")
    ]


def stops_at(finished: Finished, function: str) -> list[int]:
    """Return the breakpoint of each stop in a function."""
    return [
        each.get("breakpoint", 0)
        for line in finished.of_type("stop")
        for each in line["classes"]
        if (each.get("frame") or {}).get("function") == function
    ]


def test_breakpoints_settings_and_displays_outlive_the_job(
    mpi: Mpi, program: Program, tmp_path: Path
) -> None:
    finished = run_json(
        "launch",
        *ex(
            "set stop-on-error on",
            *MADE,
            "info breakpoints",
            "display counter",
            "set print pretty on",
        ),
        *ex("defset first 0", f"save breakpoints {tmp_path}/b"),
        *ex("restart 4", "info breakpoints", "print argc", "show print pretty"),
        *ex("proc @first print counter", "delete", f"source {tmp_path}/b"),
        *ex(f"save breakpoints {tmp_path}/c", "delete", "break work", "continue"),
        *ex("restart", "print argc", "continue", "delete", "continue", "run -- 1 abort", "bt"),
        *ex("start 2", "print counter"),
        *mpi.line(2, program),
        deadline_s=600,  # five launches
    )
    before, after = listed(finished)
    assert before == after
    assert [ranks for ranks, _ in before] == ["0", "1"]
    assert [each["number"] for each in before[0][1]] == [1, 2, 3, 4]
    assert before[0][1][0]["condition"] == "i == 2"
    assert before[1][1][0]["condition"] == "i == 1" and before[1][1][0]["ignore"] == 1
    assert before[0][1][1]["at"].startswith("<main") and not before[0][1][2]["enabled"]
    hellos = finished.of_type("hello")
    assert [each["ranks"] for each in hellos] == ["0-1"] * 5
    argc = [each["classes"][0]["record"]["text"] for each in finished.answers("print argc")]
    assert argc == ["2", "2"], "new arguments stay for later launches"
    assert "is on" in finished.answer("show print pretty")["classes"][0]["text"]
    (shown,) = finished.answers("print counter")[0]["classes"]
    assert (shown["ranks"], shown["record"]["text"]) == ("0", "0")
    assert (tmp_path / "b").read_text() == (tmp_path / "c").read_text()
    # The last breakpoint of the first of two launches has its number in the second.
    assert {*stops_at(finished, "work")} == {9}
    assert finished.status == 5, "rank 1 has ended by SIGABRT before the last launch"


def test_definitions_of_python_outlive_the_job(mpi: Mpi, program: Program, tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(
        "class Mine(gdb.Function):\n"
        "    def __init__(self): super().__init__('mine')\n"
        "    def invoke(self, value): return value + 1\n"
        "Mine()\n"
    )
    block = (
        "python",
        "class Hello(gdb.Command):",
        "  def __init__(self): super().__init__('hello', gdb.COMMAND_USER)",
        "  def invoke(self, argument, from_tty): print('hello', argument)",
        "Hello()",
        "end",
    )
    lines = ("python print('once')", "python def seven(): return 7", f"source {tmp_path}/mine.py")
    further = ("python", "def more(): return 8", "print('more')", "end")
    finished = run_pgdb(
        "launch",
        "--batch",
        *ex("\n".join(block), *lines, "restart", "hello you", "python print(seven())"),
        *ex("print $mine(40)", "\n".join(further), "restart", "hello again"),
        *mpi.line(2, program),
        deadline_s=300,
    )
    assert "[0-1] hello you\n" in finished.out and "[0-1] hello again\n" in finished.out
    assert "[0-1] 7\n" in finished.out and "[0-1] $mine(40) = 41\n" in finished.out
    assert finished.out.count("once\n") == finished.out.count("[0-1] more\n") == 1
    assert finished.out.count("Python code that has done more than define") == 1


def test_variables_of_traces_are_made_again(mpi: Mpi, program: Program) -> None:
    finished = run_json(
        "launch",
        *ex("tvariable $one = 7", "tvariable $two = 8", "delete tvariable $two", "restart"),
        *ex("info tvariables"),
        *mpi.line(2, program),
    )
    (shown,) = finished.answer("info tvariables")["classes"]
    assert "$one " in shown["text"] and " 7 " in shown["text"] and "$two" not in shown["text"]


def test_convenience_variables_keep_their_values_and_not_their_expressions(
    mpi: Mpi, program: Program, tmp_path: Path
) -> None:
    given = (
        *("set $where = i", "set var $own = $_rank * 10 + i", "print $count = counter"),
        *(
            'set $text = "a \\"b\\"\\n"',
            "set $list = {1, 2.5, 3}",
            "print $third = (long double)1/3",
        ),
        *("set $small = (unsigned char)200", "set $place = &counter", "set $float = (float)0.1"),
    )
    names = ("where", "own", "count", "text", "list", "third", "small", "float", "place")
    asked = [f"output ${name}" for name in names]
    finished = run_json(
        "launch",
        *ex("break work if i == 1", "continue", *given, *asked, "restart", *asked),
        *ex("continue &", "restart", *asked, "delete", "continue", "restart", *asked),
        *mpi.line(2, program, "3"),
        deadline_s=400,  # four launches
    )
    for name, line in zip(names, asked, strict=True):
        first, *later = [
            [(each["ranks"], each["text"]) for each in answer["classes"]]
            for answer in finished.answers(line)
        ]
        assert len(later) == 3, name
        if name == "place":
            # The program is elsewhere in another launch.
            assert later == [[("0-1", "void")]] * 3
        else:
            assert later == [first] * 3, name
    assert finished.answers("output $own")[0]["classes"][1]["text"] == "11"
    notes = [each["text"].rstrip() for each in finished.of_type("output")]
    why = "$place has no value in the new launch: it is an address in the job that has ended"
    assert [each for each in notes if "no value" in each] == [f"[0-1] {why}"]


def test_the_count_of_a_continue_is_used_up(mpi: Mpi, program: Program) -> None:
    lines = ("break work", "break nosuch_before", "continue", "continue 2", "info breakpoints")
    finished = run_json(
        "launch",
        *ex(*lines, "restart", "info breakpoints", "continue", "print i"),
        *mpi.line(2, program),
    )
    assert all(
        each.get("ignore", 0) == 0 for made in listed(finished) for _, t in made for each in t
    )
    assert stops_at(finished, "work") == [1, 1, 1]
    assert [each["record"]["text"] for each in finished.answer("print i")["classes"]] == ["0"]


def test_displays_of_local_variables_begin_where_these_are_known(mpi: Mpi, build: Build) -> None:
    commands = ("break hit", "continue", "proc 1 display i", "display/x i", "restart")
    finished = run_json(
        "launch",
        *ex(*commands, "continue", "restart", "continue", "info display"),
        *mpi.line(2, build("storm.c")),
    )
    begun = [
        (each["ranks"], each["text"])
        for line in finished.of_type("answer")
        if line["command"] in ("display i", "display/x i")
        for each in line["classes"]
    ]
    # Another launch counts from its first display that has a value.
    assert [(ranks, text.partition(": ")[2]) for ranks, text in begun] == [
        ("1", "i = 0"),
        ("0-1", "/x i = 0x0"),
    ] * 3
    notes = "".join(each["text"] for each in finished.of_type("output"))
    assert "[1] 'display i' begins where its variables are known" in notes


def test_plain_gdb_reads_the_file(mpi: Mpi, program: Program, tmp_path: Path) -> None:
    saved = tmp_path / "saved breakpoints"
    run_json("launch", *ex(*MADE, f"save breakpoints '{saved}'"), *mpi.line(2, program))
    copy = tmp_path / "copy"
    copy.write_text(saved.read_text() + "info breakpoints\n")
    said = subprocess.run(
        ["gdb", "-q", "-nx", "-batch", "-x", copy, program.path],
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    assert "hw watchpoint" in said and "in main at" in said and "stop only if i ==" in said
    again = run_json("launch", "-x", saved, *ex("info breakpoints"), *mpi.line(2, program))
    numbers = [[each["number"] for each in made] for _, made in listed(again)[0]]
    assert numbers == [[1, 2, 3, 4]] * 2


def test_prompt_asks_and_lives_through_failed_launches(
    mpi: Mpi, program: Program, build: Build, tmp_path: Path
) -> None:
    copy = program.copied(tmp_path / "own")
    own = copy.path
    changes = {"XDG_STATE_HOME": str(tmp_path)}
    with Terminal(*PGDB, "launch", *mpi.line(2, own), changes=changes) as terminal:

        def do(line: str, *expected: str) -> None:
            terminal.line(line)
            for each in (*expected, PROMPT):
                terminal.expect(each)

        terminal.expect(PROMPT)
        do("break work", "Breakpoint 1: ")
        # The job has not run: it is continued, not launched again.
        do("run", r"Breakpoint 1, work \(.*i=0\)")
        first = [*programs_with(f"{MARK}={terminal.mark}", copy)]
        assert len(first) == 2
        terminal.line("restart")
        terminal.expect(r"Kill the job and launch it again\? \(y or n\)")
        do("n", "left as it is")
        do("print counter", r"\[0-1\] counter = 0")
        # Nothing is killed for a line that cannot be launched.
        own.rename(tmp_path / "away")
        do("run -y", "own")
        do("print counter", r"\[0-1\] counter = 0")
        # A program that ends before main: the session and the breakpoints stay.
        own.write_bytes(b"no program\0")
        own.chmod(0o755)
        do("run -y", "the job before has ended, 'restart' tries again")
        wait_until(lambda: not any(map(is_alive, first)), "the first job ends")
        do("print 1", "the session has ended")
        own.unlink()
        program.copied(own)
        do("run 1", "2 ranks on 1 host", r"Breakpoint 1, work \(.*i=0\)")
        terminal.line("restart -y")
        terminal.expect("aggregators ")
        terminal.control_c()
        terminal.expect(r"given up waiting|interrupt")
        terminal.expect(PROMPT)
        do("restart -y", "stopped in main")
        do("info breakpoints", "in work at")
        terminal.line("quit")
        terminal.expect(r"\(y or n\)")
        terminal.line("y")
        terminal.wait()
        assert_nothing_left(terminal.mark)


def test_restart_from_python(mpi: Mpi, program: Program) -> None:
    notes: list[str] = []
    with pgdb.launch(mpi.line(2, program)) as job:
        job.subscribe(lambda notification: notes.append(notification.kind))
        job.break_at(program.at("work")).check()
        before = job[0]
        job.continue_().check()
        job.sets["one"] = pgdb.RankSet([1])
        answer = job.restart(["1"])
        assert [str(each.ranks) for each in answer.classes] == ["0-1"]
        with pytest.raises(pgdb.PgdbError, match="ended"):
            before.evaluate("counter")
        assert job.evaluate("argc").values == {0: 2, 1: 2}
        stop = job.continue_().check().for_rank(1)
        assert isinstance(stop, pgdb.records.Stop) and stop.breakpoint == 1
        assert job.ranks("@one").evaluate("rank").values == {1: 1}
        assert notes.count("starting") and "event" in notes
        with pytest.raises(pgdb.UsageError, match="restart"):
            job.execute("run")
        job.delete()
        job.continue_().check()
        job.restart()
        assert job.evaluate("counter").values == {0: 0, 1: 0}


def test_restart_reads_an_input_file_again(mpi: Mpi, build: Build, tmp_path: Path) -> None:
    source = tmp_path / "in"
    source.write_text("skipped\n17\n")
    said = bytearray()
    with source.open("rb", buffering=0) as file:
        file.seek(len("skipped\n"))
        job = pgdb.launch(
            mpi.line(1, build("question.c")),
            stdin=file,
            on_output=lambda stream, data: said.extend(data),
        )
    with job:
        job.continue_().check()
        wait_until(lambda: b"n is 17" in said, "the job has read its input")
        source.write_text("skipped\n18\n")
        job.restart()
        job.continue_().check()
        wait_until(lambda: b"n is 18" in said, "the new job has read its input")
        source.unlink()
        with pytest.raises(pgdb.UsageError, match="No such file"):
            job.restart()


def test_attached_job_is_not_launched_again(build: Build, start_job: StartJob) -> None:
    with start_job(2, build("storm.c")) as job:
        commands = ex("restart", "run", "start", "print 40 + 2")
        finished = run_pgdb("attach", "--batch", *commands, job.pid)
        assert finished.out.count("'save breakpoints FILE' keeps") == 3
        assert "40 + 2 = 42" in finished.out and finished.status == 1
        assert_untouched(job.ranks)


def test_each_rank_knows_itself_and_writes_its_own_files(
    mpi: Mpi, program: Program, tmp_path: Path
) -> None:
    finished = run_json(
        "launch",
        *ex("print $_rank", "print $_size", "set $_host = 7", "break work if $_rank == i"),
        *ex("continue", "print i - $_rank", f"gcore {tmp_path}/core"),
        *ex(f"dump binary value {tmp_path}/rank $_rank", "proc 1 detach"),
        *mpi.line(2, program),
    )
    assert finished.texts("print $_rank") == {"0": "0", "1": "1"}
    assert finished.texts("print $_size") == {"0-1": "2"}
    assert finished.texts("print i - $_rank") == {"0-1": "0"}
    files = {each.name for each in tmp_path.iterdir()}
    assert files == {"core.0", "core.1", "rank.0", "rank.1"}
    assert [(tmp_path / f"rank.{rank}").read_bytes()[0] for rank in (0, 1)] == [0, 1]
    said = subprocess.run(
        ["gdb", "-q", "-nx", "-batch", "-ex", "print rank", program.path, tmp_path / "core.1"],
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    assert "$1 = 1" in said
    reported = finished.answer(f"generate-core-file {tmp_path}/core.{{rank}}")
    assert reported["classes"][0]["text"].startswith(f"wrote {tmp_path}/core.{{0..1}} on ")
