"""The receives that the library has open for itself, in registers and on its stack."""

from __future__ import annotations

import struct
from typing import Any

import pytest
from msgspec.structs import replace

from pgdb.backend.mpi_calls import open_receives as module
from pgdb.backend.mpi_calls.errors import EmulationError
from pgdb.backend.mpi_calls.frames import MachineFrame
from pgdb.mpi_calls import Communicator, Request

WORLD = Communicator(name="MPI_COMM_WORLD", members="0-3")
NODE = Communicator(members="0-1")
OTHER = Communicator(members="0-7")
OPEN = Request(kind="recv", communicator=WORLD, peer=2, complete=False)
ONE, TWO, ARRAY, BAD = 0x10000, 0x20000, 0x30000, 0x40000
BEGIN = 0x7000
FRAMES = (
    MachineFrame(pc=0, registers={}),
    MachineFrame(pc=0, registers={"rsp": BEGIN, "rbx": ARRAY}),
    MachineFrame(pc=0, registers={"rsp": BEGIN + 16, "rbx": 8}, cfa=BEGIN + 32),
    MachineFrame(pc=0, registers={"rsp": BEGIN + 32, "rbx": 16}),
)
"""No register of the innermost frame is known."""


def receives(
    monkeypatch: pytest.MonkeyPatch,
    objects: dict[int, Request],
    stack: tuple[int, ...] = (ONE,),
    array: tuple[int, ...] = (TWO, ONE, 0),
) -> module.OwnReceives:
    words = dict(enumerate(array))

    class Reader:
        def __init__(self, library: Any) -> None:
            del library

        def at(self, address: int) -> Request | None:
            if address == BAD:
                raise EmulationError("no end")
            return objects.get(address)

    class Memory:
        def some(self, address: int, size: int) -> bytes:
            assert address == BEGIN
            return struct.pack(f"<{len(stack)}Q", *stack)[:size]

        def word(self, address: int) -> int | None:
            return words.get((address - ARRAY) // 8)

    class Library:
        memory = Memory()

    monkeypatch.setattr(module, "RequestReader", Reader)
    library: Any = Library()
    return module.open_receives(library, FRAMES, 2, WORLD)


def found(*given: Any) -> str:
    return str(receives(*given).awaited)


def test_requests_are_on_the_stack_and_in_arrays(monkeypatch: pytest.MonkeyPatch) -> None:
    assert found(monkeypatch, {ONE: OPEN}) == "2"
    both = {ONE: OPEN, TWO: replace(OPEN, peer=3)}
    assert found(monkeypatch, both, ()) == "2-3"
    assert found(monkeypatch, {ONE: OPEN}, (BAD, ONE)) == "2"


def test_messages_that_were_sent_at_once_have_no_request(monkeypatch: pytest.MonkeyPatch) -> None:
    """Open MPI has one empty request for all of them, between those of the receives."""
    both = {ONE: OPEN, TWO: replace(OPEN, peer=3)}
    assert found(monkeypatch, both, (), (ONE, BAD + 8, TWO, BAD + 8)) == "2-3"
    assert found(monkeypatch, both, (), (BAD + 8, ONE, 0, TWO)) == "2"
    assert found(monkeypatch, both, (), (ONE, *[BAD + 8] * 4, TWO)) == "2"


@pytest.mark.parametrize(
    "other",
    [
        replace(OPEN, complete=True),
        replace(OPEN, complete=None),
        replace(OPEN, kind="send"),
        replace(OPEN, tag=7),
        replace(OPEN, peer=None),
        replace(OPEN, communicator=OTHER),
        replace(OPEN, communicator=None),
    ],
)
def test_other_requests_say_nothing(monkeypatch: pytest.MonkeyPatch, other: Request) -> None:
    assert found(monkeypatch, {ONE: other}) == ""


def test_a_communicator_of_one_node_is_inside(monkeypatch: pytest.MonkeyPatch) -> None:
    assert found(monkeypatch, {ONE: replace(OPEN, communicator=NODE)}) == "2"


def test_a_part_that_has_come_stands_with_an_open_receive(monkeypatch: pytest.MonkeyPatch) -> None:
    """A complete request elsewhere on the stack may be one of an earlier call."""
    both = {ONE: OPEN, TWO: replace(OPEN, peer=3, complete=True)}
    beside = receives(monkeypatch, both, (TWO, ONE), ())
    assert (str(beside.awaited), str(beside.came), beside.groups) == ("2", "3", (WORLD,))
    in_array = receives(monkeypatch, both, (), (TWO, ONE, 0))
    assert (str(in_array.awaited), str(in_array.came)) == ("2", "3")
    apart = receives(monkeypatch, both, (TWO, 8, ONE), ())
    assert (str(apart.awaited), str(apart.came)) == ("2", "")
    of_user = both | {TWO: replace(both[TWO], tag=7)}
    assert str(receives(monkeypatch, of_user, (TWO, ONE), ()).came) == ""
