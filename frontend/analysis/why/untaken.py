"""Messages that have come to a rank that waits for another one.

A small message leaves no trace at its sender. Where it has come to a rank that waits for a message
which differs in one property, the two may have been meant for each other.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from pgdb.frontend.analysis.why import matching, words
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


def missed(
    parties: Sequence[Party], needs: Sequence[Sequence[Need]], *, of_sender: bool
) -> list[Missed]:
    """Return, for each of *parties* with its open *needs*, the first message that one of them
    misses by one property.

    *of_sender* selects messages of the rank that is waited for; the others have another source.
    """
    found = []
    for party, own in zip(parties, needs, strict=True):
        every = (_missed(party, need, each) for need in own for each in party.status.arrived)
        first = next((each for each in every if each and each.is_of_sender is of_sender), None)
        if first is not None:
            found.append(first)
    return found


def _missed(party: Party, need: Need, message: ArrivedMessage) -> Missed | None:
    if need.kind != "message" or need.tag is None or need.peer is None:
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
