"""The cause of a failure, from the ends of ranks and from what they have written."""

from __future__ import annotations

import signal

import pytest

from pgdb.frontend.run.causes import (
    RankEnd,
    cause_of,
    first_failure,
    last_words,
    said_before,
    words_before_abort,
)
from pgdb.frontend.run.messages import messages_in
from pgdb.ranks import RankSet


def end(rank: int, *, code: int = 0, number: int = 0, pid: int = 0, time: float = 0.0) -> RankEnd:
    return RankEnd(rank, pid or 100 + rank, code << 8 | number, time)


AT = "MPI_Comm_rank"
AFTER_OMPI = """\
*** The MPI_Comm_rank() function was called after MPI_FINALIZE was invoked.
*** This is disallowed by the MPI standard.
*** Your MPI job will now abort.
[node:00103] Local abort after MPI_FINALIZE started completed successfully, but am not able to \
aggregate error messages, and not able to guarantee that all other processes were killed!
"""
BEFORE_OMPI = "*** The MPI_Comm_rank() function was called before MPI_INIT was invoked.\n"
OUTSIDE_HYDRA = (
    "Attempting to use an MPI routine (internal_Comm_rank) before initializing or after finalizing "
    "MPICH\n"
)
ABORT_OMPI_4 = """\
--------------------------------------------------------------------------
MPI_ABORT was invoked on rank 1 in communicator MPI_COMM_WORLD
with errorcode 3.
"""
ABORT_OMPI_5 = """\
MPI_ABORT was invoked on rank 1 in communicator MPI_COMM_WORLD
  Proc: [[21003,1],1]
  Errorcode: 3
"""
ABORT_HYDRA = (
    "Abort(3) on node 1 (rank 1 in comm 0): application called MPI_Abort(MPI_COMM_WORLD, 3) - "
    "process 1\n"
)
ABORT_HYDRA_PART = (
    "Abort(5) on node 2 (rank 0 in comm 496): application called MPI_Abort(comm=0x84000001, 5) - "
    "process 0\n"
)
ABORT_OMPI_5_PART = """\
MPI_ABORT was invoked on rank 0 in communicator MPI COMMUNICATOR 3 SPLIT FROM 1
  Proc: [[21003,1],2]
  Errorcode: 5
"""
ERROR_STOP = """\
ERROR STOP the mesh is inside out

Error termination. Backtrace:
#0  0x7f8beb6218c2 in ???
#1  0x7f8beb623727 in ???
#2  0x5574e78603d8 in ev
\tat /home/a/ev.f90:15
#3  0x5574e786059a in main
\tat /home/a/ev.f90:2
"""
ERROR_OMPI = """\
[host:00103] *** An error occurred in MPI_Send
[host:00103] *** reported by process [1234567,3]
[host:00103] *** on communicator MPI_COMM_WORLD
[host:00103] *** MPI_ERR_RANK: invalid rank
[host:00103] *** MPI_ERRORS_ARE_FATAL (processes in this communicator will now abort,
"""
ERROR_HYDRA = """\
Abort(269142022) on node 0 (rank 3 in comm 0): Fatal error in internal_Send: Invalid rank, error stack:
internal_Send(126): MPI_Send(buf=0x7ffc, count=1, MPI_INT, 11, 0, MPI_COMM_WORLD) failed
internal_Send(78).: Invalid rank has value 11 but must be nonnegative and less than 6
"""  # noqa: E501
ASSERTION = "app: src/app.c:23: void die(int, int): Assertion `value == 8' failed.\n"
EXCEPTION = "terminate called after throwing an instance of 'Broken'\n  what():  no grid left\n"
BOUNDS = """\
At line 21 of file deaths.f90
Fortran runtime error: Index '6' of dimension 1 of array 'values' above upper bound of 4
"""
HEADER = """\
/usr/include/c++/12/bits/stl_vector.h:1142: std::vector<_Tp, _Alloc>::const_reference std::vector\
<_Tp, _Alloc>::operator[](size_type) const: Assertion '__n < this->size()' failed.
"""
HARDENED = """\
/usr/lib/llvm-18/include/c++/v1/vector:1393: assertion __n < size() failed: index out of bounds
"""
PURE = "pure virtual method called\nterminate called without an active exception\n"
TRACEBACK = """\
Traceback (most recent call last):
  File "/a/run.py", line 3, in <module>
    solve()
  File "/a/run.py", line 12, in solve
    raise ValueError("no grid left")
ValueError: no grid left
"""
OWN_NAME = """\
[1,2]<stderr>:Traceback (most recent call last):
[1,2]<stderr>:  File "/a/run.py", line 5, in <module>
[1,2]<stderr>:    raise Oops("cell 3")
[1,2]<stderr>:Oops: cell 3
"""
CHAIN = """\
Traceback (most recent call last):
  File "/a/run.py", line 4, in <module>
    open("/a/in")
FileNotFoundError: [Errno 2] No such file or directory: '/a/in'

The above exception was the direct cause of the following exception:

Traceback (most recent call last):
  File "/a/run.py", line 6, in <module>
    raise Stale("step 3") from error
Stale: step 3
"""
GROUP = """\
  + Exception Group Traceback (most recent call last):
  |   File "/a/run.py", line 3, in <module>
  |     raise ExceptionGroup("tasks", [ValueError("a")])
  | ExceptionGroup: tasks (1 sub-exception)
  +-+---------------- 1 ----------------
    | ValueError: a
    +------------------------------------
"""
SYNTAX = """\
  File "/a/run.py", line 1
    def f(:
          ^
SyntaxError: invalid syntax
"""
ALLOCATION = "In file 'a.f90', around line 7: Error allocating 80 bytes: Cannot allocate memory\n"
ADDRESS = """\
==103==ERROR: AddressSanitizer: heap-buffer-overflow on address 0x602000000014 at pc 0x55d0
WRITE of size 4 at 0x602000000014 thread T0
    #0 0x55d0 in fill /a/grid.c:41:9
    #1 0x55d1 in main /a/grid.c:60
"""


@pytest.mark.parametrize(
    ("text", "one", "kind", "what", "where", "who"),
    [
        (ABORT_OMPI_4, end(1, code=3), "abort", "MPI_Abort(MPI_COMM_WORLD, 3)", "MPI_Abort", 1),
        (ABORT_OMPI_5, end(1, code=3), "abort", "MPI_Abort(MPI_COMM_WORLD, 3)", "MPI_Abort", 1),
        (ABORT_HYDRA, end(0, number=9), "abort", "MPI_Abort(MPI_COMM_WORLD, 3)", "MPI_Abort", 1),
        (ABORT_HYDRA_PART, end(2, code=5), "abort", "MPI_Abort(comm=", "MPI_Abort", 2),
        (ABORT_HYDRA_PART, end(1, number=9), "abort", "MPI_Abort(comm=", "MPI_Abort", 2),
        (ABORT_OMPI_5_PART, end(1, number=9), "abort", "SPLIT FROM 1, 5)", "MPI_Abort", 2),
        (ERROR_STOP, end(1, code=1), "runtime-error", "inside out", "ev at ev.f90:15", 1),
        (ERROR_OMPI, end(3, code=6), "abort", "MPI_ERR_RANK: invalid rank", "MPI_Send", 3),
        (ERROR_HYDRA, end(3, code=6), "abort", "Invalid rank has value 11", "MPI_Send", 3),
        (AFTER_OMPI, end(3, code=1), "abort", "MPI_Comm_rank was called after MPI_Finalize", AT, 3),
        (BEFORE_OMPI, end(2, code=1), "abort", "was called before MPI_Init", AT, 2),
        (OUTSIDE_HYDRA, end(2, code=1), "abort", "before MPI_Init or after MPI_Finalize", AT, 2),
        (ASSERTION, end(5, number=6), "assertion", "'value == 8'", "die at app.c:23", 5),
        (EXCEPTION, end(0, number=6), "exception", "type Broken: no grid left", "", 0),
        (BOUNDS, end(2, code=2), "runtime-error", "upper bound of 4", "deaths.f90:21", 2),
        ("ERROR STOP 3\n", end(2, code=3), "runtime-error", "ERROR STOP 3", "", 2),
        (TRACEBACK, end(2, code=1), "exception", "ValueError: no grid left", "run.py:12", 2),
        (OWN_NAME, end(2, code=1), "exception", "Oops: cell 3", "<module> at run.py:5", 2),
        (CHAIN, end(2, code=1), "exception", "Stale: step 3 (after FileNotFound", "run.py:6", 2),
        (GROUP, end(2, code=1), "exception", "tasks (1 sub-exception)", "run.py:3", 2),
        (SYNTAX, end(2, code=1), "exception", "SyntaxError: invalid syntax", "run.py:1", 2),
        (ALLOCATION, end(2, code=1), "runtime-error", "Error allocating 80 bytes", "a.f90:7", 2),
        (ADDRESS, end(3, code=1), "sanitizer", "heap-buffer-overflow", "fill at grid.c:41", 3),
        (HEADER, end(1, number=6), "assertion", "'__n < this->size()' of the C++ library", "", 1),
        (HARDENED, end(1, number=6), "assertion", "failed: index out of bounds (vector)", "", 1),
        (PURE, end(1, number=6), "exception", "pure virtual method called", "", 1),
        ("Fatal glibc error: malloc.c\n", end(4, number=6), "runtime-error", "malloc.c", "", 4),
        ("tcache_thread_shutdown(): x\n", end(4, number=6), "runtime-error", "shutdown", "", 4),
        ("free(): invalid pointer\n", end(4, number=6), "runtime-error", "invalid pointer", "", 4),
    ],
)
def test_message_explains_the_end(
    text: str, one: RankEnd, kind: str, what: str, where: str, who: int
) -> None:
    found = cause_of([one], f"step 1\n{text}step 2\n", {103: 3}, has_failed=True)
    assert found is not None
    assert (found.kind, found.who) == (kind, RankSet([who]))
    assert what in found.what and found.what.startswith(f"rank {who}: ")
    assert where in found.where and bool(where) == bool(found.where)


def test_first_end_is_the_cause_and_not_those_that_the_launcher_makes() -> None:
    ends = [end(0, number=signal.SIGTERM), end(3, number=signal.SIGSEGV), end(1, code=1)]
    first = first_failure(ends)
    assert first is not None and first.rank == 3
    found = cause_of(ends, "")
    assert found is not None
    assert found.what == "rank 3 died of SIGSEGV, Segmentation fault"
    assert first_failure([end(0), end(1)]) is None
    assert first_failure([end(0), end(1, number=signal.SIGTERM)]) is not None


@pytest.mark.parametrize(
    "gap", [" on\nnode n1 exiting improperly", " on node n1 exiting\nimproperly"]
)
def test_rank_that_leaves_without_finalize_is_the_cause_of_the_other_ends(gap: str) -> None:
    text = f"mpirun has exited due to process rank 1 with PID 0{gap}. There are three reasons\n"
    ends = [end(1), end(0, number=signal.SIGTERM), end(2, number=signal.SIGTERM)]
    found = cause_of(ends, text)
    assert found is not None
    assert (found.kind, found.who) == ("abort", RankSet([1]))
    assert found.what.startswith("rank 1: ended without MPI_Finalize")
    # A rank that has crashed is the cause all the same.
    found = cause_of([*ends, end(3, number=signal.SIGSEGV)], text)
    assert found is not None and found.who == RankSet([3])


def test_fault_is_not_explained_by_a_message_before_it() -> None:
    found = cause_of([end(1, number=signal.SIGSEGV)], "runtime error: harmless\nERROR STOP\n")
    assert found is not None and found.kind == "signal"


def test_abort_whose_handler_has_made_a_fault_is_explained_by_its_message() -> None:
    text = (
        "*** stack smashing detected ***: terminated\n"
        "[node:00101] *** Process received signal ***\n[node:00101] Signal: Aborted (6)\n"
        "[node:00101] *** Process received signal ***\n[node:00101] Signal: Segmentation fault\n"
    )
    found = cause_of([end(1, number=signal.SIGSEGV)], text)
    assert found is not None
    assert found.what == "rank 1: *** stack smashing detected ***: terminated"
    other = cause_of([end(2, number=signal.SIGSEGV)], text)
    assert other is not None and other.kind == "signal"


def test_message_of_another_rank_explains_nothing() -> None:
    found = cause_of([end(1, code=4), end(3, code=1)], ADDRESS, {103: 3})
    assert found is not None and (found.kind, found.what) == (
        "exit-code",
        "rank 1 ended with status 4",
    )


def test_report_of_a_sanitizer_counts_where_all_ranks_end_well() -> None:
    text = "grid.c:9:5: runtime error: signed integer overflow: 1 + 2147483647\n"
    found = cause_of([end(0), end(1)], text)
    assert found is not None
    assert (found.kind, found.file, found.line) == ("sanitizer", "grid.c", 9)
    assert found.what.startswith("a rank: runtime error: signed integer overflow")
    assert cause_of([end(0)], "Assertion `x' failed") is None


def test_output_that_is_kept_apart_says_who_has_written_a_message() -> None:
    text = "grid.c:9:5: runtime error: signed integer overflow\n"
    outputs = {0: "grid.c:9:6: runtime error: shift\n", 1: f"step 1\n{text}", 3: text, 4: ""}
    found = cause_of([end(0), end(1)], text + outputs[0], outputs=outputs)
    assert found is not None
    assert found.who == RankSet([1, 3])
    assert found.what == "ranks 1,3: runtime error: signed integer overflow"
    (one,) = [cause_of([end(0)], outputs[0], outputs=outputs)]
    assert one is not None and one.what == "rank 0: runtime error: shift"
    unknown = cause_of([end(0)], "a.c:1:1: runtime error: index\n", outputs=outputs)
    assert unknown is not None and not unknown.who


def test_launcher_that_has_killed_the_watchers_leaves_the_message() -> None:
    assert cause_of([], ABORT_HYDRA) is None
    found = cause_of([], ABORT_HYDRA, has_failed=True)
    assert found is not None and found.who == RankSet([1])
    assert cause_of([], "", has_failed=True) is None


def test_messages_are_found_behind_the_words_of_launchers() -> None:
    text = f"[1,2]<stderr>:{ABORT_HYDRA}2: {ASSERTION}"
    assert [each.kind for each in messages_in(text)] == ["abort", "assertion"]


def test_kill_names_who_may_have_sent_it() -> None:
    found = cause_of([end(2, number=signal.SIGKILL)], "")
    assert found is not None and "out of memory" in found.what


SLURM = "slurmstepd-n1: error: *** STEP 7.0 ON n1 CANCELLED AT 2030-11-29T01:13:02%s ***\n"


@pytest.mark.parametrize(
    ("reason", "words"),
    [
        ("", "Slurm has ended step 7.0: it was cancelled"),
        (" DUE TO TIME LIMIT", "Slurm has ended step 7.0 at its time limit"),
        (" DUE to SIGNAL Terminated", "Slurm has ended step 7.0: signal terminated"),
        (
            " DUE TO NODE FAILURE, SEE SLURMCTLD LOG FOR DETAILS",
            "Slurm has ended step 7.0: node failure",
        ),
    ],
)
def test_slurm_says_that_it_has_ended_the_job(reason: str, words: str) -> None:
    text = "step 3\n" + SLURM % reason
    pids = {100: 0, 101: 1}
    for ends in ([end(1, number=signal.SIGTERM), end(0, number=signal.SIGTERM)], []):
        found = cause_of(ends, text, pids, has_failed=True)
        assert found is not None and (found.kind, found.what) == ("ended", words)
        assert found.who == RankSet([0, 1])


def test_slurm_ends_a_step_because_of_a_rank() -> None:
    text = SLURM % ""
    for status in ({"number": signal.SIGKILL}, {"code": 3}, {"number": signal.SIGSEGV}):
        found = cause_of([end(1, **status), end(0, number=signal.SIGTERM)], text, has_failed=True)
        assert found is not None and found.who == RankSet([1])
    assert cause_of([end(0), end(1)], text) is None


def test_slurm_says_that_memory_ran_out() -> None:
    text = "slurmstepd: error: Detected 1 oom_kill event in StepId=7.0. Some of the step tasks"
    found = cause_of([end(2, number=signal.SIGKILL)], text)
    assert found is not None
    assert found.what == "rank 2 died of SIGKILL, Killed; Slurm says that the memory ran out"


FATAL = """\
Fatal Python error: Segmentation fault

Thread 0x00007f3289 (most recent call first):
  File "/usr/lib/python3.11/threading.py", line 324 in wait

Current thread 0x00007f3286 (most recent call first):
  File "/usr/lib/python3.11/ctypes/__init__.py", line 519 in string_at
  File "/a/run.py", line 6 in inner
  File "/a/run.py", line 8 in outer

Extension modules: mpi4py.MPI (total: 1)
"""


def test_the_place_that_pythons_faulthandler_has_written() -> None:
    found = cause_of([end(1, number=signal.SIGSEGV)], f"step 1\n{FATAL}")
    assert found is not None
    assert found.what == "rank 1 died of SIGSEGV, Segmentation fault"
    assert (found.where, found.line) == ("inner at run.py:6", 6)
    # Two ranks have died at different places: the text does not say which is whose.
    other = FATAL.replace("line 6", "line 7")
    found = cause_of([end(1, number=signal.SIGSEGV)], FATAL + other)
    assert found is not None and found.where == ""
    # The interpreter has ended the program itself.
    said = FATAL.replace("Segmentation fault", "deallocating None")
    found = cause_of([end(1, number=signal.SIGABRT)], said)
    assert found is not None and found.kind == "runtime-error"
    assert found.what == "rank 1: Fatal Python error: deallocating None"
    assert found.where == "inner at run.py:6"


def test_the_place_that_fortrans_library_has_written_for_a_signal() -> None:
    text = (
        "Program received signal SIGSEGV: Segmentation fault - invalid memory reference.\n\n"
        "Backtrace for this error:\n#0  0x7fa677a218c2 in ???\n#1  0x7fa67785a04f in ???\n"
        "\tat ./signal/../sysdeps/unix/sysv/linux/x86_64/libc_sigaction.c:0\n"
        "#2  0x55df2d20b9b0 in solve\n\tat /a/b.f90:17\n#3  0x55df2d20badc in main\n"
        "\tat /a/b.f90:2\n"
    )
    found = cause_of([end(1, number=signal.SIGSEGV)], text)
    assert found is not None
    assert found.what == "rank 1 died of SIGSEGV, Segmentation fault"
    assert (found.where, found.line) == ("solve at b.f90:17", 17)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_a_rank_that_has_left_right_before_the_others_were_ended_is_the_cause(number: int) -> None:
    killed = [end(rank, number=number, time=9.1) for rank in (2, 0)]
    found = cause_of([end(3, time=1.0), end(1, time=9.0), *killed], "")
    assert found is not None and (found.kind, found.who) == ("abort", RankSet([1]))
    assert "most likely without MPI_Finalize" in found.what
    # One that has left long before is no reason, and one that has failed by itself is the first.
    for ends in ([end(1, time=1.0), *killed], [end(1, time=9.0), *killed, end(4, code=2)]):
        found = cause_of(ends, "")
        assert found is not None and "MPI_Finalize" not in found.what


def test_ranks_that_a_launcher_has_ended_have_not_failed_one_by_one() -> None:
    term = [end(rank, number=signal.SIGTERM, time=9.0) for rank in (2, 0)]
    found = cause_of([end(1), *term], "")
    assert found is not None and found.who == RankSet([0, 2])
    assert found.what == (
        "ranks 0,2 died of SIGTERM, Terminated, which their launcher or another process has sent; "
        "[1] had ended with status 0 before"
    )
    found = cause_of(term[:1], "")
    assert found is not None and found.what == "rank 2 died of SIGTERM, Terminated"


def test_a_signal_that_the_launcher_has_noticed_first_is_of_that_rank() -> None:
    term = [end(rank, number=signal.SIGTERM) for rank in (1, 3)]
    said = (
        "mpirun noticed that process rank 1 with PID 0 on node a exited on signal 15 (Terminated)."
    )
    found = cause_of(term, said, has_failed=True)
    assert found is not None and found.what == "rank 1 died of SIGTERM, Terminated"
    found = cause_of(term, said.replace("rank 1", "rank 3"))
    assert found is not None and found.who == RankSet([1, 3])


@pytest.mark.parametrize(
    ("text", "what", "where"),
    [
        (
            "F20261129 07:50:00.123456   101 halo.cc:88] Check failed: n > 0 (-1 vs. 0)\n*** Check",
            "Check failed: n > 0 (-1 vs. 0)",
            "halo.cc:88",
        ),
        (
            "\nthread 'main' panicked at src/a.rs:42:17:\nindex out of bounds\nnote: run",
            "panic of Rust: index out of bounds",
            "a.rs:42",
        ),
        (
            "[1] thread 'main' (77) panicked at src/a.rs:42:17:\n[1] no grid\n",
            "panic of Rust: no grid",
            "a.rs:42",
        ),
        ("thread 'w' panicked at 'it's over', a.rs:4:1\n", "panic of Rust: it's over", "a.rs:4"),
        (
            "gsl: lu.c:262: ERROR: matrix is singular\nDefault GSL error handler invoked.\n",
            "error of GSL: matrix is singular (lu.c:262)",
            "",
        ),
    ],
)
def test_words_of_libraries_that_end_the_process(text: str, what: str, where: str) -> None:
    found = cause_of([end(1, number=signal.SIGABRT)], text)
    assert found is not None
    assert (found.what, found.where) == (f"rank 1: {what}", where)


@pytest.mark.parametrize("abort", [ABORT_OMPI_4, ABORT_OMPI_5, ABORT_HYDRA])
def test_what_a_job_has_said_before_it_called_mpi_abort(abort: str) -> None:
    said = f"step 1\nresidual is nan, giving up\n{abort}\nYOU CAN IGNORE\n"
    last = "the last line of the job:"
    assert words_before_abort(said, "step 9\n") == f"{last} residual is nan, giving up"
    assert words_before_abort(abort, "ERROR: no grid\n") == "the job said: ERROR: no grid"
    cleaning = "= BAD TERMINATION OF ONE OF YOUR APPLICATION PROCESSES\n= EXIT CODE: 9\n"
    assert words_before_abort(abort, cleaning) == ""
    petsc = (
        f"[0]PETSC ERROR: {'-' * 20} Error Message {'-' * 20}\n[0]PETSC ERROR: Zero pivot\n{abort}"
    )
    assert words_before_abort(petsc) == "the job said: [0]PETSC ERROR: Zero pivot"


def test_a_traceback_beside_another_status_is_no_uncaught_exception() -> None:
    """The interpreter ends with status 1 at an exception that nobody catches."""
    found = cause_of([end(2, code=9)], TRACEBACK)
    assert found is not None and found.kind == "exit-code" and found.where == ""
    assert found.what == (
        "rank 2 ended with status 9; the job said: Python exception ValueError: no grid left at "
        "solve at run.py:12"
    )
    # A message that explains the end comes first, wherever it is.
    found = cause_of([end(2, code=9)], f"{TRACEBACK}step\napp: a.c:7: f: Assertion `n' failed.\n")
    assert found is not None and found.what == "rank 2: assertion 'n' failed"
    found = cause_of([end(2, code=1)], TRACEBACK)
    assert found is not None and found.what.startswith("rank 2: uncaught Python exception")


def test_the_place_of_an_exception_is_in_the_users_code() -> None:
    inner = '  File "/v/lib/python3.11/site-packages/numpy/x.py", line 9, in load\n    raise\n'
    text = TRACEBACK.replace("ValueError", f"{inner}ValueError")
    found = cause_of([end(1, code=1)], text)
    assert found is not None and found.where == "solve at run.py:12"
    only = TRACEBACK.replace("/a/run.py", "/v/lib/python3.11/site-packages/app/run.py")
    found = cause_of([end(1, code=1)], only)
    assert found is not None and found.where == "solve at run.py:12"


def test_an_error_before_a_hang_is_reported_and_not_the_words_of_the_end() -> None:
    text = f"step 1\n{TRACEBACK}step 2\n"
    assert said_before(text) == (
        "uncaught Python exception ValueError: no grid left at solve at run.py:12"
    )
    assert said_before(f"{ABORT_OMPI_4}\nstep\n") == ""


def test_the_last_line_is_one_that_says_something() -> None:
    last = "the last line of the job:"
    assert last_words("step\napp: cannot open input.dat\n------\n  \n") == (
        f"{last} app: cannot open input.dat"
    )
    assert last_words("", "---\n") == last_words() == ""
    assert last_words("x" * 900) == f"{last} {'x' * 200}…"
    assert last_words("a warning\n", "step 9\n") == f"{last} a warning"
    assert last_words("app: no grid\n--\n\x01ab\x02\nb\ufffd\n") == f"{last} app: no grid"
    assert last_words("app\n\x01ab\x02\nb\ufffd\n") == ""


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("ERROR: Unknown command: foo (input.cpp:274)\nLast command: foo", ""),
        ("[3] Error in routine read_namelists (2)\n bad line\n %%%%", ""),
        (" *** FATAL: no grid ***\nbye", "*** FATAL: no grid ***"),
        (
            "Fatal error:\nNo such molecule\nFor more information see",
            "Fatal error: No such molecule",
        ),
        ("app: error: no file x\nusage: app x", ""),
        ("[ERROR] 3 atoms lost\nbye", ""),
        ("[1] <stderr>: Error 7: no memory\nbye", ""),
    ],
)
def test_the_line_about_an_error_counts_wherever_it_is(line: str, said: str) -> None:
    said = said or line.partition("\n")[0]
    assert last_words("a warning\n", f"step 1\n{line}\n") == f"the job said: {said}"


@pytest.mark.parametrize(
    "line", ["error = 1.5e-3", "Error: 0.25", "error 7", "L2 error: 3", "terror: none", "0 errors"]
)
def test_the_size_of_an_error_is_no_error(line: str) -> None:
    assert last_words(f"{line}\nstep 2\n") == "the last line of the job: step 2"


def test_ranks_that_end_with_one_status_are_named_together() -> None:
    found = cause_of([end(1, code=1), end(0, code=1), end(2, code=3), end(3)], "")
    assert found is not None
    assert found.who == RankSet([0, 1])
    assert found.what == "ranks 0-1 ended with status 1, rank 1 first"


@pytest.mark.slow
@pytest.mark.parametrize("piece", ["\0", "[", "[]", "a:", "==1", "[x]", "x: y:1: ", "/a:1: "])
def test_output_of_long_lines_is_read_in_linear_time(piece: str) -> None:
    """The relay keeps so much of the output. In quadratic time a test would meet its limit."""
    text = piece * ((1 << 18) // len(piece))
    assert messages_in(text) == []


def test_an_exception_that_another_rank_has_written_is_no_reason() -> None:
    text = (
        "Traceback (most recent call last):\n"
        '  File "a.py", line 5, in <module>\n'
        '    open("nowhere")\n'
        "FileNotFoundError: [Errno 2] No such file or directory: 'nowhere'\n"
    )
    ends = [end(2, code=9)]
    of_other = cause_of(ends, text, outputs={0: text})
    assert of_other is not None and of_other.what == "rank 2 ended with status 9"
    of_itself = cause_of(ends, text, outputs={0: text, 2: text})
    assert of_itself is not None and "FileNotFoundError" in of_itself.what
