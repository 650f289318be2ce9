"""Recovery of ranks: their aggregators, their breakpoints, and notices of what stays lost."""

from __future__ import annotations

import asyncio
from collections.abc import Collection
from contextlib import nullcontext
from types import SimpleNamespace
from typing import cast

import pytest

from pgdb.frontend.analysis.answers import Answer
from pgdb.frontend.api.core import Core
from pgdb.frontend.api.options import SessionOptions
from pgdb.frontend.api.recovery import Recovery
from pgdb.frontend.api.session import Session
from pgdb.frontend.api.traffic import Traffic
from pgdb.frontend.transport.overlay_transport import Aggregators, OverlayTransport
from pgdb.merge.classes import EquivalenceClass
from pgdb.overlay.messages import AnyOperation, InsertBreakpoint, Setup, Share
from pgdb.overlay.topology import Topology
from pgdb.proctable import ProcTable, RankProcess
from pgdb.ranks import RankSet
from pgdb.records import Breakpoint, BreakpointsMade, Failure, Record

# 0 above 1 and 2, 1 above 3 and 4; two ranks each, in order.
TREE = Topology(count=5, fan_out=2)
TABLE = ProcTable(
    processes=tuple(
        RankProcess(rank=rank, host="h", pid=1000 + rank, executable="") for rank in range(10)
    ),
    source="",
)
SETUP = Setup(shares=(), gdb="gdb", is_held=True)


class FakeRoot:
    """A root that keeps the setups for aggregators."""

    def __init__(self, lost: Collection[int], *, setup: Setup | None = SETUP) -> None:
        self.topology = TREE
        self.shares = {node: Share.of(node, RankSet([2 * node, 2 * node + 1])) for node in range(5)}
        self.out_of_reach = {node: self.shares[node].ranks for node in lost}
        self.setup = setup
        self.bare: set[int] = set()
        self.sent: list[Setup] = []

    async def ask(self) -> None:
        raise AssertionError("nobody asks the root")

    def next_id(self) -> int:
        return 1

    def ask_states(self) -> None:
        pass

    def apply_setup(self, setup: Setup) -> None:
        self.sent.append(setup)


class Recovered:
    """The recovery of a session, and its effects."""

    def __init__(
        self, root: FakeRoot, *, reasons: dict[int, str] | None = None, fails: str = ""
    ) -> None:
        self.asked: list[tuple[str, str]] = []
        self.started: set[int] = set()
        self.notes: list[str] = []
        self._fails = fails
        self._reasons = reasons or {}
        overlay = cast("Aggregators", SimpleNamespace(root=root, recover=self._recover))
        transport = OverlayTransport(lambda calls: overlay)
        self.core = Core(cast("Session", None), SessionOptions(), transport)
        self.core.table = TABLE
        self.core.notifier.release()
        self.core.notifier.subscribe(lambda notification: self.notes.append(notification.text))
        traffic = SimpleNamespace(ask=self._ask, making_again=nullcontext)
        self.recovery = Recovery(self.core, cast("Traffic", traffic), "attach")

    async def _recover(self, nodes: Collection[int]) -> dict[int, str]:
        self.started = set(nodes)
        return self._reasons

    async def _ask(self, command: str, operation: AnyOperation, ranks: RankSet) -> Answer:
        self.asked.append((command, str(ranks)))
        record: Record = made(1)
        if command == self._fails:
            record = Failure(message="No symbol table is loaded.")
        return Answer(command=command, ranks=ranks, classes=(EquivalenceClass(ranks, record),))

    def aggregators(self, ranks: str) -> None:
        asyncio.run(self.recovery._restore(RankSet.parse(ranks)))


def made(number: int) -> BreakpointsMade:
    return BreakpointsMade(breakpoints=(Breakpoint(number=number, kind="breakpoint"),))


@pytest.mark.parametrize(
    ("lost", "ranks", "started", "informed"),
    [
        ((3,), "6-7", {3}, {3}),
        # Other lost aggregators stay lost, also ancestors; descendants get the setup through the
        # new one.
        ((0, 1, 3), "3", {1}, {1, 3, 4}),
        ((0, 1, 3), "0-7", {0, 1, 3}, {0, 1, 2, 3, 4}),
    ],
)
def test_the_aggregators_of_these_ranks_are_started(
    lost: tuple[int, ...], ranks: str, started: set[int], informed: set[int]
) -> None:
    root = FakeRoot(lost)
    recovered = Recovered(root)
    recovered.aggregators(ranks)
    assert recovered.started == started
    (setup,) = root.sent
    assert {share.node for share in setup.shares} == informed
    # Nobody holds them any longer; only who is new needs to know the processes.
    assert not setup.is_held
    for share in setup.shares:
        pids = [1000 + rank for rank in share.ranks] if share.node in started else []
        assert list(share.pids) == pids
    assert not recovered.notes


@pytest.mark.parametrize("root", [FakeRoot(()), FakeRoot((4,)), FakeRoot((3,), setup=None)])
def test_nothing_is_started_where_nothing_is_lost(root: FakeRoot) -> None:
    recovered = Recovered(root)
    recovered.aggregators("6-7")
    assert (recovered.started, root.sent, recovered.notes) == (set(), [], [])


def test_one_that_was_cut_off_before_it_knew_its_ranks_is_informed_of_them() -> None:
    root = FakeRoot(())
    root.bare = {3}
    recovered = Recovered(root)
    recovered.aggregators("0-9")
    assert recovered.started == set()
    (setup,) = root.sent
    (share,) = [each for each in setup.shares if each.node == 3]
    assert list(share.pids) == [1006, 1007]


def test_an_aggregator_that_cannot_be_had_is_reported_with_the_ranks_that_were_asked_for() -> None:
    root = FakeRoot((1, 3))
    recovered = Recovered(root, reasons={3: "nothing at h answers"})
    recovered.aggregators("3-6")
    assert {share.node for share in root.sent[0].shares} == {1, 4}
    why = "their aggregator cannot be started again: nothing at h answers"
    assert recovered.notes == [f"[6] {why}"]


def test_breakpoints_are_set_again_and_those_that_cannot_be_are_noted() -> None:
    recovered = Recovered(FakeRoot(()), fails="break gone")
    everyone = RankSet.parse("0-9")
    for number, line in enumerate(("break main", "break gone"), 1):
        recovered.core.journal.take(
            line,
            InsertBreakpoint(command=line, first_number=number),
            everyone,
            (EquivalenceClass(everyone, made(number)),),
        )
    asyncio.run(recovered.recovery._set_breakpoints(RankSet.parse("2-3")))
    assert recovered.asked == [("break main", "2-3"), ("break gone", "2-3")]
    why = "'break gone' cannot be carried out again: No symbol table is loaded."
    assert recovered.notes == [f"[2-3] {why}"]
