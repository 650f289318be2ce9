"""The receivers of sends without waiting, where the library of the sender does not keep them.

MPICH keeps no receiver in the request of a send. A send that no receive has taken is among the
messages that have come to its receiver. Where these are known of all ranks, and as many of them are
from one rank as it has open sends, they are these sends.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from msgspec.structs import replace

from pgdb.frontend.analysis.why.parties import Party
from pgdb.frontend.analysis.why.verdict import Confidence, Step, Verdict
from pgdb.mpi_calls import MOST_ARRIVED, RECEIVES, SENDS, ArrivedMessage, MpiCall, Request
from pgdb.ranks import RankSet

# MPICH keeps messages of partitioned requests in a list of their own (part_unexp_list), so that
# they are never among those that have come.
_SENDS = SENDS - {"partitioned send"}
_RECEIVES = RECEIVES - {"partitioned recv"}
_LIKELY: Confidence = "likely"
_STEP = Step(
    "the receivers of the sends follow from the messages that have come to the ranks; the recorder "
    "of MPI calls keeps them",
    ("why --all",),
)


def inferred(parties: Sequence[Party], still: RankSet) -> tuple[tuple[Party, ...], RankSet]:
    """Return the parties with the receivers of their sends, and the ranks of those that got some.

    Nothing is inferred unless all ranks stand *still* in calls that send or receive messages: a
    message may be in flight, or may have come to a rank that lists none.
    """
    unchanged = tuple(parties), RankSet()
    if not any(_unknown_sends(each) for each in parties):
        return unchanged
    if not all(each.ranks <= still and _lists_messages(each) for each in parties):
        return unchanged
    found, ranks = [], []
    for party in parties:
        sends = _unknown_sends(party)
        messages = _from(party.ranks, parties) if sends and len(party.ranks) == 1 else []
        if messages and len(messages) == len(sends):
            party = _with_receivers(party, messages)
            ranks.append(party.ranks)
        found.append(party)
    return tuple(found), RankSet.union(ranks)


def as_likely(verdicts: Sequence[Verdict], ranks: RankSet) -> list[Verdict]:
    """Return verdicts, of which none is certain that rests on receivers which were inferred."""
    return [
        replace(each, confidence=_LIKELY, step=_STEP)
        if each.confidence == "certain" and not ranks.isdisjoint(each.ranks | each.victims)
        else each
        for each in verdicts
    ]


def _open(party: Party) -> list[Request]:
    return [each for made in party.calls for each in made.requests if not each.complete]


def _unknown_sends(party: Party) -> list[Request]:
    return [each for each in _open(party) if _is_unknown(each)]


def _is_unknown(request: Request) -> bool:
    return request.kind in _SENDS and request.peer is None and not request.complete


def _lists_messages(party: Party) -> bool:
    """Return whether the messages that have come to a party are all listed."""
    listed: dict[object, int] = {}
    for each in party.status.arrived:
        listed[each.communicator] = listed.get(each.communicator, 0) + 1
    if max(listed.values(), default=0) >= MOST_ARRIVED:
        return False
    return bool(party.calls) and all(
        made.kind in ("recv", "sendrecv", "send") or any(map(_is_message, made.requests))
        for made in party.calls
    )


def _is_message(request: Request) -> bool:
    return not request.complete and request.kind in _SENDS | _RECEIVES


def _from(source: RankSet, parties: Sequence[Party]) -> list[tuple[int, ArrivedMessage]]:
    """Return the receivers of the messages of a rank that no receive has taken."""
    found = []
    for party in parties:
        for each in party.status.arrived:
            if each.function or not isinstance(each.source, int) or each.source not in source:
                continue
            found += [(rank, each) for rank in party.ranks]
    return found


def _with_receivers(party: Party, messages: list[tuple[int, ArrivedMessage]]) -> Party:
    left = iter(messages)
    calls = tuple(_call_with(made, left) for made in party.status.calls)
    return replace(party, status=replace(party.status, calls=calls))


def _call_with(made: MpiCall, left: Iterator[tuple[int, ArrivedMessage]]) -> MpiCall:
    requests = []
    for each in made.requests:
        if _is_unknown(each):
            rank, message = next(left)
            each = replace(each, peer=rank, tag=message.tag, communicator=message.communicator)
        requests.append(each)
    return replace(made, requests=tuple(requests))
