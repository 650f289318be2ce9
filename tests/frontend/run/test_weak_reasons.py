"""Messages that need not be the reason for the end of a job, and places in sanitizers' reports."""

from __future__ import annotations

import pytest

from pgdb.frontend.run.causes import RankEnd, cause_of
from pgdb.frontend.run.messages import messages_in
from pgdb.frontend.run.run_report import cause_of_good_end

UNDEFINED = "x.cpp:37:63: runtime error: signed integer overflow: 2147483647 + 1\n"
LEAK = """\
==102==ERROR: LeakSanitizer: detected memory leaks

Direct leak of 64 byte(s) in 1 object(s) allocated from:
    #0 0x7f5e in __interceptor_calloc ../../../../src/libsanitizer/asan/asan_malloc_linux.cpp:77
    #1 0x7f5d in __vasprintf_internal libio/vasprintf.c:71
    #2 0x7f5d  (/lib/libopen-pal.so.40+0x8d0)

Direct leak of 100 byte(s) in 1 object(s) allocated from:
    #0 0x7f5e in operator new[](unsigned long) ../../../../src/libsanitizer/asan/asan_new_delete.cpp:98
    #1 0x7f5d in grow(int) /src/x.cpp:39
"""  # noqa: E501
COPY = """\
==101==ERROR: AddressSanitizer: heap-buffer-overflow on address 0x6020 at pc 0x7f1 bp 0x7f sp 0x7f
WRITE of size 40 at 0x6020 thread T0
    #0 0x7f1 in __interceptor_memcpy ../../../../src/libsanitizer/sanitizer_common/sanitizer_common_interceptors.inc:827
    #1 0x55c in copy(char*) /src/x.cpp:12

0x6020 is located 0 bytes to the right of 8-byte region
allocated by thread T0 here:
    #0 0x7f2 in __interceptor_malloc ../../../../src/libsanitizer/asan/asan_malloc_linux.cpp:69
    #1 0x55d in make() /src/y.cpp:5
"""  # noqa: E501
NO_LINES = COPY.replace(" in copy(char*) /src/x.cpp:12", "  (/lib/libcopy.so+0x12)")
TIMEOUT = """\
step 1
Timeout (0:00:02)!
Thread 0x00007f1c (most recent call first):
  File "/usr/lib/python3.11/threading.py", line 320 in wait
  File "/src/worker.py", line 3 in work

Thread 0x00007f1d (most recent call first):
  File "/src/app.py", line 50 in load
  File "/src/app.py", line 60 in <module>
"""
THREAD = """\
Exception in thread Thread-1 (inner):
Traceback (most recent call last):
  File "/usr/lib/python3.11/threading.py", line 1045, in _bootstrap_inner
    self.run()
  File "/src/p.py", line 12, in inner
    raise MeshTrouble("cell 5")
MeshTrouble: cell 5
"""


def ends(*codes: int) -> list[RankEnd]:
    return [RankEnd(rank, 100 + rank, code << 8, 0.0) for rank, code in enumerate(codes)]


PIDS = {100: 0, 101: 1, 102: 2}


@pytest.mark.parametrize(
    ("text", "place"),
    [(LEAK, "grow at x.cpp:39"), (COPY, "copy at x.cpp:12"), (NO_LINES, "")],
)
def test_the_place_of_a_report_is_outside_of_the_sanitizer(text: str, place: str) -> None:
    (message,) = messages_in(text)
    assert message.where == place


def test_undefined_behavior_in_mixed_output_is_of_no_known_rank() -> None:
    (_, end) = ends(0, 3)
    found = cause_of([end], UNDEFINED, PIDS)
    assert found is not None
    assert found.what == (
        "rank 1 ended with status 3; a rank has written: runtime error: signed integer overflow: "
        "2147483647 + 1 at x.cpp:37"
    )
    assert (found.kind, found.where, str(found.who)) == ("sanitizer", "x.cpp:37", "1")
    # The output of the rank, or a job of one rank, leaves no doubt.
    own = cause_of([end], UNDEFINED, PIDS, outputs={1: UNDEFINED})
    alone = cause_of([end], UNDEFINED, {101: 1})
    assert own is not None and own.what.startswith("rank 1: runtime error")
    assert alone is not None and alone.what.startswith("rank 1: runtime error")


def test_a_report_that_names_its_rank_comes_before_one_that_names_none() -> None:
    end = ends(0, 0, 1)[2]
    found = cause_of([end], UNDEFINED + LEAK, PIDS)
    assert found is not None
    assert found.what.startswith("rank 2: LeakSanitizer: detected memory leaks; a rank has written")
    assert (found.where, str(found.who)) == ("grow at x.cpp:39", "2")


def test_the_place_of_a_time_limit_of_faulthandler_is_that_of_the_first_thread() -> None:
    end = ends(0, 1)[1]
    found = cause_of([end], TIMEOUT, PIDS)
    assert found is not None
    assert found.what == (
        "rank 1 ended with status 1; the job said: faulthandler of Python: Timeout (0:00:02)! at "
        "load at app.py:50"
    )
    assert (found.kind, found.where, found.line) == ("exit-code", "load at app.py:50", 50)
    # Another status is not that of the faulthandler, and an exception is nearer to the end.
    other = cause_of([ends(0, 3)[1]], TIMEOUT, PIDS)
    assert other is not None and not other.where and "Timeout" in other.what
    later = cause_of([end], TIMEOUT + THREAD.partition("\n")[2], PIDS)
    assert later is not None and later.kind == "exception"


AT_EXIT = """\
Traceback (most recent call last):
  File "/w/save.py", line 3, in save
    raise ValueError("no space")
ValueError: no space
"""


@pytest.mark.parametrize(
    ("before", "said"),
    [
        (
            "Exception ignored in atexit callback: <function save at 0x7f>\n",
            "Python exception in an atexit handler: ValueError: no space",
        ),
        (
            "Error in atexit._run_exitfuncs:\n",
            "Python exception in an atexit handler: ValueError: no space",
        ),
        (
            "Exception ignored in: <function Grid.__del__ at 0x7f>\n",
            "ignored Python exception: ValueError: no space",
        ),
    ],
)
@pytest.mark.parametrize("prefix", ["", "[1,1]<stderr>:"])
def test_an_exception_behind_which_python_goes_on_is_no_cause(
    before: str, said: str, prefix: str
) -> None:
    text = "".join(f"{prefix}{each}" for each in f"{before}{AT_EXIT}".splitlines(keepends=True))
    cause = cause_of_good_end("0-2", text)
    assert cause.what == f"the job ended well; a rank has written: {said} at save at save.py:3"
    # The program has left with this status itself.
    found = cause_of([ends(0, 1)[1]], text, PIDS)
    assert found is not None and found.kind == "exit-code"
    assert found.what == f"rank 1 ended with status 1; the job said: {said} at save at save.py:3"
    # Another exception has ended it.
    later = cause_of([ends(0, 1)[1]], f"{THREAD.partition(chr(10))[2]}{text}", PIDS)
    assert later is not None and "MeshTrouble" in later.what and later.kind == "exception"


def test_an_exception_that_ends_a_thread_is_named_beside_a_good_end() -> None:
    cause = cause_of_good_end("0-2", THREAD)
    assert cause.kind == "none" and cause.severity == "note"
    assert cause.what == (
        "the job ended well; a rank has written: uncaught Python exception MeshTrouble: cell 5 at "
        "inner at p.py:12"
    )
    assert cause_of_good_end("0-2", "step 1\n").what == "the job ended well"
