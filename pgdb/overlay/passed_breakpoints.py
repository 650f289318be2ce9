"""Breakpoints that a run passes over: those of sets that some of its ranks are not in."""

from collections.abc import Iterable

import msgspec

from pgdb.errors import ProtocolError
from pgdb.merge.rankset_codec import pack, unpack
from pgdb.ranks import RankSet


class PassedBreakpoint(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A breakpoint at which some ranks do not stop in a run."""

    number: int
    packed_ranks: bytes
    """The encoded ranks in MessagePack."""

    @classmethod
    def of(cls, number: int, ranks: RankSet) -> "PassedBreakpoint":
        """Return the breakpoint *number*, which *ranks* pass over."""
        return cls(number=number, packed_ranks=msgspec.msgpack.encode(pack(ranks)))

    @property
    def ranks(self) -> RankSet:
        """The ranks, decoded anew each time.

        :raises ProtocolError: if they are invalid.
        """
        try:
            return unpack(msgspec.msgpack.decode(self.packed_ranks))
        except msgspec.DecodeError as error:
            raise ProtocolError(f"breakpoint {self.number}'s ranks: {error}") from None


def passed_by(passed: Iterable[PassedBreakpoint], rank: int) -> tuple[int, ...]:
    """Return the numbers of the breakpoints that *rank* passes over."""
    return tuple(each.number for each in passed if rank in each.ranks)
