"""Rules about one-sided synchronisation: locks of windows, and windows that are not exposed."""

from __future__ import annotations

from collections.abc import Sequence

from pgdb.frontend.analysis.why import graph, words
from pgdb.frontend.analysis.why.knot import Knot
from pgdb.frontend.analysis.why.needs import WIN_TEST, is_meeting
from pgdb.frontend.analysis.why.parties import Party, part
from pgdb.frontend.analysis.why.verdict import Step, Verdict
from pgdb.mpi_calls import MpiCall
from pgdb.ranks import RankSet

_LOCKS = "MPI_Win_lock"
_OF_LOCKS = (_LOCKS, "MPI_Win_unlock", "MPI_Win_flush")
"""Beginnings of the names of functions that may wait for a lock."""
_WITHOUT_LOCK = frozenset({"MPI_Win_fence", "MPI_Win_free", "MPI_Finalize"})
"""Functions that a rank may call only after it has given back its locks."""
_EXPOSED = frozenset({"MPI_Win_wait", "MPI_Win_test"})
"""Functions that follow MPI_Win_post."""
_HOLDER_UNKNOWN = Step("no source says which rank holds the lock, or exposes the window")


def one_sided(knot: Knot) -> Verdict | None:
    """Find ranks that wait for the other side of a one-sided synchronisation."""
    members = [
        number
        for number, each in zip(knot.members, knot.parties, strict=True)
        if any(_is_one_sided(made) for made in each.calls)
    ]
    if not members:
        return None
    parties = [knot.party(each) for each in members]
    ranks = RankSet.union(each.ranks for each in parties)
    waiters = {*knot.having("message receiver")}
    network = graph.digraph(knot.waiting, [each for each in knot.edges if each.waiter in waiters])
    numbers = [each for each in graph.reaching(network, members) if each in waiters]
    behind = [knot.party(each) for each in numbers]
    text = f"{words.named(ranks)} {words.verb(ranks, 'waits')} {words.in_calls(parties)}"
    if behind:
        others = RankSet.union(each.ranks for each in behind)
        needs = (need for each in numbers for need in knot.open_needs(each, "message receiver"))
        # Other ranks that wait for the same lock are victims.
        awaited = RankSet.union(each.targets for each in needs) & ranks or ranks
        who = words.pronoun(ranks) if awaited == ranks else words.named(awaited)
        these = "it needs" if len(ranks) == 1 else "they need"
        return knot.verdict(
            "cycle",
            f"{text}, and {words.named(others)}, which may hold what {these}, "
            f"{words.verb(others, 'waits')} for {who} {words.in_calls(behind)}",
            "a rank that waits for a message cannot give back a lock",
            ranks=awaited | others,
            known=False,
            step=_HOLDER_UNKNOWN,
        )
    return (
        _locks(knot, parties, ranks)
        or _holder(knot, parties, ranks)
        or _not_exposed(knot, parties)
        or knot.verdict(
            "unmatched-rma",
            f"{text} {_missing_part(knot, parties, ranks)}",
            "every rank that could do the other part is blocked",
            ranks=ranks,
            known=False,
            step=_HOLDER_UNKNOWN,
        )
    )


def _is_one_sided(made: MpiCall) -> bool:
    return (made.kind == "rma" or made.function == WIN_TEST) and not is_meeting(made)


def _missing_part(knot: Knot, parties: Sequence[Party], ranks: RankSet) -> str:
    """Return in words what ranks wait for in one-sided calls, and where the others are."""
    functions = {made.function for each in parties for made in each.calls if _is_one_sided(made)}
    others = [each for each in knot.parties if each.ranks.isdisjoint(ranks)]
    places = " and ".join(f"{words.named(each.ranks)} {words.states(each)}" for each in others[:2])
    elsewhere = f": {places}" if places else ""
    if all(each.startswith(_OF_LOCKS) for each in functions):
        return f"for a lock that another rank may hold, and that no rank gives back{elsewhere}"
    if functions <= _EXPOSED:
        return f"for a rank that does not call MPI_Win_complete for this window{elsewhere}"
    return f"for the other side of a one-sided synchronisation, which no rank does{elsewhere}"


def _locks(knot: Knot, parties: Sequence[Party], ranks: RankSet) -> Verdict | None:
    """Find ranks that want different locks, of which each may hold the one of another."""
    calls = [made for each in parties for made in each.calls]
    wanted = {(made.window, made.dest) for made in calls if made.dest is not None}
    if len(wanted) < 2 or any(made.function != _LOCKS for made in calls):
        return None
    others = [
        each
        for each in knot.parties
        if each.ranks.isdisjoint(ranks)
        and not _WITHOUT_LOCK.issuperset(made.function for made in each.calls)
    ]
    holders = RankSet.union(each.ranks for each in others)
    text = (
        f"{words.named(ranks)} {words.verb(ranks, 'waits')} {words.in_calls(parties)} for locks "
        "that no rank gives back: each may hold a lock that another one wants"
    )
    if holders:
        text += (
            f", or {words.named(holders)} may, which {words.verb(holders, 'is')} "
            f"{words.in_calls(others)}"
        )
    return knot.verdict(
        "unmatched-rma" if holders else "cycle",
        text,
        "ranks that lock several windows or targets in different orders wait for each other",
        ranks=ranks,
        known=False,
        step=_HOLDER_UNKNOWN,
    )


def _holder(knot: Knot, parties: Sequence[Party], ranks: RankSet) -> Verdict | None:
    """Find the rank that holds a lock: the only one that does not wait for this lock."""
    calls = [made for each in parties for made in each.calls]
    if len({(made.function, made.window, made.dest) for made in calls}) != 1:
        return None
    if calls[0].function != _LOCKS or calls[0].dest is None:
        return None
    others = [each for each in knot.waiting.parties if each.ranks - ranks]
    if len(others) != 1 or len(others[0].ranks) != 1 or others[0].is_dead:
        return None
    (other,) = others
    if not other.calls or _WITHOUT_LOCK.issuperset(made.function for made in other.calls):
        return None
    return knot.verdict(
        "unmatched-rma",
        f"{words.named(ranks)} {words.verb(ranks, 'waits')} {words.in_calls(parties)} for a lock "
        f"that {words.named(other.ranks)} holds, and does not give back: it "
        f"{words.states(other)}",
        "a lock for which all other ranks wait is held by the one that does not",
        ranks=other.ranks,
        known=False,
        step=_HOLDER_UNKNOWN,
    )


def _not_exposed(knot: Knot, parties: Sequence[Party]) -> Verdict | None:
    """Find ranks that want to access windows of ranks that do not expose theirs."""
    for each in parties:
        call = each.calls[0]
        if call.function not in ("MPI_Win_start", "MPI_Win_complete") or call.group is None:
            continue
        if not call.group.members:
            continue
        targets = RankSet.parse(call.group.members)
        found = [
            part(other, targets)
            for other in knot.parties
            if not other.ranks.isdisjoint(targets)
            and not _EXPOSED.issuperset(made.function for made in other.calls)
        ]
        if not found:
            continue
        missing = RankSet.union(other.ranks for other in found)
        there = " and ".join(
            f"{words.named(other.ranks)} {words.states(other)}" for other in found[:2]
        )
        return knot.verdict(
            "unmatched-rma",
            f"{words.named(each.ranks)} {words.verb(each.ranks, 'waits')} {words.in_calls([each])} "
            f"for {words.named(missing)}, which {words.verb(missing, 'does')} not call "
            f"MPI_Win_post for {words.pronoun(each.ranks)}: {there}",
            "MPI_Win_start returns when every rank of its group has exposed its window",
            ranks=each.ranks,
            known=False,
            step=_HOLDER_UNKNOWN,
        )
    return None
