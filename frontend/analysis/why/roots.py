"""Rules about roots that ranks outside the call should know better."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec.structs import replace

from pgdb.frontend.analysis.why import matching, words
from pgdb.frontend.analysis.why.knot import Knot
from pgdb.frontend.analysis.why.needs import ROOTED, is_meeting
from pgdb.frontend.analysis.why.parties import Party, part
from pgdb.frontend.analysis.why.verdict import Step, Verdict, VerdictKind
from pgdb.mpi_calls import ELSEWHERE, ArrivedMessage, MpiCall
from pgdb.mpi_functions import GATHERING
from pgdb.ranks import RankSet

_COUNTS = Step(
    "the root that the rank named in that call, which the recorder of MPI calls keeps: most "
    "programs have the first rank as root, and the sender has it",
    ("mpi-calls --last 8",),
)

_COUNTS_OF_CALLS = Step(
    "the recorder of MPI calls counts the calls of each rank, and keeps their roots",
    ("mpi-calls --last 8",),
)
_ROOT_ALONE = Step(
    "the root may be the only rank that makes the call; the recorder of MPI calls counts the "
    "calls of each rank",
    ("mpi-calls --last 8",),
)
_RANK_ALONE = Step(
    "the rank may be the only one that makes the call; the recorder of MPI calls counts the "
    "calls of each rank",
    ("mpi-calls --last 8",),
)
_WHICH_RANK = Step(
    "the root that each rank of the other group named in its last call, which the recorder of MPI "
    "calls keeps",
    ("mpi-calls --last 8",),
)


def untaken_part(knot: Knot) -> Verdict | None:
    """Find ranks that have left a call with a root without a part that another rank sends them.

    The sender is not the root: it has the data from other ranks, so that it is not alone in its
    call. A rank that is itself a root takes no part. The others have left, and with whom their root
    agrees is unknown. Most programs have the first rank as root, so that a sender with this root is
    no cause.
    """
    for party in knot.parties:
        for message in party.status.arrived:
            if not message.function or message.function in GATHERING:
                continue
            if (sender := _sender(knot, party, message)) is not None:
                found = [each.ranks for each in knot.parties if message in each.status.arrived]
                return _verdict(knot, party, sender, message, RankSet.union(found))
    return None


def unsent_part(knot: Knot) -> Verdict | None:
    """Find ranks that have not sent their part of a call that gathers, and are elsewhere.

    A member leaves such a call when it has sent its part, so that all but one of those at another
    place may have done so. The open receives of the library say which one has not. If the first
    member in line is missing, and nobody else is in the call, it may be the root alone that makes
    the call.
    """
    waiting = [
        (each, made, RankSet.parse(made.awaits))
        for each in knot.parties
        if (made := each.call) is not None and made.awaits
    ]
    if len({matching.plain(made) for _, made, _ in waiting}) > 1:
        return None  # the calls differ, in their roots or their communicators
    inside = RankSet.union(each.ranks for each, _, _ in waiting)
    for party, made, parts in waiting:
        plain = matching.plain(made)
        if any(_gathers_otherwise(each, made) for each in knot.parties):
            return None
        if _is_behind_the_root(knot, made, inside):
            return None
        absent = (parts - inside) & RankSet.union(
            each.ranks for each in knot.parties if not _is_in(each, made)
        )
        there = [part(each, absent) for each in knot.parties if not each.ranks.isdisjoint(absent)]
        # A rank that waits for a message may not have come to the call yet.
        if not there or not all(any(map(is_meeting, each.calls)) for each in there):
            continue
        places = " and ".join(
            f"{words.named(each.ranks)} {words.verb(each.ranks, 'is')} {words.in_calls([each])}"
            for each in there
        )
        have_made_it = _have_made_it(made, there)
        who = words.named(absent)
        has = words.verb(absent, "has")
        because = {
            None: f"{who} {has} left the call out, or named another root",
            True: f"{who} {has} made this call, and named another root",
            False: f"{who} {has} left the call out",
        }
        if made.root is None:
            because[None] = because[False]
        kind: VerdictKind = "different-roots" if have_made_it else "missing-from-collective"
        found = knot.verdict(
            "rank-left" if _are_in_finalize(there) else kind,
            f"{words.named(party.ranks)} {words.verb(party.ranks, 'waits')} "
            f"{words.in_calls([party])} for the part of {who}, but {places}: "
            f"{because[have_made_it]}",
            "the root of a call that gathers, and inner ranks of its tree, receive others' parts"
            if made.root is not None
            else "a member of this call receives the part of a rank before it",
            # The root alone is wrong rather than all others.
            ranks=inside if have_made_it and len(inside) == 1 else absent,
            known=False,
            step=_COUNTS_OF_CALLS,
        )
        outside = [each for each in knot.parties if each.ranks.isdisjoint(inside)]
        if have_made_it is False and _have_made_it(made, outside) is False:
            return _alone(knot, made, inside) or found
        if have_made_it is not None:
            return found
        others = _others_made_it(knot, plain, inside, absent)
        if others is False:
            return _alone(knot, made, inside)
        if others is None and len(inside) == 1 and _is_first_in_line(made, absent):
            step = _ROOT_ALONE if made.root is not None else _RANK_ALONE
            return replace(found, confidence="cannot tell", step=step)
        return found
    return None


def _others_made_it(knot: Knot, made: MpiCall, inside: RankSet, absent: RankSet) -> bool | None:
    """Return whether a rank besides those *inside* a call that gathers has made it, as the parts
    that have come say; None if they do not.

    The *absent* rank may be the one that has to hand the parts of others on.
    """
    own = [each for party in knot.parties for each in party.calls if matching.plain(each) == made]
    came = [each.came for each in own if each.came is not None]
    if any(RankSet.parse(each) - inside - absent for each in came if each):
        return True
    there = [each for each in knot.parties if not each.ranks.isdisjoint(absent)]
    for message in (each for party in there for each in party.status.arrived):
        source = message.source
        if message.function == made.function and isinstance(source, int):
            if source not in absent | inside:
                return True
    return False if came else None


def _alone(knot: Knot, made: MpiCall, inside: RankSet) -> Verdict | None:
    """Return the verdict about ranks that are the only ones to make a call that gathers."""
    members = matching.members_of(made.communicator)
    within = [each for each in knot.parties if not each.ranks.isdisjoint(inside)]
    others = [each for each in knot.parties if each.ranks.isdisjoint(inside)]
    if members is None or len(members - inside) <= len(inside) or _are_in_finalize(others):
        return None
    ranks = RankSet.union(each.ranks for each in others)
    return knot.verdict(
        "different-collectives",
        f"{words.named(inside)} {words.verb(inside, 'is')} {words.in_calls(within)}, and no other "
        f"rank has sent its part: {words.named(ranks)} {words.verb(ranks, 'is')} "
        f"{words.in_calls(others)}",
        "a member of a call that gathers sends its part, and leaves the call then",
        ranks=inside,
        known=False,
        step=_COUNTS_OF_CALLS,
    )


def _have_made_it(made: MpiCall, others: Sequence[Party]) -> bool | None:
    """Return whether *others* are in later calls of a communicator, as the recorder counts them;
    None if it does not say."""
    own = made.communicator.collectives if made.communicator is not None else None
    found = set()
    for party in others:
        other = party.call.communicator if party.call is not None else None
        if not own or other is None or not other.collectives:
            return None
        if matching.same_communicator(made.communicator, other) is not True:
            return None
        found.add(other.collectives > own)
    return found.pop() if len(found) == 1 else None


def _is_behind_the_root(knot: Knot, made: MpiCall, inside: RankSet) -> bool:
    """Return whether the root of a call has not made it, and waits in another one.

    It cannot have left the call while a part for it is missing.
    """
    root = made.root
    return isinstance(root, int) and root in knot.ranks and root not in inside


def _is_in(party: Party, made: MpiCall) -> bool:
    """Return whether a rank is in the same call."""
    own = party.call
    return own is not None and own.function == made.function


def _gathers_otherwise(party: Party, made: MpiCall) -> bool:
    """Return whether a rank is in the same function with another root or communicator."""
    return _is_in(party, made) and matching.plain(party.calls[0]) != matching.plain(made)


def _are_in_finalize(parties: Sequence[Party]) -> bool:
    return all(each.call is not None and each.call.kind == "finalize" for each in parties)


def _is_first_in_line(made: MpiCall, absent: RankSet) -> bool:
    """Return whether the first member behind the root, or the first of all, is absent."""
    members = matching.members_of(made.communicator)
    if members is None or not isinstance(made.root, int):
        return True  # any rank before one in MPI_Scan is
    order = [*members]
    behind = order[(order.index(made.root) + 1) % len(order)] if made.root in members else -1
    first = next((each for each in order if each != made.root), -1)
    return behind in absent or first in absent


def remote_root(knot: Knot) -> Verdict | None:
    """Find ranks of an intercommunicator that wait for a root which is not in their call.

    The other members of the root's group leave the call at once, so that one that named itself as
    the root stands at the same place as they.
    """
    for party in knot.parties:
        made = party.call
        if made is None or made.function not in ROOTED or not isinstance(made.root, int):
            continue
        communicator = made.communicator
        if communicator is None or communicator.remote in ("", ELSEWHERE):
            continue
        root = RankSet([made.root])
        waiting = [each for each in knot.parties if each.call and _waits_for(each.call, made)]
        there = next((part(each, root) for each in knot.parties if made.root in each.ranks), None)
        if there is None or not root <= RankSet.parse(communicator.remote):
            continue
        if any(each.function == made.function for each in there.calls):
            continue
        return _remote_root(knot, waiting, there, made)
    return None


def _waits_for(call: MpiCall, made: MpiCall) -> bool:
    return (call.function, call.root) == (made.function, made.root) and matching.same_communicator(
        call.communicator, made.communicator
    ) is not False


def _remote_root(knot: Knot, waiting: Sequence[Party], there: Party, made: MpiCall) -> Verdict:
    ranks = RankSet.union(each.ranks for each in waiting)
    text = (
        f"{words.named(ranks)} {words.verb(ranks, 'waits')} {words.in_calls(waiting)} for "
        f"{words.named(there.ranks)} as the root"
    )
    rule = "every rank of the other group names the rank that has the data as the root"
    senders = {
        each.source
        for party in waiting
        for each in party.status.arrived
        if each.function == made.function and isinstance(each.source, int)
    } - {made.root}
    if senders:
        sent = RankSet(senders)
        return knot.verdict(
            "different-roots",
            f"{text}, but {words.named(sent)} {words.verb(sent, 'has')} sent data as the root, and "
            f"{words.named(there.ranks)} {words.states(there)}",
            rule,
            ranks=ranks,
            known=False,
            step=_COUNTS,
        )
    found = knot.verdict(
        "missing-from-collective",
        f"{text}, which {words.states(there)}: it has left the call out, or another rank is the "
        "root",
        rule,
        ranks=there.ranks,
        known=False,
        step=_COUNTS,
    )
    return replace(found, confidence="cannot tell", step=_WHICH_RANK)


def _sender(knot: Knot, party: Party, message: ArrivedMessage) -> Party | None:
    """Return the rank that is in the call which has sent a message, if it passes data on."""
    source = message.source
    if not isinstance(source, int) or source in party.ranks:
        return None
    found = next((each for each in knot.parties if source in each.ranks), None)
    made = None if found is None else found.call
    if found is None or made is None or made.function != message.function:
        return None
    own = party.call
    if own is None or (own.function, own.root) == (made.function, made.root):
        return None
    members = matching.members_of(made.communicator)
    is_first = members is not None and made.root == members.first
    return part(found, RankSet([source])) if is_first and made.root != source else None


def _has_other_root(party: Party, made: MpiCall) -> bool:
    """Return whether ranks are in the same function with another root."""
    own = party.call
    return (
        own is not None
        and own.function == made.function
        and isinstance(own.root, int)
        and own.root != made.root
        and matching.same_communicator(own.communicator, made.communicator) is True
    )


def _verdict(
    knot: Knot, party: Party, sender: Party, message: ArrivedMessage, ranks: RankSet
) -> Verdict:
    did = "was the root itself, or has left the call out"
    made = sender.call
    others = [each for each in knot.parties if made is not None and _has_other_root(each, made)]
    named = "".join(
        f"; {words.named(each.ranks)} {words.verb(each.ranks, 'is')} {words.in_calls([each])}"
        for each in others
    )
    return knot.verdict(
        "different-roots",
        f"{words.named(sender.ranks)} {words.verb(sender.ranks, 'is')} {words.in_calls([sender])} "
        f"and passes data on to {words.named(ranks)}, which {words.verb(ranks, 'has')} left "
        f"{message.function} without taking them, and {words.states(party)}: "
        f"{words.named(ranks)} {did}, or {words.named(sender.ranks)} has the wrong root{named}",
        "a member takes its part of a call with a root, unless it is the root",
        ranks=RankSet.union([ranks, *(each.ranks for each in others)]),
        known=False,
        step=_COUNTS,
    )
