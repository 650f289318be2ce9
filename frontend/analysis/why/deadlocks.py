"""Verdicts about knots: ranks that wait for each other only, or for ranks that have ended."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from msgspec.structs import replace

from pgdb.frontend.analysis.why import collectives, messages, mixups, one_sided, roots, words
from pgdb.frontend.analysis.why.knot import ASK_RECORDER, NOT_WATCHED, Knot, confidence_in
from pgdb.frontend.analysis.why.needs import Need
from pgdb.frontend.analysis.why.verdict import Step, Verdict
from pgdb.ranks import RankSet

OTHER_WORLD = Step(
    "the calls of the other world's processes on this communicator would show it: 'worlds' lists "
    "the worlds, and 'worlds add' attaches to those that are not in the session",
    ("worlds",),
)
ALL_WORLDS_HERE = Step(
    "all worlds of the job are in the session, and no rank of another world is in a call on this "
    "communicator: the places of their ranks would show whether they come to one",
    ("worlds", "tree"),
)
_OTHER_GROUP = Step(
    "the argument of each call, which is a rank in the other group, would show it: the source has "
    "it",
    ("list",),
)
_MESSAGES = "message receiver"
Rule = Callable[[Knot], Verdict | None]


def deadlock(knot: Knot) -> Verdict:
    """Return the verdict about a knot."""
    rules: tuple[Rule, ...] = (
        messages.itself,
        _elsewhere,
        collectives.connection,
        messages.other_message,
        messages.not_ready,
        messages.only_sends,
        mixups.tags_of_groups,
        _peers_unknown,
        messages.cycle,
        messages.other_rank,
        roots.unsent_part,
        collectives.left,
        messages.nobody,
        one_sided.one_sided,
        mixups.wrong_communicator,
        roots.remote_root,
        roots.untaken_part,
        collectives.different,
        collectives.requests,
        collectives.open_ended,
    )
    for rule in rules:
        found = rule(knot)
        if found is not None:
            return found
    return _unknown(knot, knot.ranks)


def _unknown(knot: Knot, ranks: RankSet) -> Verdict:
    text = f"{words.named(ranks)} {words.verb(ranks, 'waits')}, and no call returns"
    found = knot.verdict(
        "unknown",
        f"{text}; for whom is unknown: {words.short(knot.parties[0])}",
        "the ranks wait for each other, but arguments of their calls are unknown",
        ranks=ranks,
        known=False,
    )
    return replace(
        found, confidence="cannot tell", step=found.step if found.decides else ASK_RECORDER
    )


def _elsewhere(knot: Knot) -> Verdict | None:
    """Find ranks that wait for processes of another world; nobody here knows their calls."""
    numbers = knot.having("elsewhere")
    if not numbers:
        return None
    parties = [knot.waiting.parties[each] for each in numbers]
    ranks = RankSet.union(each.ranks for each in parties)
    found = knot.verdict(
        "unknown",
        f"{words.named(ranks)} {words.verb(ranks, 'waits')} {words.in_calls(parties)} for "
        "a process of another world; PGDB does not know which",
        "a communicator of MPI_Comm_spawn, or of a connection, has members without a rank here",
        ranks=ranks,
        known=False,
    )
    return replace(found, confidence="cannot tell", step=OTHER_WORLD)


def _peers_unknown(knot: Knot) -> Verdict | None:
    """Name no cause where several ranks send or receive and the peers of some are unknown."""
    numbers = knot.having(_MESSAGES)
    ranks = RankSet.union(knot.party(each).ranks for each in numbers)
    unknown = {
        each: needs
        for each in numbers
        if not _lacks_a_known_one(knot, each)
        and (needs := [one for one in knot.open_needs(each, _MESSAGES) if not one.is_known])
    }
    if not unknown or len(ranks) == 1:
        return None
    if all(
        each.communicator and each.communicator.remote for one in unknown.values() for each in one
    ):
        return _in_the_other_group(knot, ranks, unknown)
    return _unknown(knot, ranks)


def _in_the_other_group(
    knot: Knot, ranks: RankSet, unknown: Mapping[int, Sequence[Need]]
) -> Verdict:
    """Return the verdict about ranks whose peers are in another world, both of which are here.

    The library numbers a peer in its group, and has no number of another world for it.
    """
    waits = "; ".join(
        f"{words.short(knot.party(each))}, for one of "
        f"[{RankSet.union(need.targets for need in needs)}]"
        for each, needs in unknown.items()
    )
    found = knot.verdict(
        "unknown",
        f"{words.named(ranks)} wait for ranks of another world, and no call returns; PGDB does not "
        f"know for which: {waits}",
        "the ranks wait for each other over an intercommunicator, whose other group has no ranks "
        "in their own world",
        ranks=ranks,
        known=False,
    )
    return replace(found, confidence="cannot tell", step=_OTHER_GROUP)


def _lacks_a_known_one(knot: Knot, number: int) -> bool:
    """Return whether a party has one call, which needs all of its messages, and a known one of
    these is missing."""
    conditions = knot.waiting.conditions[number]
    missing = knot.open_needs(number, _MESSAGES)
    return (
        len(conditions) == 1
        and conditions[0].every
        and any(need.is_known and isinstance(need.peer, int) for need in missing)
    )


def ended(knot: Knot, waiters: Sequence[int]) -> Verdict:
    """Return the verdict about ranks that have ended while others wait for them."""
    parties = [knot.waiting.parties[each] for each in waiters]
    ranks = RankSet.union(each.ranks for each in parties)
    confidence, step = confidence_in(knot.waiting, ranks, is_known=True)
    if confidence == "cannot tell" and knot.waiting.watch.seconds == 0:
        step = NOT_WATCHED
    return Verdict(
        kind="rank-left",
        ranks=knot.ranks,
        victims=knot.victims,
        text=f"{words.named(knot.ranks)} {words.states(knot.parties[0])}, and "
        f"{words.named(ranks)} {words.verb(ranks, 'waits')} for "
        f"{words.pronoun(knot.ranks)} {words.in_calls(parties)}",
        confidence=confidence,
        rule="a rank that has ended takes part in no call",
        evidence=words.evidence([*knot.parties, *parties]),
        step=step,
    )
