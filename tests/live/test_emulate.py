"""The emulated GDBs of bench/emulate under real aggregators, in a deep tree."""

from __future__ import annotations

import pytest

import pgdb
from bench.emulate.farm import ARM_FAULTS, PROGRAM, Farm, Plan, running_farm
from pgdb.ranks import RankSet
from pgdb.records import Failure, Stack, Stop

pytestmark = [pytest.mark.mpi, pytest.mark.alone]
RANKS, AGGREGATORS, FAN_OUT, CLASSES = 64, 4, 2, 5
DYING, SILENT = 5, 40


def attach(farm: Farm) -> pgdb.Session:
    return pgdb.attach(
        0,
        pids=[str(pid) for pid in farm.pids],
        gdb=str(farm.gdb),
        program=PROGRAM,
        nursery=False,
        aggregators=AGGREGATORS,
        fan_out=FAN_OUT,
    )


def by_label(plan: Plan) -> dict[int, RankSet]:
    """Return the ranks of each class, as they are drawn here."""
    members: dict[int, list[int]] = {}
    for rank in range(plan.ranks):
        members.setdefault(plan.label(rank), []).append(rank)
    return {label: RankSet(ranks) for label, ranks in members.items()}


@pytest.mark.parametrize("is_random", [False, True])
def test_the_ranks_are_in_the_classes_that_were_drawn(is_random: bool) -> None:
    plan = Plan(ranks=RANKS, classes=CLASSES, is_random=is_random)
    expected = by_label(plan)
    with running_farm(plan) as farm, attach(farm) as session:
        lines = {}
        for each in session.backtrace().check().classes:
            assert isinstance(each.record, Stack) and len(each.record.frames) == plan.depth
            lines[each.record.frames[0].line - 1000] = each.ranks
        assert lines == expected
        assert session.evaluate("rank").values == {rank: rank for rank in range(RANKS)}
        session.break_at("function_0").check()
        stops = session.continue_().check().classes
        assert {each.ranks for each in stops} == set(expected.values())
        for each in stops:
            assert isinstance(each.record, Stop) and each.record.reason == "breakpoint-hit"


def test_ranks_that_fail_are_named() -> None:
    plan = Plan(ranks=RANKS, classes=1, dying=(DYING,), silent=(SILENT,))
    with running_farm(plan) as farm, attach(farm) as session:
        assert len(session.backtrace().check().classes) == 1
        session.execute(ARM_FAULTS).check()
        answer = session.backtrace(timeout_s=5)
        assert answer.missing.late == RankSet([SILENT])
        (failed,) = (each for each in answer.classes if isinstance(each.record, Failure))
        assert failed.ranks == RankSet([DYING])
        healthy = RankSet.range(0, RANKS) - RankSet([DYING, SILENT])
        assert [each.ranks for each in answer.classes if each is not failed] == [healthy]
