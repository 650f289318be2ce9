"""The example programs: their sessions find the bugs, and examples/README.md is true.

The JSON of each session confirms the page's statements, under every MPI; and the transcript on the
page contains what the JSON says. Lines are named by the markers of the sources, never by number.
"""

from __future__ import annotations

import platform
import re
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from pgdb.jobs.launchers import find_launcher
from pgdb.jobs.placement import mpi4py_environment
from pgdb.ranks import RankSet
from tests.conftest import Build, StartJob
from tests.support.processes import is_traced, wait_progress
from tests.support.programs import ROOT, Mpi, Program
from tests.support.terminal import Finished, ex, foreign_code, run_json

EXAMPLES = ROOT / "examples"
SESSIONS = sorted((EXAMPLES / "sessions").glob("*.pgdb"))
RANKS = 4
ALL = range(RANKS)
DEADLINE_S = 240.0
WAIT_S = 5
"""In place of what the sessions wait, for which nobody likes to wait at a terminal."""

PROGRAMS = {
    "hello": "hello.c",
    "hang_one_rank": "hang_one_rank.c",
    "deadlock_tags": "deadlock_tags.c",
    "missing_collective": "missing_collective.cpp",
    "out_of_bounds": "out_of_bounds.c",
    "wrong_value": "wrong_value.f90",
    "slow_rank": "slow_rank.c",
    "python_mismatch": "python_mismatch.py",
}

Class = dict[str, Any]
Frame = dict[str, Any]


def source_of(session: str) -> Path:
    """Return the source file of the program that a session is about."""
    return EXAMPLES / PROGRAMS[session.removesuffix("_cause")]


def commands_of(session: Path) -> list[str]:
    """Return the commands of a session file."""
    lines = session.read_text(encoding="utf-8").splitlines()
    return [line for line in lines if line and not line.startswith("#")]


def transcript_of(session: str) -> str:
    """Return what the page shows of a session."""
    page = (EXAMPLES / "README.md").read_text(encoding="utf-8")
    pattern = rf"<!-- sessions/{session}\.pgdb -->\n```console\n(.*?)```\n"
    found = re.findall(pattern, page, re.DOTALL)
    assert len(found) == 1, f"examples/README.md has {len(found)} transcripts of {session}"
    return str(found[0])


_MARKS = re.compile(r"▶ \[[\d,-]+\]|●\d+")
"""Marks of ranks and breakpoints beside source lines."""


@dataclass(frozen=True)
class Run:
    """A session that was carried out."""

    program: Program
    finished: Finished
    page: str
    """The transcript of the same session on the page."""

    def by_rank(self, command: str, number: int = 0) -> dict[int, Class]:
        """Return the class of each rank in the answer *number* to a command."""
        answers = self.finished.answers(command)
        assert number < len(answers), f"{len(answers)} answers to {command}: {self.finished.out}"
        return ranks_of(answers[number]["classes"])

    def texts(self, command: str, number: int = 0) -> dict[int, str]:
        """Return what each rank said, which must stand on the page too."""
        for each in self.finished.answers(command)[number]["classes"]:
            self.must_show(f"[{each['ranks']}] {each['text']}")
        return {rank: each["text"] for rank, each in self.by_rank(command, number).items()}

    def sources(self, command: str) -> dict[int, str]:
        """Return source lines of each rank; on the page they have marks, and no ranks."""
        found = self.by_rank(command)
        unmarked = _MARKS.sub("", self.page)
        for each in found.values():
            assert plain(each["text"]) in plain(unmarked), f"not on the page: {each['text']!r}"
        return {rank: each["text"] for rank, each in found.items()}

    def values(self, command: str, number: int = 0) -> dict[int, str]:
        """Return the value of an expression on each rank, which must stand on the page too."""
        self.texts(command, number)
        found = self.by_rank(command, number)
        return {rank: each["record"]["text"] for rank, each in found.items()}

    def stacks(self, command: str = "backtrace", number: int = 0) -> dict[int, list[Frame]]:
        """Return the stack of each rank."""
        found = self.by_rank(command, number)
        return {rank: each["record"]["frames"] for rank, each in found.items()}

    def stops(self, reason: str) -> dict[int, Class]:
        """Return the last stop of each rank that has stopped for a reason."""
        found: dict[int, Class] = {}
        for line in self.finished.of_type("stop"):
            found |= ranks_of(each for each in line["classes"] if each["reason"] == reason)
        return found

    def has_frame(self, frames: list[Frame], function: str, marker: str) -> Frame:
        """Return the frame of a function, which must be at a marker, here and on the page."""
        found = [each for each in frames if each["function"] == function]
        assert len(found) == 1, (function, [each["function"] for each in frames])
        assert place(found[0]) == self.program.at(marker)
        assert re.search(
            rf"{re.escape(function)} \(.*\) at {re.escape(self.program.at(marker))}$",
            self.page,
            re.MULTILINE,
        ), f"{function} at {self.program.at(marker)} is not on the page"
        return found[0]

    def must_show(self, text: str) -> None:
        """Check that the page has a text, whatever its blanks, paths and addresses."""
        assert plain(text) in plain(self.page), f"not on the page: {text!r}"

    def lines(self, command: str) -> dict[int, int]:
        """Return the line of the program in which each rank's selected frame is."""
        pattern = re.compile(rf"{re.escape(self.program.source.name)}:(\d+)(?:\s|$)")
        found = {}
        for rank, each in self.by_rank(command).items():
            match = pattern.search(each["text"])
            assert match is not None, each
            found[rank] = int(match[1])
        return found


def ranks_of(classes: Any) -> dict[int, Class]:
    """Return the class of each rank."""
    return {rank: each for each in classes for rank in RankSet.parse(each["ranks"])}


def place(frame: Frame) -> str:
    """Return the place of a frame without its folder, ``ring.c:22``."""
    return f"{Path(frame.get('file', '')).name}:{frame.get('line', 0)}"


def arguments(frame: Frame) -> dict[str, str]:
    """Return the arguments of a frame."""
    return {each["name"]: each["value"] for each in frame["arguments"]}


def plain(text: str) -> str:
    """Return a text without what differs between places to build in and between two runs."""
    text = re.sub(r"0x[0-9a-f]+", "…", text)
    text = re.sub(r"(?<=at )/\S*/(?=[^/\s]+:\d)", "", text)
    return re.sub(r"\s+", " ", text)


def functions(frames: list[Frame]) -> list[str]:
    """Return the names in a stack, innermost first."""
    return [each["function"] for each in frames]


def is_in(frames: list[Frame], call: str) -> bool:
    """Return whether a stack is inside an MPI call, by whatever name the library has it."""
    return any(re.fullmatch(rf"P?{call}(_c)?", name) for name in functions(frames))


RunSession = Callable[[str], Run]


@pytest.fixture
def run(build: Build, mpi: Mpi, tmp_path: Path) -> RunSession:
    """Carry out a session under an MPI."""

    def carry_out(session: str) -> Run:
        program = build(source_of(session).name)
        words: list[str] = []
        changes = {}
        if program.source.suffix == ".py":
            words = [str(program.path)]
            # mpi4py uses the MPI of its own environment by default.
            changes = mpi4py_environment(find_launcher(mpi.launcher), tmp_path)
        line = mpi.line(RANKS, Path(sys.executable) if words else program, *words)
        text = (EXAMPLES / "sessions" / f"{session}.pgdb").read_text(encoding="utf-8")
        commands = tmp_path / f"{session}.pgdb"
        # On a slow machine a job takes longer to get to where it hangs.
        commands.write_text(re.sub(r"^wait \d+$", f"wait {WAIT_S}", text, flags=re.M))
        finished = run_json(
            "launch",
            "-x",
            commands,
            *line,
            changes=changes,
            deadline_s=DEADLINE_S,
            cwd=tmp_path,  # a rank that dies may leave a core file there
        )
        return Run(program, finished, transcript_of(session))

    return carry_out


# -- the page and the session files ------------------------------------------------------------


def test_every_program_has_a_session() -> None:
    sources = {path.name for path in EXAMPLES.iterdir() if path.suffix in (".c", ".cpp", ".f90")}
    sources |= {path.name for path in EXAMPLES.glob("*.py")}
    assert sources == set(PROGRAMS.values())
    assert {path.stem for path in SESSIONS} >= set(PROGRAMS)


@pytest.mark.parametrize("session", SESSIONS, ids=lambda path: path.stem)
def test_page_has_the_commands_of_the_session(session: Path) -> None:
    prompts = re.findall(r"^\(pgdb [^)]*\) (.*)$", transcript_of(session.stem), re.MULTILINE)
    assert prompts == commands_of(session)


@pytest.mark.parametrize("session", SESSIONS, ids=lambda path: path.stem)
def test_page_shows_the_source_as_it_is(session: Path) -> None:
    source = source_of(session.stem).read_text(encoding="utf-8").splitlines()
    shown = re.findall(r"^(?:\[[^]]*\] +)?(\d+)\t(.*)$", transcript_of(session.stem), re.MULTILINE)
    assert shown or session.stem.startswith("python")
    for number, line in shown:
        if line.endswith(": No such file or directory."):
            continue  # a line of the interpreter's own source
        assert source[int(number) - 1] == line, f"line {number} of the page's transcript"


@pytest.mark.parametrize("session", SESSIONS, ids=lambda path: path.stem)
def test_breakpoints_of_the_session_are_at_markers(session: Path) -> None:
    source = source_of(session.stem)
    program = Program(path=source, source=source)
    lines = source.read_text(encoding="utf-8").splitlines()
    markers = {
        number
        for number, line in enumerate(lines, start=1)
        for name in re.findall(r"(?:/\*|//|!|#) @(\w+)", line)
        if program.line(name) == number
    }
    for command in commands_of(session):
        for name, number in re.findall(r"break (\S+):(\d+)", command):
            assert name == source.name
            assert int(number) in markers, command


# -- the sessions ------------------------------------------------------------------------------


@pytest.mark.mpi
@pytest.mark.any_mpi
def test_hello(run: RunSession) -> None:
    done = run("hello")
    stops = done.stops("breakpoint-hit")
    assert sorted(stops) == [*ALL]
    for stop in stops.values():
        done.has_frame([stop["frame"]], "sum_of_ranks", "sum")
    assert done.values("print sum") == dict.fromkeys(ALL, "6")
    assert done.values("print rank") == {rank: str(rank) for rank in ALL}
    exits = ranks_of(
        each for line in done.finished.of_type("exit") for each in line.get("classes", ())
    )
    assert {rank: each.get("code") for rank, each in exits.items()} == dict.fromkeys(ALL, 0)
    assert "the ranks add up to 6, expected 6" in "".join(
        each["text"] for each in done.finished.of_type("output")
    )
    assert done.finished.status == 0


@pytest.mark.mpi
@pytest.mark.any_mpi
def test_hang_one_rank(run: RunSession) -> None:
    done = run("hang_one_rank")
    _hang_of_one_rank(done.stacks(), done.program, done)
    assert done.values("print log_busy") == {0: "0", 1: "1", 2: "0", 3: "0"}
    assert done.values("print alarms") == {0: "0", 1: "1", 2: "0", 3: "0"}
    assert done.values("print step") == {0: "7", 1: "5", 2: "5", 3: "6"}
    lines = done.lines("frame function main")
    assert {rank for rank in ALL if lines[rank] == done.program.line("step")} == {0, 2, 3}


def _hang_of_one_rank(stacks: dict[int, list[Frame]], program: Program, done: Run) -> None:
    for rank in (0, 2, 3):
        assert is_in(stacks[rank], "MPI_Sendrecv"), functions(stacks[rank])
        done.has_frame(stacks[rank], "exchange", "exchange")
        done.has_frame(stacks[rank], "main", "step")
    assert not any("MPI" in name for name in functions(stacks[1]))
    done.has_frame(stacks[1], "begin_log", "sleep")
    frame = done.has_frame(stacks[1], "log_temperature", "log")
    reported = arguments(frame)
    assert (reported["step"], reported["temperature"]) == ("5", "34.0625")
    done.must_show("step=5, temperature=34.0625")


@pytest.mark.mpi
@pytest.mark.any_mpi
def test_hang_one_rank_in_a_running_job(build: Build, start_job: StartJob) -> None:
    program = build("hang_one_rank.c")
    page = (EXAMPLES / "README.md").read_text(encoding="utf-8")
    shown = re.search(r"\$ pgdb attach --batch -ex bt .*?```", page, re.DOTALL)
    assert shown is not None
    with start_job(RANKS, program) as job:
        # UCX, which MPICH may use, puts jumps into the C library itself.
        before = {rank: foreign_code(pid) for rank, pid in job.ranks.items()}
        finished = run_json("attach", *ex("bt"), job.pid, deadline_s=DEADLINE_S)
        done = Run(program, finished, shown[0])
        _hang_of_one_rank(done.stacks(), program, done)
        assert finished.status == 0
        assert {rank: foreign_code(pid) for rank, pid in job.ranks.items()} == before
        assert not any(is_traced(pid) for pid in job.ranks.values())
        # Ranks that wait in MPI need never go to sleep; rank 1 does.
        wait_progress(job.ranks[1])


@pytest.mark.mpi
@pytest.mark.any_mpi
def test_hang_one_rank_cause(run: RunSession) -> None:
    done = run("hang_one_rank_cause")
    stops = done.stops("breakpoint-hit")
    assert [*stops] == [1], "only rank 1 raises the alarm"
    done.has_frame([stops[1]["frame"]], "log_temperature", "alarm")
    reported = {
        each["name"]: each["value"] for each in done.by_rank("info args")[1]["record"]["items"]
    }
    assert (reported["step"], reported["temperature"]) == ("0", "95")
    done.must_show("[1] step = 0")
    assert done.values("print log_busy") == {1: "1"}
    assert "@alarm" in done.sources("list")[1]
    assert done.finished.answer("wait")["missing"]["running"] == "0,2-3"


@pytest.mark.mpi
@pytest.mark.any_mpi
def test_deadlock_tags(run: RunSession) -> None:
    done = run("deadlock_tags")
    stacks = done.stacks()
    for rank in (1, 2):
        assert is_in(stacks[rank], "MPI_Allreduce"), functions(stacks[rank])
        done.has_frame(stacks[rank], "main", "reduce")
    for rank, peer, marker in ((0, "3", "seam_first"), (3, "0", "seam_last")):
        assert is_in(stacks[rank], "MPI_Sendrecv"), functions(stacks[rank])
        reported = arguments(done.has_frame(stacks[rank], "swap_with", "swap"))
        # The partners fit, the tags do not: both send with 2 and wait for 1.
        assert (reported["peer"], reported["send_tag"], reported["receive_tag"]) == (peer, "2", "1")
        done.must_show(f"swap_with (peer={peer}, send_tag=2, receive_tag=1")
        done.has_frame(stacks[rank], "exchange_seam", marker)
    lines = done.lines("frame function exchange_seam")
    assert lines == {0: done.program.line("seam_first"), 3: done.program.line("seam_last")}
    listed = done.texts("list 38,44")[0]
    assert "@seam_first" in listed
    assert "@seam_last" in listed


@pytest.mark.mpi
@pytest.mark.any_mpi
def test_missing_collective(run: RunSession) -> None:
    done = run("missing_collective")
    stacks = done.stacks()
    for rank in (0, 1, 2):
        assert is_in(stacks[rank], "MPI_Allreduce"), functions(stacks[rank])
        done.has_frame(stacks[rank], "Gas::mean_energy", "reduce")
    assert is_in(stacks[3], "MPI_Barrier"), functions(stacks[3])
    done.has_frame(stacks[3], "report", "barrier")
    energy, report = done.program.line("energy"), done.program.line("report")
    assert done.lines("frame function main") == {0: energy, 1: energy, 2: energy, 3: report}
    assert done.values("print step") == dict.fromkeys(ALL, "0")
    assert done.values("print gas.particles_.size()") == {0: "100", 1: "100", 2: "100", 3: "0"}


@pytest.mark.mpi
@pytest.mark.any_mpi
def test_out_of_bounds(run: RunSession) -> None:
    done = run("out_of_bounds")
    stops = done.stops("signal-received")
    assert [*stops] == [3]
    assert stops[3]["signal"] == "SIGSEGV"
    done.must_show("[3] SIGSEGV, Segmentation fault")
    done.has_frame([stops[3]["frame"]], "fill", "write")
    assert sorted(done.stops("interrupted")) == [0, 1, 2]
    stacks = done.stacks()
    assert functions(stacks[3]) == ["fill", "main"]
    done.has_frame(stacks[3], "main", "fill")
    items = done.by_rank("info locals")[3]["record"]["items"]
    assert {each["name"]: each["value"] for each in items} == {"i": "66", "j": "0"}
    done.must_show("[3] i = 66")
    assert "rows = 72" in done.values("print *block")[3]
    assert done.lines("frame function main")[3] == done.program.line("fill")
    assert done.values("print block.rows") == {0: "64", 1: "64", 2: "64", 3: "72"}
    assert done.values("print ROWS_PER_RANK + 2") == dict.fromkeys(ALL, "66")
    assert done.finished.status == 5


@pytest.mark.mpi
@pytest.mark.any_mpi
def test_wrong_value(run: RunSession) -> None:
    done = run("wrong_value")
    stops = done.stops("breakpoint-hit")
    assert sorted(stops) == [*ALL]
    assert {place(each["frame"]) for each in stops.values()} == {done.program.at("reduce")}
    done.must_show(f"Breakpoint 1, wrong_value () at {done.program.at('reduce')}")
    assert done.values("print partial") == {0: "1", 1: "1", 2: "1", 3: "0.875"}
    widths = {rank: each["record"]["text"] for rank, each in done.by_rank("print width").items()}
    right = f"({', '.join(['0.125'] * 8)})"
    assert widths == {0: right, 1: right, 2: right, 3: right.removesuffix("0.125)") + "0)"}
    # The page shows what differs, with its place.
    done.must_show("(8)  [0-2] 0.125")
    done.must_show("[3]   0  <-- differs")
    assert done.finished.status == 0


@pytest.mark.mpi
@pytest.mark.any_mpi
def test_wrong_value_cause(run: RunSession) -> None:
    done = run("wrong_value_cause")
    stops = done.stops("breakpoint-hit")
    assert sorted(stops) == [*ALL]
    for stop in stops.values():
        done.has_frame([stop["frame"]], "rod::measure_cells", "last")
    assert done.values("print width(8)", 0) == dict.fromkeys(ALL, "0.125")
    assert done.values("print width(8)", 1) == {0: "0.125", 1: "0.125", 2: "0.125", 3: "0"}
    assert done.values("print right_wall") == {3: "4"}
    assert done.values("print face")[3].endswith(", 4)")
    assert done.finished.status == 0


@pytest.mark.mpi
@pytest.mark.any_mpi
def test_slow_rank(run: RunSession) -> None:
    done = run("slow_rank")
    looks = [done.stacks(number=0), done.stacks(number=1)]
    # A look is a sample: rank 2 computes 98 % of the time, and the others wait as long.
    assert any("advance_box" in functions(stacks[2]) for stacks in looks)
    for rank in (0, 1, 3):
        assert any(is_in(stacks[rank], "MPI_Allreduce") for stacks in looks)
    done.must_show(f"main (argc=1, argv=…) at {done.program.at('reduce')}")
    done.must_show(f"count=10000) at {done.program.at('move')}")
    iterations = done.by_rank("print iteration").values()
    # Rank 2 may have finished one while the others were stopped already.
    numbers = {int(each["record"]["text"]) for each in iterations}
    assert max(numbers) - min(numbers) <= 1, "nobody is ahead"
    assert done.values("print count") == {0: "200", 1: "200", 2: "10000", 3: "200"}


@pytest.mark.mpi
@pytest.mark.any_mpi
def test_python_mismatch(run: RunSession) -> None:
    done = run("python_mismatch")
    assert sorted(done.stops("breakpoint-hit")) == [*ALL]
    stacks = done.stacks("backtrace 4")
    for rank, call in ((0, "allgather"), (1, "barrier"), (2, "allgather"), (3, "allgather")):
        assert is_in(stacks[rank], f"MPI_{call.capitalize()}"), functions(stacks[rank])
        # mpi4py's function for the method: __pyx_pw_6mpi4py_3MPI_4Comm_287allgather.
        names = [name for name in functions(stacks[rank]) if name.endswith(call)]
        assert any("mpi4py" in name for name in names), functions(stacks[rank])
    done.must_show("PMPI_Allgather () from")
    done.must_show("PMPI_Barrier () from")


@pytest.mark.mpi
@pytest.mark.any_mpi
@pytest.mark.skipif(platform.machine() != "x86_64", reason="the session names a register of x86-64")
def test_python_mismatch_cause(run: RunSession) -> None:
    done = run("python_mismatch_cause")
    stops = done.stops("breakpoint-hit")
    where = {rank: stop["frame"]["function"] for rank, stop in stops.items()}
    assert [rank for rank in ALL if where[rank] == "PyErr_SetString"] == [1]
    reported = done.by_rank("x/s $rsi")
    assert [*reported] == [1]
    assert '"float division by zero"' in reported[1]["text"]
    done.must_show(reported[1]["text"])
    assert functions(done.stacks("backtrace 3")[1])[:1] == ["PyErr_SetString"]
