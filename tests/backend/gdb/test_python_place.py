"""The frame in a stop line of a Python rank is the user's own, with the call that it waits in."""

from __future__ import annotations

from pgdb.backend.gdb import decode
from pgdb.records import Frame

PACKAGE = "/v/lib/python3.11/site-packages/torch"


def c(function: str) -> Frame:
    return Frame(0, function, library="/lib/libtorch.so")


def python(function: str, path: str = "/job/train.py") -> Frame:
    return Frame(0, function, file="x.py", fullname=path, line=3, language="python")


def place(*frames: Frame) -> tuple[str, str]:
    frame, inside = decode.place(frames)
    assert frame is not None
    return frame.function, inside


def test_frames_of_packages_and_their_wrappers_are_passed_over() -> None:
    inner = python("all_reduce", f"{PACKAGE}/c10d.py")
    wrapper = python("_exception_logger.<locals>.wrapper", f"{PACKAGE}/log.py")
    assert place(c("wait"), inner, wrapper, python("loss")) == ("loss", "all_reduce")
    assert place(c("wait"), wrapper, python("loss")) == ("loss", wrapper.function)


def test_an_mpi_call_is_named_before_its_wrapper() -> None:
    found = place(c("PMPI_Recv"), c("mpi4py.MPI.Comm.recv"), python("exchange"), python("main"))
    assert found == ("exchange", "PMPI_Recv")


def test_python_that_computes_is_in_no_call() -> None:
    assert place(python("step"), python("main")) == ("step", "")


def test_a_rank_with_frames_of_packages_only_is_at_the_innermost_one() -> None:
    frames = [c("poll"), python("select", f"{PACKAGE}/s.py"), python("run", f"{PACKAGE}/r.py")]
    assert place(*frames) == ("select", "poll")


def test_code_from_a_text_is_the_users() -> None:
    text = Frame(0, "work", file="<string>", line=4, language="python")
    frozen = Frame(0, "load", file="<frozen importlib._bootstrap>", line=4, language="python")
    assert place(c("sleep"), frozen, text) == ("work", "load")


def test_the_mark_for_an_unknown_order_is_no_function() -> None:
    mark = Frame(0, "<the C frames between them are not known>", language="unknown")
    assert place(c("futex_wait"), c("make_fcontext"), mark, python("loop")) == (
        "loop",
        "futex_wait",
    )
    assert place(mark, python("loop")) == ("loop", "")
