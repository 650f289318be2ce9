"""Faults at one rank, in PGDB or in the job: the other ranks go on, and nothing is left in them.

Faults of the ranks are in ``test_rank_faults.py``, those of aggregators and hosts in
``test_overlay_faults.py`` and ``test_hosts_faults.py``.
"""

from __future__ import annotations

import os
import re
import shutil
import signal
from pathlib import Path

import pytest

import pgdb
from pgdb.ranks import RankSet
from pgdb.records import Failure, Gone, Stop, Text
from tests.conftest import LIVE_TIMEOUT_S, Build, StartJob
from tests.support.jobs import gdb_of
from tests.support.losses import Heard, attached, hang, stopped_at
from tests.support.processes import parent_of, require_calls, wait_until, write_gdb
from tests.support.terminal import DEADLINE_S, PGDB, assert_untouched, ex, run_pgdb, wait_broken

pytestmark = [pytest.mark.mpi, pytest.mark.any_mpi]


def test_ranks_whose_gdbs_are_killed_come_back(build: Build, start_job: StartJob) -> None:
    program = build("storm.c")
    heard = Heard()
    with start_job(5, program) as job:
        with attached(job, heard) as session:
            # One of a rank that is stopped,
            os.kill(gdb_of(job, 1), signal.SIGKILL)
            wait_until(lambda: heard.of(Gone) == RankSet([1]), "the loss is reported", DEADLINE_S)
            assert heard.why_gone(1) == [
                "GDB was ended by signal 9, which can be for want of memory"
            ]
            assert_untouched({1: job.ranks[1]})
            others = session.set - RankSet([1])
            assert session.evaluate("hit_count > 0").values == dict.fromkeys(others, 1)
            # of which is then known what it is to have,
            session.break_at(program.at("done"))
            session.break_at(program.at("loop"), condition="i < 0")
            session.delete(2)
            session.break_at("hit", condition="hit_count >= 0")
            session.change_breakpoints("disable", ["3"])
            assert session.ranks("@lost").set == RankSet([1])
            # and two of ranks that run, with a breakpoint that they do not come to.
            session.ranks(others).continue_(wait=False).check()
            wait_broken({rank: job.ranks[rank] for rank in (2, 3)})
            for rank in (2, 3):
                os.kill(gdb_of(job, rank), signal.SIGKILL)
            lost = RankSet([1, 2, 3])
            wait_until(lambda: heard.of(Gone) == lost, "the losses are reported", DEADLINE_S)
            assert_untouched({rank: job.ranks[rank] for rank in lost})
            left = session.set - lost
            assert session.interrupt().check().ranks == left

            back = session.reattach()
            taken = RankSet.union(each.ranks for each in back if isinstance(each.record, Stop))
            assert taken == lost
            (had,) = [each for each in back if isinstance(each.record, Text)]
            assert had.ranks == left and "answers" in had.filled.text
            assert session.ranks("@stopped").set == session.set
            made = session.breakpoints().check()
            assert {(each.number, each.enabled) for each in made.for_rank(1).breakpoints} == {
                (1, True),
                (3, False),
            }
            assert len({made.for_rank(rank).breakpoints[1].condition for rank in range(5)}) == 1
            session.change_breakpoints("enable", ["3"]).check()
            assert stopped_at(session.continue_(timeout_s=DEADLINE_S).check(), 3) == session.set
        assert_untouched(job.ranks)


def test_a_gdb_that_hangs_costs_its_own_rank_alone(build: Build, start_job: StartJob) -> None:
    heard = Heard()
    with start_job(4, build("storm.c")) as job:
        with attached(job, heard) as session:
            others = session.set - RankSet([1])
            # It hangs for good.
            hung = session.ranks("1").script(hang(100_000), timeout_s=1)
            assert hung.missing.late == RankSet([1])
            # The others' answers do not wait for its deadline, which is that of this test as well.
            answer = session.evaluate("1", timeout_s=LIVE_TIMEOUT_S)
            assert set(answer.values) == set(others)
            refused = answer.for_rank(1)
            assert isinstance(refused, Failure) and "'reattach'" in refused.message
            session.break_at("hit")
            assert stopped_at(session.continue_(timeout_s=DEADLINE_S), 1) == others
            back = session.ranks("1").reattach().check()
            assert isinstance(back.for_rank(1), Stop)
            assert stopped_at(session.continue_(timeout_s=DEADLINE_S).check(), 1) == session.set

            # One that is stopped answers late, when it runs on.
            gdb = gdb_of(job, 2)
            os.kill(gdb, signal.SIGSTOP)
            answer = session.evaluate("6 * 7", timeout_s=1)
            assert answer.missing.late == RankSet([2])
            assert set(answer.values) == set(session.set - RankSet([2]))
            os.kill(gdb, signal.SIGCONT)

            def late() -> list[pgdb.Answer]:
                return [
                    reported.answer for reported in list(heard.all) if reported.answer is not None
                ]

            wait_until(
                lambda: any(each.values == {2: 42} for each in late()),
                "the late answer is reported",
                DEADLINE_S,
            )
            # A session that has such ones is closed all the same.
            os.kill(gdb, signal.SIGSTOP)
            session.ranks("3").script(hang(100_000), timeout_s=1)
        assert_untouched(job.ranks)


def test_what_is_not_done_in_time_is_done_later(build: Build, start_job: StartJob) -> None:
    heard = Heard()

    def notices() -> str:
        return "\n".join(reported.text for reported in list(heard.all) if reported.kind == "notice")

    with start_job(3, build("storm.c")) as job:
        with attached(job, heard) as session:
            gdb = gdb_of(job, 1)
            os.kill(gdb, signal.SIGSTOP)
            answer = session.detach(timeout_s=1)
            assert answer.missing.late == RankSet([1])
            os.kill(gdb, signal.SIGCONT)
            wait_until(
                lambda: "[1] detached; they run on" in notices(), "it is detached", DEADLINE_S
            )
            session.reattach().check()

            # Whether a GDB hangs takes longer to find out than the command has.
            gdb = gdb_of(job, 1)
            assert session.ranks("1").script(hang(60), timeout_s=0.1).missing.late == RankSet([1])
            answer = session.ranks("1").reattach(timeout_s=0.1)
            assert answer.missing.late == RankSet([1])
            assert set(session.ranks("0,2").evaluate("6 * 7", timeout_s=DEADLINE_S).values) == {
                0,
                2,
            }

            wait_until(lambda: not os.path.exists(f"/proc/{gdb}"), "that GDB is ended", DEADLINE_S)
            wait_until(
                lambda: session.ranks("1").evaluate("6 * 7", timeout_s=1).values == {1: 42},
                "another one has the rank",
                DEADLINE_S,
            )
            assert gdb_of(job, 1) != gdb
        assert_untouched(job.ranks)


LITTLE_BYTES = 100_000_000
"""Enough for GDB to start, and too little for the symbols of a rank."""


@pytest.mark.parametrize(
    ("condition", "reported"),
    [
        # That of the nursery, each of the first GDBs that ranks get without one, and each GDB.
        ('case "$*" in *forking*) true;; *) false;; esac', "GDBs start without the nursery"),
        ('[ "$#" -gt 1 ] && mkdir $0.$((i += 1)) 2>/dev/null', "GDBs start again one at a time"),
    ],
)
def test_a_host_without_memory(
    build: Build, start_job: StartJob, tmp_path: Path, condition: str, reported: str
) -> None:
    limited = f'prlimit --as={LITTLE_BYTES} {shutil.which("gdb")} "$@"'
    gdb = write_gdb(tmp_path, f"for i in 0 1 2; do if {condition}; then exec {limited}; fi; done")
    heard = Heard()
    nursery = "nursery" in reported
    with start_job(3, build("storm.c")) as job:
        with pgdb.attach(job.pid, gdb=gdb, nursery=nursery, on_event=heard) as session:
            assert session.evaluate("hit_count > 0").check().values == dict.fromkeys(range(3), 1)
            notices = [each.text for each in heard.all if each.kind == "notice"]
            assert len(notices) == 1, notices
            assert notices[0].startswith(f"{reported}, which takes longer: "), notices
            assert [heard.why_gone(rank) for rank in job.ranks] == [[]] * 3
            # Before a rank, the kernel takes one of these if it lacks memory itself.
            for rank in job.ranks:
                assert Path(f"/proc/{gdb_of(job, rank)}/oom_score_adj").read_text() == "1000\n"
        assert_untouched(job.ranks)


def test_ranks_that_need_more_open_files_than_the_soft_limit(
    build: Build, start_job: StartJob
) -> None:
    """An aggregator raises its own limit; GDBs, and what users run in them, keep the user's."""
    few = 42
    limit = "python import resource; print(resource.getrlimit(resource.RLIMIT_NOFILE)[0])"
    limited = ("prlimit", f"--nofile={few}:", *PGDB)
    with start_job(8, build("storm.c")) as job:
        for nursery in ((), ("--no-nursery",)):
            shown = ex("print hit_count > 0", limit)
            done = run_pgdb("attach", "--batch", *nursery, *shown, job.pid, command=limited)
            assert done.status == 0, done.out + done.err
            assert "\n[0-7] hit_count > 0 = 1\n" in done.out
            assert f"\n[0-7] {few}\n" in done.out
        assert_untouched(job.ranks)


def test_ranks_that_need_more_open_files_than_the_hard_limit(
    build: Build, start_job: StartJob
) -> None:
    """The aggregator keeps files to look at the ranks: without these, a live rank looks ended."""
    # An ordinary user's aggregator keeps the programs and libraries of the ranks open.
    files = 100 if os.geteuid() == 0 else 292
    limited = ("prlimit", f"--nofile={files}:{files}", *PGDB)
    with start_job(8, build("storm.c")) as job:
        done = run_pgdb("attach", "--batch", *ex("print hit_count > 0"), job.pid, command=limited)
        assert done.status == 4, done.out + done.err
        refused = re.search(r"^\[(\S+)\] error: no GDB: the limit of open files .*", done.out, re.M)
        assert refused is not None, done.out
        assert "(ulimit -Hn) is enough for 6 GDBs" in refused[0]
        assert "has ended" not in done.out
        left = RankSet(range(8)) - RankSet.parse(refused[1])
        assert len(left) == 6 and f"\n[{left}] hit_count > 0 = 1\n" in done.out
        assert_untouched(job.ranks)


def test_no_gdb_gets_the_memory_that_it_needs(
    build: Build, start_job: StartJob, tmp_path: Path
) -> None:
    with start_job(2, build("storm.c")) as job:
        gdb = write_gdb(tmp_path, f'[ "$#" -gt 1 ] && ulimit -v {LITTLE_BYTES >> 10}')
        with pytest.raises(pgdb.PgdbError, match=r"^\[0.*GDB .*ended .*memory$"):
            pgdb.attach(job.pid, gdb=gdb, nursery=False)
        assert_untouched(job.ranks)
        with attached(job) as session:
            assert session.evaluate("hit_count > 0").check().values == {0: 1, 1: 1}
        assert_untouched(job.ranks)


def test_no_gdb_can_be_had_and_all_ranks_say_why(
    build: Build, start_job: StartJob, tmp_path: Path
) -> None:
    with start_job(4, build("storm.c")) as job:
        gdb = write_gdb(tmp_path, '[ "$#" -gt 1 ] && { echo "no licence" >&2; exit 7; }')
        with pytest.raises(pgdb.PgdbError, match=r"^\[0-3\] GDB ended \(7\): no licence$"):
            pgdb.attach(job.pid, gdb=gdb, nursery=False)
        assert_untouched(job.ranks)


def test_gdbs_that_fail_in_many_ways_are_summed_up(
    build: Build, start_job: StartJob, tmp_path: Path
) -> None:
    count = "i=1; while ! mkdir $0.$i 2>/dev/null; do i=$((i + 1)); done"
    with start_job(6, build("storm.c")) as job:
        gdb = write_gdb(tmp_path, f'[ "$#" -gt 1 ] && {{ {count}; exit $i; }}')
        reported = r"^(\[\d\] GDB ended \(\d+\); ){4}\[\d[,-]\d\] for other reasons$"
        with pytest.raises(pgdb.PgdbError, match=reported):
            pgdb.attach(job.pid, gdb=gdb, nursery=False)
        assert_untouched(job.ranks)


def test_a_gdb_without_python(build: Build, start_job: StartJob, tmp_path: Path) -> None:
    """One that says so of every such command, as one built without it does."""
    lines = (
        "for each do shift",
        "case $each in python*) each=no-such-command;; esac",
        'set -- "$@" "$each"',
        "done",
    )
    with start_job(3, build("storm.c")) as job:
        line = ("attach", "--gdb", write_gdb(tmp_path, *lines), "--batch", *ex("bt", "p 6 * 7"))
        finished = run_pgdb(*line, job.pid)
        assert finished.status == 0, finished.out
        assert finished.out.count("GDBs start without the nursery, which takes longer: ") == 1
        assert "[0-2] 6 * 7 = 42" in finished.out
        assert_untouched(job.ranks)


def test_that_a_gdb_has_no_python_is_reported_where_there_is_no_nursery(
    build: Build, start_job: StartJob, tmp_path: Path
) -> None:
    commands = tmp_path / "commands"
    # The word "python" says then what it says where GDB was built without.
    commands.write_text("set confirm off\ndefine python\nguile 1\nend\n")
    with start_job(2, build("storm.c")) as job:
        gdb = write_gdb(tmp_path, f'set -- "$@" -ix {commands}')
        line = ("attach", "--gdb", gdb, "--no-nursery", "--batch", *ex("p 6 * 7"))
        finished = run_pgdb(*line, job.pid)
        assert finished.status == 0, finished.out
        assert finished.out.count(f"note: {gdb} has no Python on this host: ") == 1, finished.out
        assert "[0-1] 6 * 7 = 42" in finished.out
        assert_untouched(job.ranks)


PAUSE = "print (int)pause()"
# GDB would print a traceback, which run_pgdb takes for one of PGDB. Python 3.11 does not catch an
# interrupt of `while 1: pass` in the function of the loop itself, so its caller catches it.
LOOP = r"python exec('def f():\n while 1: pass\ntry: f()\nexcept KeyboardInterrupt: pass')"
OTHER_THREAD = ("proc 1 set scheduler-locking on", "proc 1 thread 2")
WITHOUT_END = {
    "call": (f"timeout 1 proc 1 {PAUSE}",),
    "call in another thread": (*OTHER_THREAD, f"timeout 1 proc 1 {PAUSE}"),
    "call of one's own": ("define f", PAUSE, "end", "timeout 1 proc 1 f"),
    "condition": ("proc 1 break hit if (int)pause()", "timeout 1 proc 1 continue"),
    "commands": ("proc 1 break hit", "commands", PAUSE, "end", "timeout 2 proc 1 continue",
                 "timeout 1 proc 1 p 1"),
    "loop": (f"timeout 1 proc 1 {LOOP}",),
    # PGDB cannot see that this command sets the rank running.
    "run of one's own": ("define go", "python gdb.execute('cont' + 'inue')", "end",
                         "timeout 1 proc 1 go"),
}  # fmt: skip


@pytest.mark.parametrize("then", ["interrupt", "reattach", "detach", ""])
@pytest.mark.parametrize("begin", WITHOUT_END.values(), ids=WITHOUT_END)
def test_what_gdb_does_without_end_is_given_up(
    begin: tuple[str, ...], then: str, build: Build, start_job: StartJob
) -> None:
    """The rank would return to where nothing is, if its GDB was ended amid a call."""
    if any("pause()" in each for each in begin):
        require_calls()
    with start_job(3, build("storm.c")) as job:
        after = [f"proc 1 {then}"] * bool(then)
        if then in ("interrupt", "reattach"):
            after += ["proc 1 delete", "proc 1 p 6 * 7", "proc 1 thread 1", "proc 1 bt", "ranks"]
        finished = run_pgdb("attach", "--batch", *ex(*begin, *after), job.pid)
        if len(after) > 1:
            assert "[1] 6 * 7 = 42" in finished.out, finished.out
            assert re.search(r"^#\d+ +main \(", finished.out.rpartition(" bt\n")[2], re.M)
            # It is not shown to be where it is no longer. The answer of the call can come last.
            shown = finished.out.rpartition(" ranks\n")[2].partition("late answer to")[0]
            assert "[0-2] stopped" in shown and not re.search(r" in \w*pause \(", shown)
        assert_untouched(job.ranks)


def test_the_nursery_is_killed(build: Build, start_job: StartJob) -> None:
    heard = Heard()
    with start_job(4, build("storm.c")) as job:
        with attached(job, heard) as session:
            nursery = parent_of(gdb_of(job, 0))
            assert nursery == parent_of(gdb_of(job, 3))
            os.kill(nursery, signal.SIGKILL)
            assert session.evaluate("hit_count > 0").check().values == dict.fromkeys(range(4), 1)
            os.kill(gdb_of(job, 3), signal.SIGKILL)
            wait_until(lambda: heard.of(Gone) == RankSet([3]), "the loss is reported", DEADLINE_S)
            session.ranks("3").reattach().check()
            assert len(session.evaluate("hit_count").check().values) == 4
        assert_untouched(job.ranks)


def test_all_ranks_hit_a_breakpoint_at_once(build: Build, start_job: StartJob) -> None:
    with start_job(8, build("storm.c")) as job:
        with attached(job) as session:
            session.break_at("hit").check()
            before = session.evaluate("hit_count").check().values
            for _ in range(200):
                answer = session.continue_(timeout_s=DEADLINE_S).check()
                assert stopped_at(answer, 1) == session.set
            after = session.evaluate("hit_count").check().values
            # It stands before the count in hit(), at the start anywhere.
            for rank, count in before.items():
                assert int(str(after[rank])) - int(str(count)) in (199, 200), rank
        assert_untouched(job.ranks)


def test_breakpoints_that_nobody_could_be_asked_for_are_set_when_ranks_are_back(
    build: Build, start_job: StartJob
) -> None:
    heard = Heard()
    with start_job(3, build("storm.c")) as job:
        with attached(job, heard) as session:
            for rank in session.set:
                os.kill(gdb_of(job, rank), signal.SIGKILL)
            wait_until(lambda: heard.of(Gone) == session.set, "all losses are reported", DEADLINE_S)
            assert session.break_at("hit", condition="hit_count < 0").missing.lost == session.set
            assert session.ranks("1").break_at("hit", temporary=True).missing.lost == RankSet([1])
            assert session.last_breakpoint == 2
            notes = [reported.text for reported in heard.all if reported.kind == "notice"]
            assert notes[-2:] == [
                "[0-2] breakpoint 1 is set when 'reattach' has attached to them",
                "[1] breakpoint 2 is set when 'reattach' has attached to it",
            ]
            for ranks in ("1", "0,2"):
                session.ranks(ranks).reattach().check()
            listed = [
                (str(each.ranks), [row.number for row in each.filled.breakpoints])
                for each in session.breakpoints().check().classes
            ]
            assert listed == [("0,2", [1]), ("1", [1, 2])]
            assert stopped_at(session.continue_(timeout_s=1.0), 2) == RankSet([1])
            session.interrupt().check()
            # It was a temporary one, and the next has a number of its own.
            made = session.ranks("1").break_at("hit").check().classes[0].filled
            assert [each.number for each in made.breakpoints] == [3]
        assert_untouched(job.ranks)
