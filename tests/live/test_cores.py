"""Core files of ranks: the same commands and answers as for ranks that are stopped."""

from __future__ import annotations

import gzip
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

import pgdb
from pgdb import Notification
from pgdb.backend.gdb.core_factory import most_at_work
from pgdb.bootstrap_env import AGGREGATOR_NAME
from pgdb.frontend.api.notifications import RanksLost
from pgdb.ranks import RankSet
from pgdb.records import Stop
from tests.conftest import Build
from tests.support.cores import core, leave_cores, leave_many_cores, rank_variables
from tests.support.jobs import run_job
from tests.support.processes import wait_until
from tests.support.programs import Builder, Mpi, Program, find_mpi
from tests.support.pythons import interpreters
from tests.support.terminal import PGDB, ex, run_json, run_pgdb

pytestmark = pytest.mark.mpi

RANKS = 4
MANY = 40
DEADLINE_S = 120.0
REFUSED = "needs a process, and the ranks of this session are core files"


@pytest.fixture(scope="module")
def program(builder: Builder) -> Program:
    return builder.build(find_mpi("openmpi"), "cores.c")


@pytest.fixture(scope="module")
def cores(program: Program, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the cores of four ranks, in a folder for each."""
    folder = tmp_path_factory.mktemp("cores")
    line = find_mpi("openmpi").line(RANKS, program)
    assert len(leave_cores(line, folder, program.path)) == RANKS
    return folder


def test_ranks_are_found_and_their_deaths_shown(mpi: Mpi, build: Build, tmp_path: Path) -> None:
    program = build("cores.c")
    leave_cores(mpi.line(RANKS, program), tmp_path, program.path)
    done = run_json("core", *ex("bt", "print cell->step"), tmp_path)
    hello = done.objects[0]
    assert (hello["mode"], hello["ranks"]) == ("core", "0-3")
    stops = [each for line in done.of_type("stop") for each in line["classes"]]
    signals = {each["ranks"]: each["signal"] for each in stops}
    assert signals == {"0-2": "SIGSEGV", "3": "SIGABRT"}
    places = {each["ranks"]: each["frame"]["line"] for each in stops}
    assert places == {"0-2": program.line("die"), "3": program.line("abort")}
    details = {each["ranks"]: each.get("detail", "") for each in stops}
    # A handler of the MPI library has sent the signal again: the core has the second signal.
    assert details["0-2"].startswith("cause: an access through a null pointer"), details
    assert not details["3"]
    values = done.answer("print cell->step")["classes"]
    assert [each["value"] for each in values] == [10, 11, 12, 13]
    assert len(done.answer("backtrace")["classes"]) == 2


def test_all_that_looks_works_as_with_processes(cores: Path) -> None:
    commands = (
        "print $_rank * 100 + $_size",
        "print field[999]",
        "stat field",
        "info threads",
        "tree",
        "x/2dw cell",
        "assert cell->step == 10 + $_rank",
        "list compute,+1",
        "py import os",
    )
    done = run_pgdb("core", "--batch", *ex(*commands), cores)
    assert done.status == 0, done.out + done.err
    for rank in range(RANKS):
        assert f"[{rank}] $_rank * 100 + $_size = {rank * 100 + RANKS}" in done.out
        assert f"field[999] = {999 + 1000 * rank}" in done.out
    assert "main > compute > die" in done.out


def test_what_needs_a_process_is_refused_in_one_sentence(cores: Path) -> None:
    words = (
        "continue",
        "step",
        "finish",
        "break die",
        "watch field",
        "detach",
        "kill",
        "interrupt",
    )
    done = run_pgdb("core", "--batch", *ex(*words, "restart", "print cell->step"), cores)
    assert done.status == 1
    for word in words:
        (line,) = [each for each in done.out.splitlines() if each.startswith(f"'{word}")]
        assert REFUSED in line
    assert "the ranks are core files; there is no job to launch again" in done.out
    assert "[3] cell->step = 13" in done.out


def test_a_rank_without_a_core_is_named(program: Program, tmp_path: Path) -> None:
    line = [*find_mpi("openmpi").line(3, program), "1"]
    leave_cores(line, tmp_path, program.path)
    done = run_pgdb("core", "--batch", *ex("ranks"), tmp_path)
    assert "no core of rank 1 of 3 is among the files" in done.err
    assert "[0,2]" in done.out


def test_a_pattern_names_files_and_the_rest_is_named(cores: Path, tmp_path: Path) -> None:
    for rank in range(RANKS):
        shutil.copy(cores / f"r{rank}" / "core", tmp_path / f"core.{rank}")
    # A truncated core keeps its notes.
    with open(tmp_path / "core.1", "r+b") as file:
        file.truncate(200_000)
    packed = gzip.compress((tmp_path / "core.2").read_bytes(), 1)
    (tmp_path / "core.2").unlink()
    (tmp_path / "core.2.gz").write_bytes(packed)
    (tmp_path / "core.empty").touch()
    (tmp_path / "core.txt").write_text("no core")
    (tmp_path / "core.old").write_bytes(core(environment=rank_variables(0, 2, job="other")))
    command = "print cell->step"
    done = run_pgdb("core", "--batch", *ex(command), "core.*", cwd=tmp_path)
    for words in (
        f"left out: {tmp_path}/core.empty is empty",
        f"left out: {tmp_path}/core.txt is not a core file",
        f"{tmp_path}/core.old (of /opt/app/solver)",
        "rank 1 is truncated",
    ):
        assert words in done.err, done.err
    assert "[0] cell->step = 10" in done.out
    assert "[2] cell->step = 12" in done.out
    assert "[3] cell->step = 13" in done.out
    assert "its core file is truncated" in done.out
    assert "[1] error: " in done.out


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["core.none"], "core.none: there is no such file; "),
        (["core.*"], "core.*: no file has such a name; "),
        (["."], ".: there is no core file in this directory; "),
        ([], "core: give core files or their directory"),
        (["--exe", "none", "."], "--exe none: there is no such file"),
        (["--host", "elsewhere", "."], "--host is for running jobs"),
        (["--core-gdbs", "-1", "."], "--core-gdbs -1: at least 0 is needed"),
    ],
)
def test_an_input_without_cores_is_refused(
    tmp_path: Path, arguments: list[str], words: str
) -> None:
    done = run_pgdb("core", "--batch", *arguments, cwd=tmp_path)
    assert done.status == 2, done.err
    assert words in done.err


def test_a_file_that_is_no_core_ends_the_start_with_its_fault(tmp_path: Path) -> None:
    (tmp_path / "core").write_text("no core")
    done = run_pgdb("core", "--batch", tmp_path / "core")
    assert done.status == 3
    assert f"no core file can be used: {tmp_path}/core is not a core file" in done.err


def test_cores_of_another_program_are_refused(cores: Path, build_other: Program) -> None:
    done = run_pgdb("core", "--batch", "--exe", build_other.path, cores)
    assert done.status == 3
    assert "no core file is of this program; they are of " in done.err


@pytest.fixture
def build_other(builder: Builder) -> Program:
    return builder.build(find_mpi("openmpi"), "ring.c")


def test_a_program_at_another_place_is_given(cores: Path, program: Program, tmp_path: Path) -> None:
    moved = shutil.copy(program.path, tmp_path / "moved")
    done = run_pgdb("core", "--batch", "--exe", moved, *ex("print cell->step"), cores)
    assert "[3] cell->step = 13" in done.out, done.out + done.err


def test_one_gdb_serves_all_cores_and_keeps_what_the_user_has_chosen(cores: Path) -> None:
    commands = (
        "proc 0,1 frame 2",
        "set $mine = $_rank + 5",
        "print argc",
        "print $mine",
        "proc 2 print cell->step",
    )
    done = run_json("core", "--core-gdbs", 1, *ex(*commands), cores)
    argc = {each["ranks"]: each for each in done.answer("print argc")["classes"]}
    assert argc["0-1"]["value"] == 1
    assert "error" in argc["2-3"]["text"]
    mine = done.answer("print $mine")["classes"]
    assert [each["value"] for each in mine] == [5, 6, 7, 8]
    assert [each["value"] for each in done.answer("print cell->step")["classes"]] == [12]


def test_many_cores_answer_where_limits_allow_few_gdbs(builder: Builder, tmp_path: Path) -> None:
    program = builder.build(find_mpi("openmpi"), "many_cores.c")
    leave_many_cores(program.path, MANY, tmp_path)
    # Open files for 12 GDBs: the limit of most systems, 1024, is too low for 2000 core files.
    limited = ("sh", "-c", 'ulimit -n 100; exec "$@"', "sh", *PGDB)
    commands = ex("bt", "stat cell->step", "stat cell->step")
    done = run_json("core", *commands, tmp_path, command=limited)
    notes = "".join(each["text"] for each in done.of_type("output"))
    assert f"12 of {MANY} core files have a GDB at a time, as the limits of open files" in notes
    (stack,) = done.answer("backtrace")["classes"]
    assert stack["ranks"] == f"0-{MANY - 1}"
    assert [each["function"] for each in stack["record"]["frames"]] == ["die", "main"]
    sums = done.of_type("stat")
    assert len(sums) == 2
    for each in sums:
        assert (each["count"], each["low"], each["high"]) == (MANY, 10, 10 + MANY - 1)
        assert (each["at_low"], each["at_high"]) == ("0", str(MANY - 1))
    # More GDBs than the limits allow were asked for.
    done = run_json("core", "--core-gdbs=30", *ex("bt"), tmp_path, command=limited)
    notes = "".join(each["text"] for each in done.of_type("output"))
    assert f"12 of {MANY} core files have a GDB at a time, as the limits of open files" in notes
    assert [each["ranks"] for each in done.answer("backtrace")["classes"]] == [f"0-{MANY - 1}"]


COUNTS = """
import os, time
here = {!r}
own = os.path.join(here, str(os.getpid()))
open(own, "w").close()
time.sleep(0.2)
print(len(os.listdir(here)))
os.remove(own)
"""


def test_some_gdbs_of_many_work_at_a_time(builder: Builder, tmp_path: Path) -> None:
    program = builder.build(find_mpi("openmpi"), "many_cores.c")
    leave_many_cores(program.path, MANY, tmp_path)
    there, script = tmp_path / "there", tmp_path / "counts.py"
    there.mkdir()
    script.write_text(COUNTS.format(str(there)))
    command = f"python exec(open({str(script)!r}).read())"
    done = run_json("core", *ex(command), tmp_path)
    counts = {int(each["text"]) for each in done.answer(command)["classes"]}
    assert counts, done.out
    assert 1 < max(counts) <= most_at_work()


def test_a_gdb_that_dies_is_replaced(cores: Path) -> None:
    with pgdb.open_cores(cores) as session:
        assert session.evaluate("cell->step").values[3] == 13
        for pid in ours("gdb"):
            os.kill(pid, signal.SIGKILL)
        assert session.evaluate("cell->step").values[3] == 13


def test_an_aggregator_that_dies_is_replaced_and_reads_the_cores_again(cores: Path) -> None:
    lost: list[RankSet] = []

    def note(notification: Notification) -> None:
        if isinstance(notification, RanksLost):
            lost.append(notification.ranks)

    with pgdb.open_cores(cores, on_event=note) as session:
        for pid in ours(AGGREGATOR_NAME):
            os.kill(pid, signal.SIGKILL)
        wait_until(lambda: RankSet.union(lost) == session.set, "the ranks are lost", DEADLINE_S)
        again = session.reattach(timeout_s=DEADLINE_S)
        assert RankSet.union(each.ranks for each in again) == session.set
        assert session.evaluate("cell->step").values[3] == 13


def ours(name: str) -> list[int]:
    """Return the processes of a name that this test has started."""
    mark = os.environ["PGDB_TEST_RUN"].encode()
    found = []
    for each in Path("/proc").iterdir():
        try:
            is_wanted = each.name.isdecimal() and (each / "comm").read_text().strip() == name
            if is_wanted and mark in (each / "environ").read_bytes():
                found.append(int(each.name))
        except OSError:
            continue
    return found


def test_the_api_opens_cores(cores: Path) -> None:
    steps: list[str] = []
    with pgdb.open_cores([cores], ranks="1-3", on_step=steps.append) as session:
        assert session.mode == "core"
        assert str(session.set) == "1-3"
        assert session.start_answer is not None
        stops = [each.record for each in session.start_answer.classes]
        assert {each.signal for each in stops if isinstance(each, Stop)} == {"SIGSEGV", "SIGABRT"}
        with pytest.raises(pgdb.CommandError, match=REFUSED):
            session.continue_()
        with pytest.raises(pgdb.CommandError, match=REFUSED):
            session.break_at("die")
        assert str(session.tree().odd.ranks) == "3"
    assert any("environment in the cores" in each for each in steps)


def test_a_recording_of_cores_is_replayed(cores: Path, tmp_path: Path) -> None:
    file = tmp_path / "cores.pgdb"
    run_pgdb("core", "--batch", *ex("bt", f"session save {file}"), cores)
    done = run_json("replay", *ex("bt"), file)
    assert done.objects[0]["mode"] == "core"
    assert len(done.answer("backtrace")["classes"]) == 2


def write_core(pid: int, path: Path) -> None:
    """Write a core file of a process, which lives on."""
    words = ("-nx", "-q", "-batch", "-p", str(pid), "-ex", f"gcore {path}")
    subprocess.run(["gdb", *words], check=True, capture_output=True, timeout=DEADLINE_S)


def test_a_hang_is_explained_from_core_files(builder: Builder, tmp_path: Path) -> None:
    program, mpi = builder.build(find_mpi("openmpi"), "recv_recv.c"), find_mpi("openmpi")
    with run_job(builder, mpi.line(2, program), program, 2) as job:
        for rank, pid in job.ranks.items():
            write_core(pid, tmp_path / f"core.{rank}")
    done = run_pgdb("core", "--batch", *ex("why"), tmp_path)
    assert "living, as its core was written" in done.out
    assert "wait for each other" in done.out
    assert "core files do not run" in done.out


def test_a_report_of_core_files_is_written(cores: Path, tmp_path: Path) -> None:
    file = tmp_path / "report.txt"
    run_pgdb("core", "--batch", *ex(f"report {file}"), cores)
    text = file.read_text()
    assert "[0-2] SIGSEGV, Segmentation fault: die" in text
    assert "what:  ranks 0-2 received SIGSEGV" in text


@pytest.mark.parametrize("python", interpreters())
def test_a_core_of_python_has_its_frames(python: str, tmp_path: Path) -> None:
    script = tmp_path / "app.py"
    script.write_text(
        "import time\ndef inner(n):\n    print('ready', flush=True)\n    time.sleep(1000)\n"
        "def solve(step):\n    inner(step + 1)\nsolve(4)\n"
    )
    with subprocess.Popen([python, script], stdout=subprocess.PIPE) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == b"ready\n"
            write_core(process.pid, tmp_path / "core")
        finally:
            process.kill()
    done = run_json("core", *ex("py-bt", "py-locals", "print py:n"), f"{tmp_path}/core")
    (frames,) = done.answer("py-bt")["classes"]
    if python != sys.executable and "error" in frames["text"]:
        assert "pystack" in frames["text"] and "needs pystack" not in frames["text"]
        pytest.skip(f"pystack does not know this version of Python: {frames['text']}")
    assert [each["function"] for each in frames["record"]["frames"]] == [
        "inner",
        "solve",
        "<module>",
    ]
    assert "n = 5" in done.answer("py-locals")["classes"][0]["text"]
    assert "not read from core files" in done.answer("print py:n")["classes"][0]["text"]
