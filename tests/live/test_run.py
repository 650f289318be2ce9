"""Jobs under ``pgdb run``: events, exit statuses, reports, and output that nobody changes."""

from __future__ import annotations

import hashlib
import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import pgdb
from tests.conftest import Build
from tests.support import chatty
from tests.support.processes import is_traced, wait_until
from tests.support.programs import Mpi
from tests.support.supervised import DEADLINE_S, Run
from tests.support.terminal import (
    Finished,
    assert_nothing_left,
    marked,
    run_pgdb,
)

THEN_KILL = "the job is ended (--then kill)"

pytestmark = [pytest.mark.mpi, pytest.mark.gdb]


def run_job(folder: Path, *words: object, stdin: bytes = b"") -> tuple[Finished, dict[str, Any]]:
    """Run ``pgdb run`` with a report; return the result and the report."""
    path = folder / "report.json"
    finished = run_pgdb("run", "-o", path, *words, stdin=stdin, cwd=folder, deadline_s=DEADLINE_S)
    return finished, json.loads(path.read_bytes())


@pytest.mark.parametrize(
    ("kind", "status", "cause", "what"),
    [
        ("0", 6, "abort", "MPI_Send"),
        ("1", 6, "abort", "MPI_Abort(MPI_COMM_WORLD, 3)"),
        ("2", 8, "exit-code", "rank 2 ended with status 4"),
        ("5", 7, "assertion", "assertion 'value == 8' failed"),
    ],
)
def test_death_of_a_rank(
    mpi: Mpi, build: Build, tmp_path: Path, kind: str, status: int, cause: str, what: str
) -> None:
    program = build("deaths.c")
    finished, report = run_job(tmp_path, "--", *mpi.line(6, program, kind))
    if re.search("ORTE_ERROR_LOG: (Out of resource|.*show_help.c)", finished.err):
        pytest.skip("mpirun of Open MPI 4 has lost the message of the rank, which says the cause")
    assert finished.status == status, finished.err
    assert report["cause"]["kind"] == cause
    assert what in report["cause"]["what"]
    assert report["cause"]["who"] == kind
    assert f"what: rank {kind}" in finished.err
    if cause != "abort":
        # The others were looked at while the launcher did not know yet.
        # A class before them is that of a core file.
        others = report["classes"][-1]
        assert others["count"] == 5
        assert any("MPI_Barrier" in each["function"] for each in others["frames"])
        assert report["stops"][0]["ranks"] == kind
        (verdict,) = report["verdicts"]
        assert (verdict["kind"], verdict["ranks"]) == ("rank-left", kind)
        assert len(pgdb.RankSet.parse(verdict["victims"])) == 5


CAUGHT = """
import os, time, traceback
rank = os.environ.get("OMPI_COMM_WORLD_RANK") or os.environ["PMI_RANK"]
if rank == "0":
    try:
        raise ValueError("no grid left")
    except ValueError:
        traceback.print_exc()
    open("written", "w").close()
    time.sleep(600)
while rank == "1" and not os.path.exists("written"):
    time.sleep(0.01)
os._exit(9)
"""


@pytest.mark.any_mpi
def test_an_exception_that_a_rank_has_caught_is_none_that_ended_another(
    mpi: Mpi, tmp_path: Path
) -> None:
    (tmp_path / "caught.py").write_text(CAUGHT)
    file, line = tmp_path / "report.json", mpi.line(2, sys.executable, "caught.py")
    finished = run_pgdb("run", "-o", file, "--", *line, cwd=tmp_path, has_tracebacks=True)
    report = json.loads(file.read_bytes())
    assert finished.status == 8, finished.err
    assert report["cause"]["kind"] == "exit-code"
    assert re.fullmatch(
        r"rank 1 ended with status 9; the job said: Python exception ValueError: no grid left at "
        r"<module> at caught.py:\d",
        report["cause"]["what"],
    ), report["cause"]


@pytest.mark.any_mpi  # of hydra's, two orders of the ranks' ends make two statuses
def test_job_keeps_its_exit_status(mpi: Mpi, build: Build, tmp_path: Path) -> None:
    line = mpi.line(3, build("deaths.c"), "2")
    plain = subprocess.run(line, capture_output=True, check=False)
    finished = run_pgdb("run", "--exit-code", "job", "-q", "--", *line, cwd=tmp_path)
    assert finished.status == plain.returncode


@pytest.mark.any_mpi
def test_signal_and_core(mpi: Mpi, build: Build, tmp_path: Path) -> None:
    finished, report = run_job(tmp_path, "--", *mpi.line(2, build("crash.c")))
    assert finished.status == 5
    died = "rank 0 died of SIGSEGV, Segmentation fault"
    said = report["cause"]["what"]
    if "'pgdb core' opens" in str(report["notes"]):
        assert said.startswith(f"{died}; cause: an access through a null pointer")
        assert report["cause"]["where"].startswith("write_through at ")
        assert report["classes"][0]["ranks"] == "0"
    else:
        assert said == died and "core" in str(report["notes"])


def test_job_that_ends_well_has_its_output_and_nothing_more(
    mpi: Mpi, build: Build, tmp_path: Path
) -> None:
    data = bytes(range(256)) * 16  # hydra gives up if a rank reads more than it sends too slowly
    line = mpi.line(2, build("unattended.c"), "copy")
    plain = subprocess.run(line, input=data, capture_output=True, check=True)
    finished = run_pgdb("run", "--", *line, stdin=data, cwd=tmp_path)
    assert finished.status == 0
    assert finished.stdout == plain.stdout == data
    assert finished.stderr == plain.stderr


@pytest.mark.any_mpi
def test_much_output_passes_whole(mpi: Mpi, build: Build, tmp_path: Path) -> None:
    line = mpi.line(2, build("unattended.c"), "flood", "100")
    piece = bytes(at % 251 for at in range(1 << 20))
    wanted = hashlib.sha256()
    for _ in range(100):
        wanted.update(piece)
    finished = run_pgdb("run", "--", *line, cwd=tmp_path)
    assert finished.status == 0
    assert hashlib.sha256(finished.stdout).digest() == wanted.digest()


def test_output_of_each_rank_is_in_the_report(mpi: Mpi, build: Build, tmp_path: Path) -> None:
    line = mpi.line(3, build("chatty.c"), str(chatty.LINES), "die")
    finished, report = run_job(tmp_path, "--output-by-rank", "--", *line)
    assert finished.status == 8, finished.err
    single = chatty.of_single_ranks(report)
    assert {each["ranks"] for each in single} == {"0", "1", "2"}
    for rank in range(3):
        text = "".join(each["text"] for each in single if each["ranks"] == str(rank))
        assert f"line {chatty.LINES - 1} of rank {rank}" in text
        assert f"rank {rank} is through" in text
        assert f"of rank {(rank + 1) % 3}" not in text
        # Launchers mix the lines of ranks; no byte of a rank is lost.
        assert chatty.size_in(report, rank) == chatty.size_of(rank)
    # The rank that failed comes first.
    assert single[0]["ranks"] == "1"


@pytest.mark.any_mpi
def test_ranks_beside_one_that_the_kernel_has_killed_are_looked_at(
    mpi: Mpi, build: Build, tmp_path: Path
) -> None:
    _, report = run_job(tmp_path, "--", *mpi.line(3, build("deaths.c"), "8"))
    assert report["cause"]["what"].startswith("rank 2 died of SIGKILL")
    assert sum(each["count"] for each in report["classes"]) == 2, report["notes"]
    assert report["states"].get("running", "") == ""


@pytest.mark.any_mpi
def test_ranks_that_pgdb_has_ended_are_no_part_of_the_failure(
    mpi: Mpi, build: Build, tmp_path: Path
) -> None:
    line = mpi.line(3, build("deaths.c"), "9")
    finished, report = run_job(tmp_path, "--then", "kill", "--", *line)
    assert finished.status == 5, finished.err
    assert report["cause"]["who"] == "2"
    assert report["cause"]["what"].startswith("rank 2 died of SIGTERM")


def test_the_words_before_an_abort_are_in_the_summary(
    mpi: Mpi, build: Build, tmp_path: Path
) -> None:
    finished, report = run_job(tmp_path, "--", *mpi.line(3, build("deaths.c"), "10"))
    assert finished.status == 5, finished.err
    assert report["cause"]["who"] == "2"
    assert "the last line of the job: no grid left" in report["cause"]["what"]


@pytest.mark.any_mpi
def test_output_that_the_launcher_has_mixed_is_called_so(
    mpi: Mpi, build: Build, tmp_path: Path
) -> None:
    _, report = run_job(tmp_path, "--", *mpi.line(2, build("chatty.c")))
    assert not chatty.of_single_ranks(report)
    assert any("--output-by-rank" in each for each in report["notes"])


@pytest.mark.any_mpi
@pytest.mark.parametrize(
    ("kind", "place"), [("recv", "PMPI_Recv"), ("test", "PMPI_Test"), ("sleep", "sleep")]
)
def test_hang(mpi: Mpi, build: Build, tmp_path: Path, kind: str, place: str) -> None:
    program = build("unattended.c")
    options = ("--hang-after", "6s", "--then", "kill", "--")
    finished, report = run_job(tmp_path, *options, *mpi.line(2, program, kind))
    assert finished.status == 10, finished.err
    assert report["cause"]["kind"] == "hang"
    assert place in report["cause"]["where"]
    assert program.at(kind) in report["cause"]["where"]
    assert "no progress for 6 s" in finished.err
    # PGDB itself has ended the ranks, and says so. The end of one may come after the report.
    ended = [each["text"] for each in report["stops"] if each.get("has_ended")]
    assert ended and all("has ended the job" in each for each in ended), report["stops"]
    assert [each["text"] for each in report["timeline"]].count(THEN_KILL) == 1
    # The ends that PGDB itself causes leave no doubt about the stacks.
    assert not any("stacks of the others" in each for each in report["notes"])
    if kind == "recv":
        reason = report["verdicts"][0]
        assert (reason["kind"], reason["ranks"]) == ("unmatched-receive", "0")
        assert reason["text"] in report["cause"]["what"]


@pytest.mark.any_mpi
def test_ranks_without_source_hang_in_mpi(mpi: Mpi, build: Build, tmp_path: Path) -> None:
    # The frame that the debugger selects is one of MPI.
    program = build("unattended.c", "-g0")
    options = ("--hang-after", "6s", "--then", "kill", "--")
    finished, report = run_job(tmp_path, *options, *mpi.line(2, program, "leave"))
    assert finished.status == 10, finished.err
    assert report["cause"]["kind"] == "hang"


@pytest.mark.any_mpi
@pytest.mark.parametrize("kind", ["compute", "exchange"])
def test_job_that_makes_progress_without_output_does_not_hang(
    mpi: Mpi, build: Build, tmp_path: Path, kind: str
) -> None:
    log, go = tmp_path / "looks.log", tmp_path / "go"
    options = ("--hang-after", "4s", "--then", "kill", "--log", log, "--")
    with Run(tmp_path, *options, *mpi.line(2, build("unattended.c"), kind, go)) as run:
        # Each look is a session, and the log has its end.
        wait_until(
            lambda: log.exists() and '"event": "end"' in log.read_text(), "a look", DEADLINE_S
        )
        assert run.process.poll() is None
        go.touch()
        finished = run.finish()
    report = json.loads(run.report.read_bytes())
    assert finished.status == 0, finished.err
    assert report["cause"]["kind"] == "none"
    assert any("make progress without output" in each["text"] for each in report["timeline"])


@pytest.mark.any_mpi
def test_batch_system_ends_the_job(mpi: Mpi, build: Build, tmp_path: Path) -> None:
    program = build("unattended.c")
    with Run(tmp_path, "--", *mpi.line(2, program, "sleep")) as run:
        run.wait_ranks(2, program.path)
        run.process.send_signal(signal.SIGTERM)
        finished = run.finish()
    assert finished.status == 12
    report = json.loads(run.report.read_bytes())
    assert report["cause"]["kind"] == "ended"
    assert "SIGTERM" in report["cause"]["what"]
    assert_nothing_left(run.mark)


@pytest.mark.any_mpi
def test_signal_while_a_job_starts_under_gdb_ends_it(
    mpi: Mpi, build: Build, tmp_path: Path
) -> None:
    program = build("unattended.c")
    with Run(tmp_path, "--gdb", "--", *mpi.line(2, program, "sleep")) as run:
        wait_until(lambda: any("hold.py" in each for each in marked(run.mark).values()), "the job")
        run.process.send_signal(signal.SIGHUP)
        finished = run.finish()
    assert finished.status == 12
    expected = "SIGHUP came to pgdb run while the job was starting: the job is ended"
    assert finished.err == f"pgdb: {expected}\n"
    assert_nothing_left(run.mark)


SIGNAL_AT_START = """
import os, signal, sys
from pgdb.frontend.run.job_process import JobProcess
from pgdb.frontend.ui.main import run
begin = JobProcess.start
def start(argv):
    os.kill(os.getpid(), signal.SIGTERM)
    return begin(argv)
JobProcess.start = start
run()
"""


def test_signal_while_the_launcher_starts_is_passed_on(tmp_path: Path) -> None:
    command = (sys.executable, "-c", SIGNAL_AT_START)
    finished = run_pgdb("run", "--", "sleep", "1000", command=command, cwd=tmp_path)
    assert finished.status == 12, finished.err
    assert "pgdb run has passed SIGTERM on to the job" in finished.err


@pytest.mark.any_mpi
def test_report_on_request_lets_the_job_run(mpi: Mpi, build: Build, tmp_path: Path) -> None:
    program = build("unattended.c")
    with Run(tmp_path, "--", *mpi.line(2, program, "recv")) as run:
        ranks = run.wait_ranks(2, program.path)
        run.process.send_signal(signal.SIGUSR1)
        numbered = tmp_path / "report.1.json"
        wait_until(numbered.exists, "the report")
        report = json.loads(numbered.read_bytes())
        assert report["cause"]["kind"] == "request"
        assert sum(each["count"] for each in report["classes"]) == 2
        wait_until(lambda: not any(map(is_traced, ranks)), "ranks without a debugger")
        assert run.process.poll() is None
        run.process.send_signal(signal.SIGTERM)
        run.finish()


@pytest.mark.any_mpi
def test_job_outlives_its_supervisor(mpi: Mpi, build: Build, tmp_path: Path) -> None:
    program = build("unattended.c")
    with Run(tmp_path, "--hang-after", "1h", "--", *mpi.line(2, program, "sleep")) as run:
        ranks = run.wait_ranks(2, program.path)
        run.process.kill()
        run.process.wait()
        assert run.wait_ranks(2, program.path) == ranks


@pytest.mark.any_mpi
def test_rank_is_held_for_a_debugger(mpi: Mpi, build: Build, tmp_path: Path) -> None:
    program = build("deaths.c")
    with Run(tmp_path, "--then", "hold", "--", *mpi.line(3, program, "2")) as run:
        assert run.process.stderr is not None
        line = b""
        while b"pgdb attach" not in line:
            line = run.process.stderr.readline()
            assert line, "pgdb run has ended"
        assert os.uname().nodename in line.decode()
        pid = line.decode().split("pgdb attach ")[1].split("'")[0]
        attached = run_pgdb("attach", "--batch", "-ex", "bt 1", pid, leaves=True)
        assert "[0-1]" in attached.out, attached.out + attached.err
        # The launcher names the watcher as rank 2, which says how the rank has ended.
        assert re.search(r"^\[2\] +exited with code 4$", attached.out, re.M), attached.out
        assert "rank_watcher" not in attached.out
        os.kill(int(pid), signal.SIGTERM)
        assert run.finish().status == 8


@pytest.mark.any_mpi
def test_death_is_the_cause_although_the_batch_system_ends_the_job_later(
    mpi: Mpi, build: Build, tmp_path: Path
) -> None:
    program = build("deaths.c")
    with Run(tmp_path, "--then", "hold", "--", *mpi.line(3, program, "2")) as run:
        assert run.process.stderr is not None
        while b"pgdb attach" not in run.process.stderr.readline():
            assert run.process.poll() is None
        run.process.send_signal(signal.SIGTERM)
        assert run.finish().status == 8
    report = json.loads(run.report.read_bytes())
    assert report["cause"]["what"] == "rank 2 ended with status 4"
    assert any("SIGTERM came" in each["text"] for each in report["timeline"])
    assert_nothing_left(run.mark)


@pytest.mark.any_mpi
def test_report_that_cannot_be_written_is_printed(mpi: Mpi, build: Build, tmp_path: Path) -> None:
    line = mpi.line(3, build("deaths.c"), "2")
    finished = run_pgdb("run", "-o", "/nonexistent/r.txt", "--", *line, cwd=tmp_path)
    assert finished.status == 8
    assert "there is no directory /nonexistent" in finished.err
    assert "what:  rank 2 ended with status 4" in finished.err


def test_process_that_leaves_the_job_does_not_keep_pgdb(tmp_path: Path) -> None:
    code = "import os, time; os.fork() or (os.setsid(), time.sleep(1000))"
    with Run(tmp_path, "--", sys.executable, "-c", code) as run:
        assert run.process.wait(DEADLINE_S) == 0
        assert "keeps its output open" in run.report.read_text("utf-8")


def test_reader_of_the_output_that_leaves_is_the_cause(tmp_path: Path) -> None:
    with Run(tmp_path, "--", "cat", "/dev/zero") as run:
        assert run.process.stdout is not None
        assert run.process.stdout.read(1)
        run.process.stdout.close()
        assert run.process.wait(DEADLINE_S) == 12
        cause = json.loads(run.report.read_bytes())["cause"]
    assert cause["what"] == "the reader of the job's stdout has left (SIGPIPE)"


def test_program_without_a_launcher(tmp_path: Path) -> None:
    code = "import os, sys; print(sys.stdin.read(), end='', flush=True); os.kill(os.getpid(), 11)"
    finished, report = run_job(tmp_path, "--", sys.executable, "-c", code, stdin=b"hello")
    assert finished.stdout == b"hello"
    assert finished.status == 5
    assert report["cause"]["who"] == "0"
    assert run_pgdb("run", "--", "/nonexistent/app").status == 3
    assert run_pgdb("run", "-o", "x.png", "--", "true").status == 2


@pytest.mark.parametrize(
    ("kind", "status", "cause", "place"),
    [
        ("1", 6, "abort", "die at"),
        ("2", 8, "exit-code", "die at"),
        ("5", 7, "assertion", "die at"),
    ],
)
@pytest.mark.any_mpi
def test_death_under_gdb_has_the_stack_of_its_moment(
    mpi: Mpi, build: Build, tmp_path: Path, kind: str, status: int, cause: str, place: str
) -> None:
    program = build("deaths.c")
    finished, report = run_job(tmp_path, "--gdb", "--", *mpi.line(6, program, kind))
    assert finished.status == status, finished.err
    assert report["cause"]["kind"] == cause
    assert report["cause"]["who"] == kind
    assert place in report["cause"]["where"]
    assert sum(each["count"] for each in report["classes"]) == 6


@pytest.mark.any_mpi
def test_an_end_without_a_stop_under_gdb_is_the_cause(
    mpi: Mpi, build: Build, tmp_path: Path
) -> None:
    line = mpi.line(3, build("unattended.c"), "quit")
    finished, report = run_job(tmp_path, "--gdb", "--then", "kill", "--", *line)
    assert finished.status == 8, finished.err
    assert (report["cause"]["kind"], report["cause"]["who"]) == ("exit-code", "0")
    # The others were looked at before the launcher has ended them.
    assert sum(each["count"] for each in report["classes"]) == 2


@pytest.mark.any_mpi
def test_values_traces_and_checks_at_locations(mpi: Mpi, build: Build, tmp_path: Path) -> None:
    program = build("deaths.c")
    at = program.at("wait")
    options = ["--break-at", f"{at},rank,size", "--trace-at", f"{at},rank*2"]
    options += ["--check", "rank in 0..1", "--at", at, "--check", "size > 0", "--at", at]
    # A check fails before any rank comes to the next line, and no rank comes to the last one.
    later, never = f"deaths.c:{program.line('wait') + 1}", program.at("exit")
    options += ["--trace-at", f"{later},rank*3", "--break-at", never]
    finished, report = run_job(tmp_path, *options, "--", *mpi.line(3, program, "7"))
    assert finished.status == 1, finished.err
    assert report["cause"]["kind"] == "check"
    assert report["cause"]["who"] == "2"
    texts = [each["text"] for each in report["timeline"]]
    assert f"{at}: rank = 1" in texts and f"{at}: size = 3" in texts
    assert any("[0] 0, [1] 2, [2] 4" in each for each in texts)
    assert any("[0] 0, [1] 3, [2] 6" in each for each in texts), texts
    assert f"no rank has come to {never}" in report["notes"]


@pytest.mark.any_mpi
def test_stops_at_locations_come_between_snapshots(mpi: Mpi, build: Build, tmp_path: Path) -> None:
    program = build("deaths.c")
    # A look lasts longer than that.
    words = ["--snapshot-every", "0.01s", "--break-at", f"{program.at('wait')},rank"]
    finished, report = run_job(tmp_path, *words, "--", *mpi.line(2, program, "99"))
    assert finished.status == 0, finished.err
    values = [each["text"] for each in report["timeline"] if each["kind"] == "value"]
    assert any("rank = " in each for each in values)
    assert (tmp_path / "report.1.json").exists()


@pytest.mark.any_mpi
def test_a_condition_that_cannot_be_checked_has_not_failed(
    mpi: Mpi, build: Build, tmp_path: Path
) -> None:
    program = build("deaths.c")
    options = ["--check", "nothing > 1", "--at", program.at("wait"), "--then", "kill"]
    finished, report = run_job(tmp_path, *options, "--", *mpi.line(3, program, "7"))
    assert finished.status == 1, finished.err
    assert "could not be checked" in report["cause"]["what"]
    assert 'No symbol "nothing"' in report["cause"]["what"]
    # The job has gone on to its end.
    assert report["job"]["exit_code"] == 0


@pytest.mark.any_mpi
def test_location_that_does_not_exist_ends_the_run(mpi: Mpi, build: Build, tmp_path: Path) -> None:
    line = mpi.line(2, build("deaths.c"), "7")
    finished = run_pgdb("run", "--break-at", "nowhere.c:3", "--", *line, cwd=tmp_path)
    assert finished.status == 3
    assert "nowhere.c" in finished.err


@pytest.mark.any_mpi
def test_output_and_input_under_gdb(mpi: Mpi, build: Build, tmp_path: Path) -> None:
    data = bytes(range(256)) * 16
    line = mpi.line(2, build("unattended.c"), "copy")
    finished = run_pgdb("run", "--gdb", "--", *line, stdin=data, cwd=tmp_path)
    assert (finished.status, finished.stdout, finished.stderr) == (0, data, b"")
