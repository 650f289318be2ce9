"""Verdicts from the flight records of PyTorch: ranks that are missing from a call of a group."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from pgdb.frontend.analysis import flight_records
from pgdb.frontend.analysis.flight_records import GroupState, Place
from pgdb.frontend.analysis.why import words
from pgdb.frontend.analysis.why.verdict import Step, Verdict
from pgdb.ranks import RankSet

_RULE = "all ranks of a process group make the same calls, in the order of their numbers"
_STEP = Step(
    "PyTorch wrote the records when a call timed out; the stacks show where the ranks are now",
    ("tree",),
)


def verdicts(groups: Iterable[GroupState]) -> Iterator[Verdict]:
    """Yield a verdict for each process group in which ranks wait for others, or differ."""
    for group in groups:
        waiting = [each for each in group.places if each.state == "waits"]
        differing = [each for each in group.places if each.state == "differs"]
        victims = RankSet.union(each.ranks for each in waiting)
        if differing:
            ranks = RankSet.union(each.ranks for each in differing)
            yield Verdict(
                kind="different-collectives",
                ranks=ranks,
                victims=victims,
                text=f"{_stand(differing[0])}, but {_stand(waiting[0])}{_in(group)}"
                if waiting
                else f"{_stand(differing[0])}, unlike the other ranks{_in(group)}",
                confidence="likely",
                rule=_RULE,
                evidence=tuple(flight_records.lines([group])),
                step=_STEP,
            )
        elif group.missing and waiting:
            behind = next(each for each in group.places if each.state == "missing")
            is_first = behind.call.sequence == 0
            last = "has made no call" if is_first else f"has come to {_call(behind)}"
            yield Verdict(
                kind="missing-from-collective",
                ranks=group.missing,
                victims=victims,
                text=f"{_stand(waiting[0])}{_in(group)} for {words.named(group.missing)}, which "
                f"{words.verb(group.missing, last)}",
                confidence="likely",
                rule=_RULE,
                evidence=tuple(flight_records.lines([group])),
                step=_STEP,
            )


def _stand(place: Place) -> str:
    where = f" ({place.call.where})" if place.call.where else ""
    verb = words.verb(place.ranks, "waits")
    return f"{words.named(place.ranks)} {verb} in {_call(place)}{where}"


def _call(place: Place) -> str:
    return f"{place.call.name} {place.call.sequence}"


def _in(group: GroupState) -> str:
    return f" of process group {group.name}"
