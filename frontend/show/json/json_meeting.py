"""The lines of ranks that step or meet together."""

from __future__ import annotations

from collections.abc import Sequence

from pgdb.frontend.analysis.ways import Way
from pgdb.frontend.api.absentees import Barrier
from pgdb.frontend.api.lockstep import Lockstep
from pgdb.frontend.api.until_differ import Differ
from pgdb.frontend.show.json import json_lines
from pgdb.frontend.show.json.json_classes import (
    ClassText,
    answer_classes,
    missing_ranks,
    still_running,
)
from pgdb.frontend.show.json.json_parts import AbsentRanks, BarrierState, PlaceRanks
from pgdb.frontend.show.json.json_shapes import (
    BarriersEvent,
    BarriersLine,
    DifferLine,
    LockstepLine,
)
from pgdb.ranks import RankSet


def lockstep(found: Lockstep, text: ClassText) -> LockstepLine:
    """Return the line of steps that ranks took together."""
    return LockstepLine(
        time=0.0,
        command=found.command,
        ranks=str(found.ranks),
        steps=found.steps,
        end=found.end,
        start=place(found.start),
        starts=tuple(map(place, found.starts)),
        places=tuple(map(place, found.ways)),
        classes=answer_classes(found.answer, text),
        missing=missing_ranks(found.answer.missing),
        elapsed_s=round(found.answer.elapsed_s, 6),
    )


def differ(found: Differ, text: ClassText) -> DifferLine:
    """Return the line of a run from hit to hit."""
    check, comparison = found.check, found.comparison
    return DifferLine(
        time=0.0,
        command=found.command,
        expression=found.expression,
        location=found.location,
        ranks=str(found.ranks),
        hit=found.hit,
        end=found.end,
        common=check.common if check is not None else "",
        failing=json_lines.checked(check).failing if check is not None else (),
        differences=(
            json_lines.comparison(
                comparison, found.expression, before="recording", after="now", text=text
            ).differences
            if comparison is not None
            else ()
        ),
        classes=answer_classes(found.answer, text),
        missing=missing_ranks(found.answer.missing),
        elapsed_s=round(found.answer.elapsed_s, 6),
        still_running=still_running(found.answer),
        unrecorded=found.unrecorded,
        same_hits=found.same_hits,
    )


def barrier(found: Barrier, event: BarriersEvent, going: RankSet = RankSet()) -> BarriersLine:
    """Return the line of one barrier; *going* are the ranks that run on from it."""
    return BarriersLine(time=0.0, event=event, barriers=(barrier_state(found, going),))


def barriers(found: Sequence[Barrier]) -> BarriersLine:
    """Return the line of a list of barriers."""
    return BarriersLine(time=0.0, event="listed", barriers=tuple(map(barrier_state, found)))


def barrier_state(found: Barrier, going: RankSet = RankSet()) -> BarrierState:
    """Return a barrier as part of a line."""
    return BarrierState(
        number=found.number,
        location=found.location,
        ranks=str(found.ranks),
        condition=found.condition,
        then=found.then,
        times=found.times,
        met=found.met,
        incomplete=found.incomplete,
        arrived=str(found.arrived),
        going=str(going),
        disabled=str(found.disabled),
        absent=tuple(
            AbsentRanks(ranks=str(each.ranks), kind=each.kind, why=each.text)
            for each in found.absent
        ),
    )


def place(way: Way) -> PlaceRanks:
    """Return a place with its ranks."""
    return PlaceRanks(
        ranks=str(way.ranks),
        function=way.function,
        file=way.file,
        line=way.line,
        offset=way.offset,
    )
