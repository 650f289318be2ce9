"""A leaf over debuggers of canned answers: no GDB, and no process but this one."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Coroutine, Mapping
from typing import Any

import pytest

from pgdb.backend.node.leaf import Leaf
from pgdb.backend.rank.protocol import EVERYTHING
from pgdb.errors import DebuggerError
from pgdb.merge.classes import EquivalenceClass, Missing
from pgdb.overlay.messages import (
    Acquire,
    AnyOperation,
    Backtrace,
    Evaluate,
    InsertBreakpoint,
    Interrupt,
    Reattach,
    Recall,
    Reduce,
    Request,
    Resume,
    Setup,
    Share,
)
from pgdb.overlay.operation import Capability
from pgdb.ranks import RankSet
from pgdb.records import (
    Event,
    Exit,
    Failure,
    Progress,
    Record,
    Running,
    Stop,
    Text,
    Value,
)
from tests.fakes.canned_debugger import ATTACHED, HERE, Canned, CannedOpener, stack_of

HIT = Stop(reason="breakpoint-hit", breakpoint=1, frame=HERE)


class Tree:
    """An aggregator that records the reports of its leaf."""

    def __init__(self, ranks: Mapping[int, Canned], *, is_held: bool = False) -> None:
        self.answers: dict[int, list[EquivalenceClass[Record]]] = {}
        self.missing: dict[int, Missing] = {}
        self.events: list[tuple[int, Event]] = []
        self.notices: list[str] = []
        self.opener = CannedOpener(ranks)
        self.leaf = Leaf(
            open_factory=self.opener,
            on_answer=lambda number, said: self.answers.setdefault(number, []).append(said),
            on_missing=self._take_missing,
            on_event=lambda ranks, event, _: self.events.append((ranks.first, event)),
            notice=self.notices.append,
        )
        self.ranks = RankSet(ranks)
        self._number = 0
        # The leaf looks for the rank's program below its process.
        share = Share.of(0, self.ranks, [os.getpid()] * len(ranks))
        self.leaf.setup(Setup(shares=(share,), gdb="none", is_held=is_held), share)

    def _take_missing(self, number: int, missing: Missing) -> None:
        self.missing[number] = self.missing.get(number, Missing()) | missing

    async def ask(
        self, operation: AnyOperation, ranks: RankSet | None = None, *, of_ended: bool = False
    ) -> dict[int, Record]:
        """Return the answers by rank, once all of *ranks* have answered or are missing."""
        ranks = ranks if ranks is not None else self.ranks
        self._number += 1
        number = self._number
        request = Request(
            request_id=number, ranks=ranks, operation=operation, timeout_s=60.0, of_ended=of_ended
        )
        self.leaf.ask(request, ranks)
        while self.answered(number) != ranks:
            await asyncio.sleep(0)
        return {rank: each.record for each in self.answers.get(number, ()) for rank in each.ranks}

    def answered(self, number: int) -> RankSet:
        """Return the ranks that have answered request *number*, or will not."""
        said = RankSet.union(each.ranks for each in self.answers.get(number, ()))
        return said | self.missing.get(number, Missing()).ranks

    @property
    def last(self) -> int:
        """Number of the last request."""
        return self._number


def run(
    test: Callable[[Tree], Coroutine[Any, Any, None]],
    ranks: Mapping[int, Canned],
    *,
    is_held: bool = False,
) -> None:
    async def bounded() -> None:
        async with asyncio.timeout(20):
            tree = Tree(ranks, is_held=is_held)
            await test(tree)
            await tree.leaf.close()
            (factory,) = tree.opener.factories
            assert factory.is_closed
            for rank in tree.ranks:
                assert tree.opener.debugger(rank).detached

    asyncio.run(bounded())


def test_ranks_are_acquired_asked_and_set_running() -> None:
    ranks = {
        rank: Canned(answers={"print x": Value(text=str(7 + rank % 2))}, events=(HIT, Exit(code=0)))
        for rank in range(4)
    }

    async def test(tree: Tree) -> None:
        stops = await tree.ask(Acquire())
        assert all(isinstance(each, Stop) and each.reason == "attached" for each in stops.values())
        (factory,) = tree.opener.factories
        assert factory.paused == factory.released == [os.getpid()] * 4
        assert list(tree.events) == [(rank, Progress("attached")) for rank in range(4)]
        assert len(tree.leaf.states()) == 1
        values = await tree.ask(Evaluate(expression="x"))
        assert values == {rank: Value(text=str(7 + rank % 2)) for rank in range(4)}
        assert await tree.ask(Recall(request_id=tree.last), RankSet([2])) == {2: Value(text="7")}
        # The end of a run carries the number of the run.
        going = await tree.ask(Resume(command="continue"))
        assert set(going.values()) == {Running(run=tree.last)}
        await asyncio.sleep(0)
        hits = [each for _, each in tree.events if isinstance(each, Stop)]
        assert {(each.reason, each.run) for each in hits} == {("breakpoint-hit", tree.last)}
        assert len(hits) == 4
        await tree.ask(Resume(command="continue"))
        await asyncio.sleep(0)
        assert set(await _answers(tree, Evaluate(expression="x"))) == {
            Failure(message="the rank is exited")
        }
        assert [str(each.ranks) for each in tree.leaf.states()] == ["0-3"]

    run(test, ranks)


def test_debuggers_that_outlive_their_ranks_answer_and_the_others_are_missing() -> None:
    size = Evaluate(expression="sizeof(int)")
    ranks = {
        rank: Canned(answers={"print sizeof(int)": Value(text="4")}, events=(Exit(code=0),))
        for rank in range(3)
    }

    async def test(tree: Tree) -> None:
        await tree.ask(Acquire())
        await tree.ask(Resume(command="continue"))
        await asyncio.sleep(0)
        tree.opener.debugger(1).outlives_rank = False
        assert await tree.ask(size, of_ended=True) == {0: Value(text="4"), 2: Value(text="4")}
        assert tree.missing[tree.last] == Missing(lost=RankSet([1]))
        assert set(await _answers(tree, size)) == {Failure(message="the rank is exited")}
        assert tree.last not in tree.missing

    run(test, ranks)


async def _answers(tree: Tree, operation: AnyOperation) -> list[Record]:
    return list((await tree.ask(operation)).values())


def test_a_rank_that_runs_cannot_be_asked_and_can_be_interrupted() -> None:
    async def test(tree: Tree) -> None:
        await tree.ask(Acquire())
        await tree.ask(Resume(command="continue"))
        run = tree.last
        assert await tree.ask(Evaluate(expression="x")) == {}
        assert tree.missing[tree.last] == Missing(running=tree.ranks)
        await tree.ask(Interrupt())
        stops = [each for _, each in tree.events if isinstance(each, Stop)]
        assert [(each.reason, each.run) for each in stops] == [("interrupted", run)] * 2

    run(test, {0: Canned(), 1: Canned()})


def test_equal_stacks_are_merged_and_numbers_summed_up() -> None:
    stack = stack_of("exchange", "main")
    canned = Canned(answers={"bt": stack, "Reduce": Value(text="3")})

    async def test(tree: Tree) -> None:
        await tree.ask(Acquire())
        await tree.ask(Backtrace())
        (said,) = tree.answers[tree.last]
        assert said.ranks == tree.ranks and said.record == stack
        await tree.ask(Reduce(expression="x", limit_bytes=100))
        assert all(len(each.columns) == 1 for each in tree.answers[tree.last])

    run(test, dict.fromkeys(range(3), canned))


def test_a_debugger_that_dies_as_it_attaches_is_replaced_once() -> None:
    async def test(tree: Tree) -> None:
        answers = await tree.ask(Acquire())
        assert isinstance(answers[0], Stop) and isinstance(answers[1], Stop)
        assert answers[2] == Failure(message="no memory")
        (factory,) = tree.opener.factories
        assert [len(factory.made[rank]) for rank in range(3)] == [1, 2, 2]
        assert factory.made[1][0].abandoned and not factory.made[1][1].abandoned
        assert tree.notices == [
            "tables of answers start again one at a time, which takes longer: no memory"
        ]

    dies = DebuggerError("no memory")
    run(test, {0: Canned(), 1: Canned(attaching=(dies, ATTACHED)), 2: Canned(attaching=(dies,))})


def test_a_debugger_that_has_the_rank_is_kept_and_a_lost_one_replaced() -> None:
    async def test(tree: Tree) -> None:
        await tree.ask(Acquire())
        old = tree.opener.debugger(0)
        kept = await tree.ask(Reattach())
        assert isinstance(kept[0], Text) and tree.opener.debugger(0) is old
        old.state = "gone"
        back = await tree.ask(Reattach())
        assert isinstance(back[0], Stop) and back[0].run == tree.last
        assert old.abandoned and tree.opener.debugger(0) is not old
        tree.opener.debugger(0).pid = None
        assert isinstance((await tree.ask(Reattach()))[0], Exit)

    run(test, {0: Canned()})


def test_held_ranks_are_not_paused() -> None:
    async def test(tree: Tree) -> None:
        await tree.ask(Acquire())
        (factory,) = tree.opener.factories
        assert not factory.paused
        assert [each for _, each in tree.events] == [Progress("held"), Progress("attached")]

    run(test, {0: Canned()}, is_held=True)


@pytest.mark.parametrize(
    "operation", [Resume(command="continue"), InsertBreakpoint(command="break f", first_number=1)]
)
def test_a_debugger_that_only_looks_is_not_asked_for_more(operation: AnyOperation) -> None:
    """A debugger on a core file has no process either."""

    async def test(tree: Tree) -> None:
        await tree.ask(Acquire())
        answers = await tree.ask(operation)
        assert answers[0] == Failure(message="the debugger of this rank can only look at it")
        assert not isinstance(answers[1], Failure)
        assert operation not in tree.opener.debugger(0).asked
        assert (await tree.ask(Evaluate(expression="x")))[0] == Value(text="1")

    looks = Canned(answers={"print x": Value(text="1")}, capabilities=Capability(0))
    run(test, {0: looks, 1: Canned(capabilities=EVERYTHING)})


def test_an_operation_that_fails_by_a_bug_of_ours_is_answered(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def test(tree: Tree) -> None:
        await tree.ask(Acquire())
        vars(tree.opener.debugger(0))["perform"] = None
        answers = await tree.ask(Evaluate(expression="x"))
        assert isinstance(answers[0], Failure) and "internal error" in answers[0].message

    run(test, {0: Canned()})
    assert "failed" in caplog.text
