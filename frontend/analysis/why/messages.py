"""Rules about messages: sends and receives that do not meet, and cycles of them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from pgdb.frontend.analysis.why import graph, matching, untaken, words
from pgdb.frontend.analysis.why.knot import Knot
from pgdb.frontend.analysis.why.matching import Offer
from pgdb.frontend.analysis.why.needs import is_meeting
from pgdb.frontend.analysis.why.parties import Party, part
from pgdb.frontend.analysis.why.untaken import Missed
from pgdb.frontend.analysis.why.verdict import Step, Verdict, VerdictKind
from pgdb.ranks import RankSet

_MOST_COMPARED = 256
"""Most sends and receives of a knot that are compared with each other."""
_MESSAGES = "message receiver"
_LATER_RECEIVE = Step(
    "the message that has come may belong to a later receive: compare the lines of its send and of "
    "this receive",
    ("why --all",),
)


def itself(knot: Knot) -> Verdict | None:
    """Find a rank that waits for its own part of a message."""
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


def other_message(knot: Knot) -> Verdict | None:
    """Find a pair of ranks whose send and receive differ in the tag or the communicator."""
    return _near_miss(knot, of_pair=True)


def other_rank(knot: Knot) -> Verdict | None:
    """Find a send and a receive of which one names a third rank.

    In a circle of waiting ranks there are such pairs too, and none of them is the cause.
    """
    return _near_miss(knot, of_pair=False)


def _near_miss(knot: Knot, *, of_pair: bool) -> Verdict | None:
    """Find a receive that waits for a message, where another one is there that nobody takes."""
    members = {*knot.members}
    if not of_pair:
        # A send of few elements to a third rank may be complete, and no cause of anything.
        members &= {*knot.having("receiver")}
    offers = [each for each in knot.waiting.offers if each.is_send and each.party in members]
    for number in knot.having("message")[:_MOST_COMPARED]:
        party = knot.party(number)
        for need in knot.open_needs(number, "message"):
            receive = Offer(party.ranks, False, need.peer, need.tag, need.communicator, number)
            for send in offers[:_MOST_COMPARED]:
                if not isinstance(send.peer, int) or send.party == number:
                    continue
                if (text := _missed(send, receive, of_pair=of_pair)) is None:
                    continue
                sender = knot.party(send.party)
                if not of_pair and _sends_to_many(knot, sender.ranks):
                    # The receivers wait for their turn, and none is the one that was meant.
                    continue
                differs = matching.same_communicator(send.communicator, receive.communicator)
                is_mixed_up = differs is not True and matching.same_tag(send.tag, need.tag) is True
                who = party.ranks & RankSet([send.peer]) or party.ranks
                text += words.at(sender)
                if send.peer not in who:
                    text += _elsewhere(knot, send.peer)
                return knot.verdict(
                    "communicator-mixup" if is_mixed_up else "unmatched-receive",
                    f"{words.named(who)} {words.verb(who, 'waits')} for a message "
                    f"{words.wanted(need)}{words.at(party)}, but {words.named(sender.ranks)} "
                    f"{words.verb(sender.ranks, 'sends')} {text}",
                    "a send and a receive that differ in one property, and both wait",
                    ranks=who | sender.ranks,
                    known=knot.is_known and differs is not None,
                )
    return None


def _sends_to_many(knot: Knot, sender: RankSet) -> bool:
    """Return whether several ranks wait for a message of one sender."""
    found = RankSet.union(
        knot.party(number).ranks
        for number in knot.having("message")
        for need in knot.open_needs(number, "message")
        if isinstance(need.peer, int) and need.peer in sender
    )
    return len(sender) == 1 and len(found) > 1


def _elsewhere(knot: Knot, rank: int) -> str:
    """Return the place of a rank that does not receive what is sent to it."""
    found = next((each for each in knot.parties if rank in each.ranks), None)
    if found is None:
        return ""
    one = part(found, RankSet([rank]))
    return f"; {words.named(one.ranks)} {words.states(one)}"


def not_ready(knot: Knot) -> Verdict | None:
    """Find a partitioned message of which a part was not marked as ready."""
    for number in knot.having("message"):
        party = knot.party(number)
        for need in knot.open_needs(number, "message"):
            if not isinstance(need.peer, int) or "partitioned recv" not in _kinds(party):
                continue
            sender = next((each for each in knot.parties if need.peer in each.ranks), None)
            if sender is None or "partitioned send" not in _kinds(sender):
                continue
            own = part(sender, RankSet([need.peer]))
            return knot.verdict(
                "unmatched-send",
                f"{words.named(own.ranks)} {words.verb(own.ranks, 'waits')} "
                f"{words.in_calls([own])}, and {words.named(party.ranks)} "
                f"{words.verb(party.ranks, 'waits')} for the message{words.at(party)}: not all "
                "partitions were marked as ready by MPI_Pready, or the two requests differ",
                "a partitioned message is complete when its sender has marked every partition",
                ranks=own.ranks,
                known=False,
            )
    return None


def _kinds(party: Party) -> set[str]:
    return {each.kind or "" for made in party.calls for each in made.requests if not each.complete}


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
        return f"one to rank {send.peer}, and rank {receive.peer} does not"
    if misses[1]:
        return f"it one with tag {send.tag}"
    if misses[2]:
        other = "perhaps another one, " if comms is None else ""
        return f"it one in {other}{words.communicator(send.communicator) or 'a communicator'}"
    return f"its message to rank {send.peer}" if is_source else None


def cycle(knot: Knot) -> Verdict | None:
    """Find ranks that wait for sends or receives of each other, in a circle."""
    own = knot.having(_MESSAGES)
    waiters = {*own}
    network = graph.digraph(knot.waiting, [each for each in knot.edges if each.waiter in waiters])
    receivers = knot.having("message")
    misses = untaken.missed(knot, receivers, of_sender=True)
    # A circle of ranks that miss no message is a deadlock of its own.
    others = [each for each in own if each not in misses]
    among, found = others, graph.cycle_in(network, others)
    if not found:
        among, found = own, graph.cycle_in(network, own)
    known = {each for each in among if _has_known_peers(knot, each)}
    if not found or not known.issuperset(found):
        return None
    parties = [knot.party(each) for each in found]
    ranks = RankSet.union(each.ranks for each in parties)
    if not misses.keys().isdisjoint(found):
        return _other_came(knot, misses.values(), f"so {_circle(parties, ranks)}")
    # None of them is a victim of the circle only: its ranks wait for it as well.
    every = graph.waiting_for_each_other(network, [each for each in among if each in known], found)
    further = [knot.party(each) for each in every[len(found) :]]
    is_sends = not {*receivers} & {*every}
    if is_sends:
        kind: VerdictKind = "head-to-head-sends"
        rule = "each sends to a rank that is itself in a send, and nobody receives"
    else:
        kind = "cycle"
        rule = "each waits for a send or a receive of the next one, and the last for the first"
    text = _circle(parties, ranks, further)
    for each in [*untaken.missed(knot, receivers, of_sender=False).values()][:1]:
        text += f"; {each.text}"
    return knot.verdict(
        kind, text, rule, ranks=RankSet.union([ranks, *(each.ranks for each in further)])
    )


def only_sends(knot: Knot) -> Verdict | None:
    """Find ranks that all wait for receivers of their messages, of which some are unknown."""
    needs = [*knot.every_need()]
    if not needs or any(need.kind != "receiver" for need in needs):
        return None
    if all(need.is_known for need in needs) or len(knot.ranks) < 2:
        return None
    return knot.verdict(
        "head-to-head-sends",
        f"{words.named(knot.ranks)} wait until their messages are received, "
        f"{words.in_calls(knot.parties)}, and none of them waits in a receive",
        "each waits for a send, and nobody who could receive is able to",
        known=False,
    )


def _has_known_peers(knot: Knot, number: int) -> bool:
    return all(isinstance(need.peer, int) for need in knot.open_needs(number, _MESSAGES))


def _other_came(
    knot: Knot, misses: Iterable[Missed], behind: str, others: Sequence[Party] = ()
) -> Verdict:
    """Return the verdict about receives that wait, where the awaited rank has sent another
    message, and about *others* for which no message has come."""
    first, *rest = misses
    ranks = RankSet.union(each.party.ranks for each in (first, *rest))
    text = first.text
    if rest:
        alike = RankSet.union(each.party.ranks for each in rest)
        text += f", and {words.named(alike)} {words.verb(alike, 'waits')} likewise"
    if others:
        alone = RankSet.union(each.ranks for each in others)
        text += (
            f", and {words.named(alone)} {words.verb(alone, 'waits')} {words.in_calls(others)} "
            "for a message that nobody sends"
        )
        ranks = ranks | alone
    return knot.verdict(
        "communicator-mixup" if first.is_mixed_up else "unmatched-receive",
        f"{text}; {behind}",
        "a message that has come and that no receive takes differs in one property from the one "
        "that the rank waits for",
        ranks=ranks,
        known=False,
        step=_LATER_RECEIVE,
    )


def _circle(parties: Sequence[Party], ranks: RankSet, further: Sequence[Party] = ()) -> str:
    """Return a cycle in words, whose parties are in the order in which they wait; *further* ones
    wait for it, and it for them."""
    text = f"{words.named(ranks)} wait for each other"
    if further:
        every = RankSet.union([ranks, *(each.ranks for each in further)])
        return (
            f"{words.named(every)} wait for each other (one circle of several is "
            f"{_steps(parties)}), {words.in_calls([*parties, *further])}"
        )
    if len(parties) == 2:
        return f"{text}: {', '.join(words.short(each) for each in parties)}"
    length = f" of {len(parties)}" if len(parties) > words.MOST_STEPS else ""
    return f"{text} in a circle{length} ({_steps(parties)}), {words.in_calls(parties)}"


def _steps(parties: Sequence[Party]) -> str:
    steps = [str(each.ranks) for each in parties]
    if len(steps) > words.MOST_STEPS:
        steps = [*steps[: words.MOST_STEPS - 1], "…"]
    return " → ".join([*steps, str(parties[0].ranks)])


def nobody(knot: Knot) -> Verdict | None:
    """Find receives and sends whose other part no rank can do any longer."""
    blocked = RankSet.union(
        each.ranks
        for number, each in zip(knot.members, knot.parties, strict=True)
        if knot.open_needs(number, f"{_MESSAGES} others") and not any(map(is_meeting, each.calls))
    )
    kinds: tuple[tuple[VerdictKind, str, str], ...] = (
        ("unmatched-receive", "for a message that nobody sends", "message"),
        ("unmatched-send", "for a receive that nobody posts", "receiver"),
    )
    own = [(kind, what, need_kind, knot.having(need_kind)) for kind, what, need_kind in kinds]
    # A rank that waits for one that waits itself is its victim, whatever that one did before.
    ends = {
        number
        for _, _, need_kind, numbers in own
        for number in numbers
        if _is_end(knot, number, need_kind, blocked)
    }
    if not ends and any(each.kind == "rma" for party in knot.parties for each in party.calls):
        return None
    for kind, what, need_kind, numbers in own:
        chosen = [each for each in numbers if each in ends] or ([] if ends else numbers)
        if chosen:
            return _nobody(knot, kind, what, need_kind, chosen, ends)
    return None


def _is_end(knot: Knot, number: int, need_kind: str, blocked: RankSet) -> bool:
    """Return whether a chain of waits ends at a party: no rank that it waits for is *blocked*.

    Needs whose ranks are unknown decide where no other ones are known.
    """
    needs = knot.open_needs(number, need_kind)
    known = [each for each in needs if isinstance(each.peer, int)]
    if not known:
        return not any(isinstance(each.peer, int) for each in knot.open_needs(number, _MESSAGES))
    return all(each.targets.isdisjoint(blocked) for each in known)


def _nobody(
    knot: Knot,
    kind: VerdictKind,
    what: str,
    need_kind: str,
    numbers: Sequence[int],
    ends: set[int],
) -> Verdict:
    parties = [knot.party(each) for each in numbers]
    ranks = RankSet.union(each.ranks for each in parties)
    needs = [need for each in numbers for need in knot.open_needs(each, need_kind)]
    targets = RankSet.union(need.targets for need in needs) - ranks
    others = [each for each in knot.parties if not each.ranks.isdisjoint(targets)]
    elsewhere = ""
    if others:
        there = part(others[0], targets)
        elsewhere = f"{words.named(there.ranks)} {words.states(there)}"
    receivers = numbers if need_kind == "message" else ()
    if misses := untaken.missed(knot, receivers, of_sender=True):
        rest = [knot.party(each) for each in numbers if each in ends and each not in misses]
        return _other_came(knot, misses.values(), elsewhere or "nobody sends it", rest)
    made = parties[0].call
    has_requests = len(parties) == 1 and made is not None and bool(made.requests)
    text = (
        f"{words.named(ranks)} {words.verb(ranks, 'waits')} "
        f"{words.in_calls(parties, named_only=has_requests)} {what}"
    )
    if has_requests:
        own = [need for need in needs if isinstance(need.peer, int)] or needs
        text += f": {words.any_of([words.wanted(each) for each in own])}"
    if elsewhere:
        text += f"; {elsewhere}"
    for each in [*untaken.missed(knot, receivers, of_sender=False).values()][:1]:
        text += f"; one with that tag has come from rank {each.message.source}"
    if kind == "unmatched-receive" and needs[0].tag is not None:
        rule = (
            "no rank that could send the message is able to; one with another tag, source or "
            "communicator may have been sent, or a wildcard may have received it"
        )
    else:
        rule = "no rank that could do the other part is able to"
    return knot.verdict(kind, text, rule, ranks=ranks)
