"""Answers of six ranks after a real tree of aggregators: sums, summaries, recall."""

from __future__ import annotations

import re

import pytest

import pgdb
from pgdb.merge import classes as merging
from pgdb.merge.classes import EquivalenceClass
from pgdb.merge.normalize import DIFFERENT
from pgdb.merge.summary import Summary
from pgdb.ranks import RankSet
from pgdb.records import PLACEHOLDER, Failure, Record, Value, Various
from tests.conftest import Build
from tests.support.programs import Mpi

pytestmark = pytest.mark.mpi

RANKS = 6
EVERYONE = RankSet.range(0, RANKS)


def column(answer: pgdb.Answer) -> Summary:
    """Return the one summary of an answer of numbers, after a look at the rest of it."""
    (found,) = answer.classes
    assert found.record == Various(template=Value(text=PLACEHOLDER)) and found.ranks == EVERYONE
    (summary,) = found.columns
    return summary


def text(record: Record) -> str:
    assert isinstance(record, Value), record
    return record.text


def only(answer: pgdb.Answer) -> EquivalenceClass[Record]:
    (found,) = answer.classes
    assert not answer.missing
    return found


def test_numbers_and_addresses_of_real_ranks(
    mpi: Mpi, build: Build, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = build("ring.c")
    # Three aggregators in a chain, with two ranks each.
    with pgdb.launch(mpi.line(RANKS, program), aggregators=3, fan_out=1) as session:
        session.break_at(program.at("advance"))
        session.continue_()

        scalar = column(session.stat("local"))
        assert (scalar.count, scalar.low, scalar.high) == (6, 0, 7.5)
        assert (str(scalar.at_low), str(scalar.at_high)) == ("0", "5")
        assert scalar.mean == 3.75 and scalar.total.fraction == 22.5
        assert scalar.profile == (1, (0, 1.5, 3, 4.5, 6, 7.5), (0, 1.5, 3, 4.5, 6, 7.5))
        assert scalar.distinct == 6

        array = column(session.stat("data[0]@8", bins=6))
        assert (array.count, array.low, array.high, array.mean) == (48, 0.0, 57.0, 28.5)
        assert (str(array.at_low), str(array.at_high)) == ("0", "5")
        assert array.bins is not None and sum(array.bins.counts) == 48
        assert array.bins.counts[0] == 8  # data of rank 0, 0 to 7, are below 57/6

        mixed = session.stat("rank == 2 ? particle->name : 0")
        assert not mixed.missing and sum(len(each.ranks) for each in mixed.classes) == RANKS
        wrong = only(session.stat("no_such_variable"))
        assert isinstance(wrong.record, Failure) and wrong.is_error

        # Addresses are no part of what travels, and come when they are asked for.
        pointers = session.evaluate("particle")
        class_ = only(pointers)
        recalled = session.recall(pointers, RankSet([0, 3]))
        assert recalled.ranks == RankSet([0, 3])
        for rank in (0, 3):
            address = text(recalled.for_rank(rank))
            assert re.fullmatch(r"\(struct particle \*\) 0x[0-9a-f]{5,16}", address)
            assert text(class_.filled) in (address, f"(struct particle *) {DIFFERENT}")

        # The front end lists fewer different values than there are: the rest is a summary.
        for name, limit in (("MOST_DISTINCT", 3), ("FEW_OF_A_TEMPLATE", 1)):
            monkeypatch.setattr(merging, name, limit)
        ranks = session.evaluate("rank")
        summed = column(ranks)
        assert (summed.low, summed.high, summed.mean) == (0, 5, 2.5)
        particles = only(session.evaluate("*particle"))
        assert isinstance(particles.record, Various)
        numbers = [each for each in particles.columns if each.count]
        assert numbers[-1].low == 0 and numbers[-1].high == 5  # .id
        words = particles.columns[-1]
        assert words.others == EVERYONE and not words.count  # .name is a string
        monkeypatch.undo()
        for rank, value in ((0, "0"), (4, "4"), (5, "5")):
            assert text(session.recall(ranks, RankSet([rank])).for_rank(rank)) == value
        everything = session.recall(ranks, EVERYONE)
        assert {str(each.ranks): text(each.record) for each in everything.classes} == {
            str(rank): str(rank) for rank in range(RANKS)
        }

        # Short answers are not kept, and the message says so.
        run = session.step()
        forgotten = session.recall(run, RankSet([1]))
        assert forgotten.classes == () and forgotten.missing.lost == RankSet([1])
