"""Messages that have come to a rank that waits for another one.

A small message leaves no trace at its sender. Where it has come to a rank that waits for a message
which differs in one property, the two may have been meant for each other.
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from pgdb.frontend.analysis.why import matching, words
from pgdb.frontend.analysis.why.knot import Knot
from pgdb.frontend.analysis.why.needs import Need
from pgdb.frontend.analysis.why.parties import Party
from pgdb.mpi_calls import ANY_SOURCE, ArrivedMessage


class Missed(msgspec.Struct, frozen=True):
    """A receive, and a message that has come and that it does not take."""

    party: Party
    need: Need
    message: ArrivedMessage
    is_of_sender: bool
    """Whether the message is from the rank that is waited for; else it has the tag that is."""
    is_mixed_up: bool = False
    """Whether its communicator is another one."""

    @property
    def text(self) -> str:
        """The receive and the message in words."""
        ranks, need, message = self.party.ranks, self.need, self.message
        waits = (
            f"{words.named(ranks)} {words.verb(ranks, 'waits')} for a message "
            f"{words.wanted(need)}{words.at(self.party)}, but "
        )
        if not self.is_of_sender:
            return f"{waits}one with that tag has come from rank {message.source}"
        came = f"the one that has come from rank {message.source}"
        if self.is_mixed_up:
            comm = words.communicator(message.communicator) or "another communicator"
            return f"{waits}{came} with that tag is in {comm}"
        return f"{waits}{came} has tag {message.tag}"


def missed(knot: Knot, members: Iterable[int], *, of_sender: bool) -> dict[int, Missed]:
    """Return, by the *members* of a knot, the first message that an open receive of each misses by
    one property.

    *of_sender* selects messages of the rank that is waited for; the others have another source.
    """
    found = {}
    for number in members:
        party, needs = knot.party(number), knot.open_needs(number, "message")
        every = (
            _missed(party, need, each)
            for need in needs
            for each in party.status.arrived
            if not each.function
        )
        first = next((each for each in every if each and each.is_of_sender is of_sender), None)
        if first is not None:
            found[number] = first
    return found


def _missed(party: Party, need: Need, message: ArrivedMessage) -> Missed | None:
    if need.tag is None or need.peer is None:
        return None
    same_rank = need.peer in (message.source, ANY_SOURCE)
    same_tag = matching.same_tag(message.tag, need.tag)
    same_group = matching.same_communicator(message.communicator, need.communicator)
    if (same_rank, same_tag, same_group) == (True, True, False):
        return Missed(party, need, message, is_of_sender=True, is_mixed_up=True)
    if (same_rank, same_tag, same_group) == (True, False, True):
        return Missed(party, need, message, is_of_sender=True)
    if (same_rank, same_tag, same_group) == (False, True, True):
        return Missed(party, need, message, is_of_sender=False)
    return None
