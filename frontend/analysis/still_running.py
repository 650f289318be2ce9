"""Ranks that still run when a command has waited for their stops: how many they are, and where."""

from __future__ import annotations

import os
from collections.abc import Iterable

import msgspec

from pgdb.merge.classes import EquivalenceClass
from pgdb.ranks import RankSet
from pgdb.records import Event, Stop


class StillRunning(msgspec.Struct, frozen=True):
    """Ranks that still run, at one place, or whose place is unknown for one reason."""

    ranks: RankSet
    text: str
    """The place in words, such as ``in PMPI_Recv <- exchange``, or why it is unknown."""
    function: str = ""
    """The function of MPI or of a library that the program has called, else that of the program;
    empty if it is unknown."""


def places_of(classes: Iterable[EquivalenceClass[Event]]) -> tuple[StillRunning, ...]:
    """Return the functions of ranks by the stops of a look at them, that of most ranks first."""
    found: dict[tuple[str, str], list[RankSet]] = {}
    for each in classes:
        stop = each.record
        if isinstance(stop, Stop) and stop.frame is not None:
            function = stop.frame.function
            chain = f"{stop.inside} <- {function}" if stop.inside else function
            found.setdefault((f"in {chain}", stop.inside or function), []).append(each.ranks)
    places = [StillRunning(RankSet.union(ranks), *key) for key, ranks in found.items()]
    return tuple(sorted(places, key=lambda each: (-len(each.ranks), each.ranks.first)))


def starts_of(classes: Iterable[EquivalenceClass[Event]], word: str) -> tuple[StillRunning, ...]:
    """Return the places from which ranks have begun a step by the command *word*."""
    found: dict[str, list[RankSet]] = {}
    for each in classes:
        record = each.record
        if isinstance(record, Stop) and record.frame is not None:
            frame = record.frame
            where = f" at {os.path.basename(frame.file)}:{frame.line}" if frame.line else ""
            place = f"{frame.function}{where}"
            found.setdefault(f"in the '{word}' from {place}", []).append(each.ranks)
    return tuple(StillRunning(RankSet.union(ranks), text) for text, ranks in found.items())


def counted(running: RankSet, ranks: RankSet) -> str:
    """Return how many of *ranks* still run: ``3 of 32 still running``."""
    return f"{len(running)} of {len(ranks | running)} still running"


def listed(places: Iterable[StillRunning]) -> str:
    """Return the places with their ranks: ``[4-6] in PMPI_Recv <- main, [7] in work``."""
    return ", ".join(f"[{each.ranks}] {each.text}" for each in places)
