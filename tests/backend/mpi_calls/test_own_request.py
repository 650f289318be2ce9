"""The request that a blocking call has made for itself, by the registers of its frames."""

from __future__ import annotations

from typing import Any

import pytest

from pgdb.backend.mpi_calls import own_request as module
from pgdb.backend.mpi_calls.errors import EmulationError
from pgdb.backend.mpi_calls.frames import MachineFrame
from pgdb.backend.mpi_calls.openmpi_requests import kind_of_class
from pgdb.mpi_calls import Communicator, Request
from pgdb.mpi_functions import PROTOTYPES

WORLD = Communicator(name="MPI_COMM_WORLD", members="0-3")
OTHER = Communicator(name="dup", members="0-3")
RECEIVE = Request(kind="recv", communicator=WORLD, peer=2, tag=7, count=3, complete=False)
OLD, OWN, NEXT, BAD = 0x1000, 0x2000, 0x3000, 0x4000


def frame(**registers: int) -> MachineFrame:
    return MachineFrame(pc=0, registers=registers)


STACK = (frame(rbx=0x99), frame(rbx=OWN, r12=OLD), frame(rbx=8, r12=OLD), frame(rbx=16, r12=OLD))
"""A function inside has put OWN into rbx; r12 is the caller's, the last frame."""


def find(
    monkeypatch: pytest.MonkeyPatch, objects: dict[int, Request], count: int | None = 3
) -> Request | None:
    class Reader:
        def __init__(self, library: Any) -> None:
            del library

        def at(self, address: int) -> Request | None:
            if address == BAD:
                raise EmulationError("no end")
            return objects.get(address)

    monkeypatch.setattr(module, "RequestReader", Reader)
    library: Any = None
    return module.own_request(library, STACK, 2, "recv", WORLD, count)


def test_blocking_calls_of_one_message_make_a_request() -> None:
    made = {name: kind for name in PROTOTYPES if (kind := module.own_kind(name))}
    assert made == {"MPI_Recv": "recv"} | dict.fromkeys(
        ("MPI_Send", "MPI_Ssend", "MPI_Rsend"), "send"
    )
    assert module.own_kind("MPI_Unheard_of") is None


def test_a_register_that_the_call_has_changed_has_the_request(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    other = Request(kind="recv", communicator=WORLD, peer=1, tag=8, count=3)
    assert find(monkeypatch, {OWN: RECEIVE, OLD: other}) == RECEIVE
    assert find(monkeypatch, {OLD: other}) is None
    assert find(monkeypatch, {OWN: RECEIVE}, None) == RECEIVE


@pytest.mark.parametrize(
    "made",
    [
        Request(kind="send", communicator=WORLD, peer=2, tag=7, count=3),
        Request(kind="recv", communicator=OTHER, peer=2, tag=7, count=3),
        Request(kind="recv", communicator=WORLD, peer=2, tag=7, count=4),
        Request(kind="recv", communicator=WORLD, peer=2, tag=7, count=3, complete=True),
    ],
    ids=["kind", "communicator", "count", "complete"],
)
def test_another_request_is_not_that_of_the_call(
    monkeypatch: pytest.MonkeyPatch, made: Request
) -> None:
    assert find(monkeypatch, {OWN: made}) is None


def test_requests_that_differ_give_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    other = Request(kind="recv", communicator=WORLD, peer=1, tag=7, count=3)
    assert find(monkeypatch, {OWN: RECEIVE, 8: other}) is None
    assert find(monkeypatch, {OWN: RECEIVE, 8: RECEIVE}) == RECEIVE


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("mca_pml_ob1_recv_request_t", "recv"),
        ("mca_pml_cm_hvy_send_request_t", "send"),
        ("ompi_coll_libnbc_request_t", "collective"),
        # MPI_Comm_idup makes it.
        ("ompi_comm_request_t", "collective"),
        ("ompi_request_t", None),
    ],
)
def test_the_class_of_a_request_says_its_kind(name: str, kind: str | None) -> None:
    assert kind_of_class(name) == kind
