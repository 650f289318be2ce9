"""Rules about ranks that take another communicator than they should, or join two with different
tags."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from msgspec.structs import replace

from pgdb.frontend.analysis.why import matching, words
from pgdb.frontend.analysis.why.knot import Knot
from pgdb.frontend.analysis.why.needs import is_meeting
from pgdb.frontend.analysis.why.parties import Party
from pgdb.frontend.analysis.why.verdict import Step, Verdict
from pgdb.mpi_calls import MpiCall
from pgdb.ranks import RankSet

_OR_LEFT_OUT = Step(
    "the calls of the other members before this one, which the recorder of MPI calls counts",
    ("mpi-calls --last 8",),
)
Call = tuple[MpiCall, Party]


def wrong_communicator(knot: Knot) -> Verdict | None:
    """Find ranks alone in a call that others make in another communicator, and miss them there.

    Ranks that have left out a call look the same where they are no more than those that wait in it.
    So the call has to be that of the others, at the same place, unless more ranks would have left
    it out than wait in it.
    """
    calls = [(made, each) for each in knot.parties for made in each.calls if is_meeting(made)]
    for alone, others, left_out in _pairs(calls, knot.ranks):
        made, party = alone
        there, waiting = others
        who = words.named(party.ranks)
        return knot.verdict(
            "communicator-mixup",
            f"{who} {words.verb(party.ranks, 'is')} alone {words.in_calls([party])} "
            f"of [{_members(made)}], and {words.named(waiting.ranks)} "
            f"{words.verb(waiting.ranks, 'waits')} for {words.pronoun(party.ranks)} in the same "
            f"call of [{_members(there)}]{words.at(waiting)}: one communicator was taken for "
            f"another, or {words.named(left_out)} {words.verb(left_out, 'has')} left a call out",
            "a rank is alone in a call of one communicator, and is all that the same call of "
            "another one lacks",
            ranks=party.ranks,
            known=False,
            step=_OR_LEFT_OUT,
        )
    return None


def tags_of_groups(knot: Knot) -> Verdict | None:
    """Find the two groups of an intercommunicator that give different tags for it."""
    groups: dict[RankSet | None, list[Call]] = {}
    for party in knot.parties:
        for made in party.calls:
            if made.function != "MPI_Intercomm_create" or not isinstance(made.tag, int):
                return None
            groups.setdefault(matching.members_of(made.communicator), []).append((made, party))
    tags = [{made.tag for made, _ in calls} for calls in groups.values()]
    if len(groups) != 2 or None in groups or not tags[0].isdisjoint(tags[1]):
        return None
    texts = [_tag_of_group(calls) for calls in groups.values()]
    return knot.verdict(
        "unmatched-receive",
        f"{texts[0]}, but {texts[1]}: the leaders of the two groups send each other messages with "
        "these tags, and none of them is received",
        "both groups of an intercommunicator give the same tag to MPI_Intercomm_create",
        known=False,
    )


def _tag_of_group(calls: Sequence[Call]) -> str:
    ranks = RankSet.union(party.ranks for _, party in calls)
    return f"{words.named(ranks)} {words.verb(ranks, 'is')} {words.in_calls([calls[0][1]])}"


def _pairs(calls: Sequence[Call], stuck: RankSet) -> Iterator[tuple[Call, Call, RankSet]]:
    """Yield calls of ranks that are alone in them, with the calls in which these are missing, and
    the members that would have left out the former."""
    for made, party in calls:
        members = matching.members_of(made.communicator)
        if members is None or made.communicator is None or made.communicator.remote:
            continue
        left_out = (members - party.ranks) & stuck
        if not left_out or any(
            each is not party and matching.difference_of(made, other) is None
            for other, each in calls
        ):
            continue
        for other, waiting in calls:
            if not _is_same(made, other) or waiting is party:
                continue
            wanted = matching.members_of(other.communicator)
            there = RankSet.union(
                each.ranks for third, each in calls if matching.difference_of(other, third) is None
            )
            if wanted is None or wanted == members or wanted - there != party.ranks:
                continue
            is_elsewhere = left_out.isdisjoint(there) and party.status.where == waiting.status.where
            if is_elsewhere or len(left_out) > len(party.ranks):
                yield (made, party), (other, waiting), left_out


def _is_same(one: MpiCall, other: MpiCall) -> bool:
    """Return whether two calls differ in the communicator alone."""
    if matching.same_communicator(one.communicator, other.communicator) is not False:
        return False
    return matching.difference_of(one, replace(other, communicator=one.communicator)) is None


def _members(made: MpiCall) -> str:
    return "" if made.communicator is None else made.communicator.members or ""
