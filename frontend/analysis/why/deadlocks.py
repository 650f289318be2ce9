"""Verdicts about knots: ranks that wait for each other only, or for ranks that have ended."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence

from msgspec.structs import replace

from pgdb.frontend.analysis.why import graph, matching, words
from pgdb.frontend.analysis.why.graph import Edge
from pgdb.frontend.analysis.why.matching import Difference, Offer
from pgdb.frontend.analysis.why.needs import ROOTED, Need, is_meeting, needs_of
from pgdb.frontend.analysis.why.parties import Party, part
from pgdb.frontend.analysis.why.verdict import Confidence, Verdict, VerdictKind
from pgdb.frontend.analysis.why.waiting import Waiting
from pgdb.mpi_calls import MpiCall
from pgdb.ranks import RankSet

_KINDS: dict[Difference, VerdictKind] = {
    "function": "different-collectives",
    "root": "different-roots",
    "operation": "different-operations",
    "count": "different-counts",
    "datatype": "different-datatypes",
    "communicator": "collective-order",
}
_DIFFERENCES: dict[Difference, str] = {
    "function": "are in different collective calls of one communicator",
    "root": "name different roots in one collective call",
    "operation": "name different operations in one collective call",
    "count": "give different counts in one collective call",
    "datatype": "give different datatypes in one collective call",
    "communicator": "are in collective calls of different communicators that have ranks in common, "
    "so that the order of the calls differs, or one communicator was taken for another",
}
_MOST_COMPARED = 256
"""Most sends and receives of a knot that are compared with each other."""
NOT_WATCHED = (
    "the ranks did not run while they were watched, so that a message may be in flight: 'why' "
    "without --look lets them run for a moment"
)
_ASK_RECORDER = (
    "arguments of some calls are unknown; debug information, or the flight recorder, would have "
    "them"
)


class Knot:
    """Parties that wait for each other only, with all that rules need to know about them."""

    def __init__(
        self, waiting: Waiting, members: Sequence[int], edges: Sequence[Edge], victims: RankSet
    ) -> None:
        self.waiting = waiting
        self.members = members
        self.edges = edges
        """The edges from these parties."""
        self.core = self._waited_for()
        """The ranks of the parties that others of them wait for."""
        everybody = RankSet.union(waiting.parties[each].ranks - waiting.free for each in members)
        self.victims = victims | (everybody - self.core)
        self.parties = [self.party(each) for each in members]
        self.ranks = self.core

    def _waited_for(self) -> RankSet:
        parties = self.waiting.parties
        core = RankSet.union(parties[each].ranks - self.waiting.free for each in self.members)
        # Ranks in equal calls are one party, and a cycle may lead through some of them only.
        while True:
            targets = RankSet.union(
                edge.ranks for edge in self.edges if not parties[edge.waiter].ranks.isdisjoint(core)
            )
            if core <= targets or not core & targets:
                return core
            core = core & targets

    def party(self, number: int) -> Party:
        """Return a member without the ranks that nobody here waits for."""
        return part(self.waiting.parties[number], self.core)

    def having(self, kinds: str) -> list[int]:
        """Return the members that have an open need of one of *kinds*."""
        return [
            each
            for each in self.members
            if any(need.kind in kinds.split() for need in self.waiting.open_needs(each))
        ]

    def calling(self, function: str) -> RankSet:
        """Return the ranks that are in a function."""
        return RankSet.union(
            each.ranks
            for each in self.parties
            if function in [made.function for made in each.calls]
        )

    @property
    def is_known(self) -> bool:
        """Whether all fields that the verdict rests on are known."""
        return all(
            need.is_known
            for each in self.members
            for need in needs_of(self.waiting.conditions[each])
        )

    def verdict(
        self,
        kind: VerdictKind,
        text: str,
        rule: str,
        *,
        ranks: RankSet | None = None,
        victims: RankSet = RankSet(),
        known: bool | None = None,
    ) -> Verdict:
        """Return a verdict about these parties; *ranks* are the cause, all by default."""
        cause = self.ranks if ranks is None else ranks
        is_known = self.is_known if known is None else known
        confidence: Confidence
        confidence, decides = _confidence(self.waiting, self.ranks, is_known=is_known)
        return Verdict(
            kind=kind,
            ranks=cause,
            victims=(self.victims | victims | self.ranks) - cause,
            text=text,
            confidence=confidence,
            rule=rule,
            evidence=words.evidence(self.parties),
            decides=decides,
        )


def _confidence(waiting: Waiting, ranks: RankSet, *, is_known: bool) -> tuple[Confidence, str]:
    dead = RankSet.union(each.ranks for each in waiting.parties if each.is_dead)
    watch = waiting.watch
    if not ranks - dead <= watch.still:
        return "cannot tell", NOT_WATCHED
    return ("certain", "") if is_known else ("likely", _ASK_RECORDER)


Rule = Callable[[Knot], Verdict | None]


def deadlock(knot: Knot) -> Verdict:
    """Return the verdict about a knot."""
    rules: tuple[Rule, ...] = (
        _itself,
        _other_message,
        _peers_unknown,
        _sends_and_receives,
        _other_rank,
        _left,
        _nobody_sends,
        _one_sided,
        _collectives,
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
        f"{text}; for whom is unknown: {_short(knot.parties[0])}",
        "the ranks wait for each other, but arguments of their calls are unknown",
        ranks=ranks,
        known=False,
    )
    return replace(found, confidence="cannot tell", decides=found.decides or _ASK_RECORDER)


def _peers_unknown(knot: Knot) -> Verdict | None:
    """Name no cause where several ranks send or receive and the peers of some are unknown."""
    numbers = knot.having("message receiver")
    ranks = RankSet.union(knot.party(each).ranks for each in numbers)
    is_unknown = any(
        not need.is_known
        for each in numbers
        for need in knot.waiting.open_needs(each)
        if need.kind in ("message", "receiver")
    )
    return _unknown(knot, ranks) if is_unknown and len(ranks) > 1 else None


def ended(knot: Knot, waiters: Sequence[int]) -> Verdict:
    """Return the verdict about ranks that have ended while others wait for them."""
    parties = [knot.waiting.parties[each] for each in waiters]
    ranks = RankSet.union(each.ranks for each in parties)
    watched, is_known = knot.waiting.watch, True
    confidence, decides = _confidence(knot.waiting, ranks, is_known=is_known)
    if confidence == "cannot tell" and watched.seconds == 0:
        decides = NOT_WATCHED
    return Verdict(
        kind="rank-left",
        ranks=knot.ranks,
        victims=knot.victims,
        text=f"{words.named(knot.ranks)} {words.states(knot.parties[0])}, and "
        f"{words.named(ranks)} {words.verb(ranks, 'waits')} for "
        f"{'it' if len(knot.ranks) == 1 else 'them'} {_in_call(parties)}",
        confidence=confidence,
        rule="a rank that has ended takes part in no call",
        evidence=words.evidence([*knot.parties, *parties]),
        decides=decides,
    )


def _itself(knot: Knot) -> Verdict | None:
    for number, party in zip(knot.members, knot.parties, strict=True):
        needs = [*knot.waiting.open_needs(number)]
        own = [need.targets & party.ranks for need in needs if need.peer is not None and need.every]
        alone = RankSet.union(own)
        if not alone or not all(alone & need.targets for need in needs):
            continue
        if len(party.calls) > 1:
            text = "waits for itself: all of its threads that are in MPI wait for each other"
        else:
            text = f"waits for itself in {words.call(party.calls[0])}"
        at = words.place(party.status.where)
        return knot.verdict(
            "self-deadlock",
            f"{words.named(alone)} {text}{f', in {at}' if at else ''}",
            "a rank that is blocked in a call cannot do the other part of it",
            ranks=alone,
        )
    return None


def _other_message(knot: Knot) -> Verdict | None:
    """Find a pair of ranks whose send and receive differ in the tag or the communicator."""
    return _near_miss(knot, of_pair=True)


def _other_rank(knot: Knot) -> Verdict | None:
    """Find a send and a receive of which one names a third rank.

    In a circle of waiting ranks there are such pairs too, and none of them is the cause.
    """
    return _near_miss(knot, of_pair=False)


def _near_miss(knot: Knot, *, of_pair: bool) -> Verdict | None:
    """Find a receive that waits for a message, where another one is there that nobody takes."""
    members = {*knot.members}
    offers = [each for each in knot.waiting.offers if each.is_send and each.party in members]
    for number in knot.having("message")[:_MOST_COMPARED]:
        party = knot.party(number)
        for need in knot.waiting.open_needs(number):
            if need.kind != "message":
                continue
            receive = Offer(party.ranks, False, need.peer, need.tag, need.communicator, number)
            for send in offers[:_MOST_COMPARED]:
                if not isinstance(send.peer, int) or send.party == number:
                    continue
                if (text := _missed(send, receive, of_pair=of_pair)) is None:
                    continue
                sender = knot.party(send.party)
                differs = matching.same_communicator(send.communicator, receive.communicator)
                is_mixed_up = differs is not True and matching.same_tag(send.tag, need.tag) is True
                who = party.ranks & RankSet([send.peer]) or party.ranks
                return knot.verdict(
                    "communicator-mixup" if is_mixed_up else "unmatched-receive",
                    f"{words.named(who)} {words.verb(who, 'waits')} for a message "
                    f"{_wanted(need)}{_at(party)}, but {words.named(sender.ranks)} "
                    f"{words.verb(sender.ranks, 'sends')} {text}{_at(sender)}",
                    "a send and a receive that differ in one property, and both wait",
                    ranks=who | sender.ranks,
                    known=knot.is_known and differs is not None,
                )
    return None


def _missed(send: Offer, receive: Offer, *, of_pair: bool) -> str | None:
    """Return a send in words that a receive misses by one property; None if it misses by more."""
    assert isinstance(send.peer, int)
    to_it = send.peer in receive.ranks
    is_source = isinstance(receive.peer, int) and receive.peer in send.ranks
    tags = matching.same_tag(send.tag, receive.tag)
    comms = matching.same_communicator(send.communicator, receive.communicator)
    misses = [
        isinstance(receive.peer, int) and not is_source,
        tags is False,
        comms is False,
        not to_it,
    ]
    if not any(misses) and comms is None:
        # All that is known fits, and yet both wait.
        misses[2] = is_source and tags is True
    if sum(misses) != 1 or send.tag is None:
        return None
    if of_pair != (misses[1] or misses[2]):
        return None
    if misses[0]:
        return f"one to rank {send.peer} that is not from rank {receive.peer}"
    if misses[1]:
        return f"it one with tag {send.tag}"
    if misses[2]:
        other = "perhaps another one, " if comms is None else ""
        return f"it one in {other}{words.communicator(send.communicator) or 'a communicator'}"
    return f"its message to rank {send.peer}" if is_source else None


def _sends_and_receives(knot: Knot) -> Verdict | None:
    own = knot.having("message receiver")
    waiters = {*own}
    network = graph.digraph(knot.waiting, [each for each in knot.edges if each.waiter in waiters])
    cycle = graph.cycle_in(network, own)
    if not cycle or not all(
        need.peer is not None and isinstance(need.peer, int)
        for each in cycle
        for need in knot.waiting.open_needs(each)
        if need.kind in ("message", "receiver")
    ):
        return None
    parties = [knot.party(each) for each in cycle]
    ranks = RankSet.union(each.ranks for each in parties)
    is_sends = not {*knot.having("message")} & {*cycle}
    if is_sends:
        kind: VerdictKind = "head-to-head-sends"
        rule = "each sends to a rank that is itself in a send, and nobody receives"
    else:
        kind = "cycle"
        rule = "each waits for a send or a receive of the next one, and the last for the first"
    if len(cycle) == 2:
        text = f"{words.named(ranks)} wait for each other"
    else:
        text = f"{words.named(ranks)} wait for each other in a circle"
    if len(cycle) <= 4:
        text += ": " + ", ".join(_short(each) for each in parties)
    else:
        text += f" of {len(cycle)}: {_short(parties[0])}, and so on"
    return knot.verdict(kind, text, rule, ranks=ranks)


def _left(knot: Knot) -> Verdict | None:
    finalizing = knot.calling("MPI_Finalize")
    if not finalizing or finalizing == knot.ranks or knot.having("message receiver"):
        return None
    others = [each for each in knot.parties if each.ranks.isdisjoint(finalizing)]
    ranks = RankSet.union(each.ranks for each in others)
    left = [each for each in knot.parties if not each.ranks.isdisjoint(finalizing)]
    return knot.verdict(
        "rank-left",
        f"{words.named(finalizing)} {words.verb(finalizing, 'has')} left for MPI_Finalize"
        f"{_at(left[0])}, while {words.named(ranks)} {words.verb(ranks, 'waits')} for "
        f"{'it' if len(finalizing) == 1 else 'them'} {_in_call(others)}",
        "a rank in MPI_Finalize takes part in no other collective call",
        ranks=finalizing,
    )


def _nobody_sends(knot: Knot) -> Verdict | None:
    for kind, what, need_kind in (
        ("unmatched-receive", "for a message that nobody sends", "message"),
        ("unmatched-send", "for a receive that nobody posts", "receiver"),
    ):
        numbers = knot.having(need_kind)
        if not numbers:
            continue
        parties = [knot.party(each) for each in numbers]
        ranks = RankSet.union(each.ranks for each in parties)
        needs = [
            need
            for each in numbers
            for need in knot.waiting.open_needs(each)
            if need.kind == need_kind
        ]
        targets = RankSet.union(need.targets for need in needs) - ranks
        others = [each for each in knot.parties if not each.ranks.isdisjoint(targets)]
        text = f"{words.named(ranks)} {words.verb(ranks, 'waits')} {what}: "
        text += _short(parties[0])
        if others:
            there = part(others[0], targets)
            text += f"; {words.named(there.ranks)} {words.states(there)}"
        if kind == "unmatched-receive" and needs[0].tag is not None:
            rule = (
                "no rank that could send the message is able to; one with another tag, source or "
                "communicator may have been sent, or a wildcard may have received it"
            )
        else:
            rule = "no rank that could do the other part is able to"
        found: VerdictKind = "unmatched-receive" if need_kind == "message" else "unmatched-send"
        return knot.verdict(found, text, rule, ranks=ranks)
    return None


def _one_sided(knot: Knot) -> Verdict | None:
    members = [
        each
        for each in knot.parties
        if any(made.kind == "rma" and not is_meeting(made) for made in each.calls)
    ]
    if not members:
        return None
    ranks = RankSet.union(each.ranks for each in members)
    return knot.verdict(
        "unmatched-rma",
        f"{words.named(ranks)} {words.verb(ranks, 'waits')} for the other side of a one-sided "
        f"synchronisation, which no rank does: {_short(members[0])}",
        "every rank that could do the other part is blocked",
        ranks=ranks,
        known=False,
    )


def _collectives(knot: Knot) -> Verdict | None:
    calls: list[tuple[MpiCall, Party]] = [
        (made, each) for each in knot.parties for made in each.calls if is_meeting(made)
    ]
    if len({*(party.ranks for _, party in calls)}) < 2:
        return None
    sizes: Counter[MpiCall] = Counter()
    for made, party in calls:
        sizes[made] += len(party.ranks)
    usual = max(sizes, key=lambda each: sizes[each])
    differing = [
        (difference, made, party)
        for made, party in calls
        if (difference := matching.difference_of(usual, made)) is not None
    ]
    if not differing:
        return None
    difference, made, party = differing[0]
    others = RankSet.union(each.ranks for _, _, each in differing)
    majority = knot.ranks - others
    cause = others if len(others) < len(majority) else knot.ranks
    kind = _KINDS[difference]
    groups = [matching.members_of(matching.group_of(each)) for each in (usual, made)]
    if difference == "communicator" and usual.function == made.function and groups[0] == groups[1]:
        kind = "communicator-mixup"
    first = next(each for call, each in calls if call is usual or call == usual)
    text = f"{words.named(knot.ranks)} {_DIFFERENCES[difference]}: {_short(first)}, {_short(party)}"
    # The root of an earlier call may have left it long ago, so that the odd one is not the cause.
    has_root = not {usual.function, made.function}.isdisjoint(ROOTED)
    is_sure = knot.is_known and not (difference == "function" and has_root)
    return knot.verdict(
        kind,
        text,
        "all members of a communicator make the same collective calls in one order",
        ranks=cause,
        known=is_sure,
    )


def _short(party: Party) -> str:
    """Return a party with its first call in few words."""
    made = party.call
    text = words.call(made, brief=True) if made is not None else words.state(party)
    return f"[{party.ranks}] {text}{_at(party)}"


def _at(party: Party) -> str:
    at = words.place(party.status.where)
    return f" ({at})" if at else ""


def _in_call(parties: Sequence[Party]) -> str:
    made = parties[0].call
    return f"in {words.call(made, brief=True)}{_at(parties[0])}" if made is not None else ""


def _wanted(need: Need) -> str:
    source = f"from rank {need.peer}" if isinstance(need.peer, int) else "from any rank"
    tag = f" with tag {need.tag}" if isinstance(need.tag, int) else ""
    comm = words.communicator(need.communicator, brief=True)
    return f"{source}{tag}{f' in {comm}' if comm else ''}"
