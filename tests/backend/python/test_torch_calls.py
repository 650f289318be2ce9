"""Calls of torch.distributed are read from the memory of real interpreters."""

from __future__ import annotations

import sys
from typing import Any

import pytest

from pgdb.backend.python import reader
from pgdb.backend.python.objects import UnknownError
from pgdb.backend.python.reader import Local, PythonFrame
from pgdb.backend.python.torch_calls import BACKWARD, WAIT, call_of
from pgdb.mpi_calls import ANY_SOURCE, Communicator, MpiCall, Peer
from tests.support.programs import ROOT
from tests.support.python_processes import running
from tests.support.pythons import interpreters

PROGRAM = ROOT / "tests" / "programs" / "torch_calls.py"
needs_reader = pytest.mark.skipif(not reader.program(), reason="py-spy is not installed")

WORLD = Communicator("process group 0", "0-3", identity="process group 0")
PAIR = Communicator("process group 1", "1,3", identity="process group 1")
EXPECTED = {
    "all_reduce": MpiCall("all_reduce", "collective", communicator=WORLD),
    "barrier": MpiCall("barrier", "collective", communicator=WORLD),
    "barrier of group": MpiCall("barrier", "collective", communicator=PAIR),
    "broadcast": MpiCall("broadcast", "collective", communicator=WORLD, root=2),
    "broadcast of group": MpiCall("broadcast", "collective", communicator=PAIR, root=3),
    "reduce": MpiCall("reduce", "collective", communicator=WORLD, root=3),
    "all_gather_object": MpiCall("all_gather_object", "collective", communicator=PAIR),
    "send": MpiCall("send", "send", communicator=WORLD, dest=1, tag=7),
    "recv": MpiCall("recv", "recv", communicator=WORLD, source=0, tag=9),
    "recv of any": MpiCall("recv", "recv", communicator=WORLD, source=ANY_SOURCE, tag=0),
    "new_group": MpiCall("new_group", "comm", communicator=WORLD),
    "init_process_group": MpiCall("init_process_group", "init"),
}


def read(python: str, name: str) -> MpiCall | None:
    with running(python, PROGRAM, name) as process:
        process.look()
        return call_of(process.frames, (), process.interpreter)


@pytest.mark.slow
@needs_reader
@pytest.mark.parametrize("name", EXPECTED)
def test_a_call_has_its_group_and_its_peers(name: str) -> None:
    found = read(sys.executable, name)
    wanted = EXPECTED[name]
    assert found is not None and found.blocking
    assert (found.function, found.kind) == (wanted.function, wanted.kind)
    assert found.communicator == wanted.communicator
    peers = (found.root, found.dest, found.source, found.tag)
    assert peers == (wanted.root, wanted.dest, wanted.source, wanted.tag)


@pytest.mark.slow
@needs_reader
@pytest.mark.parametrize("python", interpreters())
def test_the_group_is_read_in_each_interpreter(python: str) -> None:
    found = read(python, "broadcast of group")
    assert found is not None
    assert (found.communicator, found.root) == (PAIR, 3)


@needs_reader
def test_a_rank_elsewhere_is_in_no_call() -> None:
    assert read(sys.executable, "sleep") is None


class NoTables:
    """An interpreter whose integers alone can be read."""

    objects: NoTables

    def __init__(self) -> None:
        self.objects = self

    def integer(self, address: int) -> int:
        return address

    def resolve(self, *_: Any) -> int:
        raise UnknownError("a table is in change")


@pytest.mark.parametrize(
    ("source", "group_source", "found"),
    [("3", "None", 3), ("None", "1", None), ("None", "None", ANY_SOURCE), ("None", "", ANY_SOURCE)],
)
def test_a_source_that_cannot_be_read_is_not_taken_for_any(
    source: str, group_source: str, found: Peer | None
) -> None:
    """The rank in a group is known by the group's tables alone."""
    texts = {"src": source, "group_src": group_source}
    given = [
        Local(name=name, addr=0 if text == "None" else int(text), arg=True, repr=text)
        for name, text in texts.items()
        if text
    ]
    frame = PythonFrame("recv", "/t/torch/distributed/distributed_c10d.py", 7, tuple(given))
    interpreter: Any = NoTables()
    call = call_of((frame,), (), interpreter)
    assert call is not None
    assert call.source == found


def test_a_call_without_frames_of_python_is_known_by_those_of_c() -> None:
    inner = ("std::condition_variable::wait(std::unique_lock<std::mutex>&)",)
    backward = call_of((), (*inner, "c10d::Reducer::finalize_backward()"), None)
    assert backward is not None
    assert (backward.function, backward.kind) == (BACKWARD, "collective")
    assert call_of((), (*inner, "c10::ThreadPool::main_loop(unsigned long)"), None) is None


@pytest.mark.parametrize(
    ("function", "waits"),
    [
        ("c10d::Work::wait(std::chrono::duration<long, std::ratio<1l, 1000l> >)", True),
        ("c10d::ProcessGroupGloo::RecvWork::wait(std::chrono::duration<long>)", True),
        ("c10d::ProcessGroupNCCL::WorkNCCL::wait(std::chrono::duration<long>)", True),
        ("c10d::wait_tensor(at::Tensor const&)", True),
        ("c10d::ProcessGroupNCCL::WorkNCCL::isCompleted()", False),
        ("c10d::ProcessGroupGloo::runLoop(int)", False),
        ("c10d::TCPStore::wait(std::vector<std::string> const&)", False),
    ],
)
def test_waits_of_all_back_ends_of_pytorch_are_known(function: str, waits: bool) -> None:
    found = call_of((), (function,), None)
    assert (found == MpiCall(WAIT, "wait", blocking=True)) is waits
