"""What ranks said, in full: addresses, every value. Kept for a while where it was said.

What travels up is masked and may be summed up; whoever wants to see one rank's answer as it was
asks for it again, and pages it down from here.
"""

from __future__ import annotations

from collections import OrderedDict

import msgspec

from pgdb.merge.templates import Templated
from pgdb.ranks import RankSet
from pgdb.records import Record

LIMIT_BYTES = 4 * 1024 * 1024
"""Kept per aggregator; the oldest requests go first."""

_ENCODER = msgspec.msgpack.Encoder()
_DECODER: msgspec.msgpack.Decoder[Record] = msgspec.msgpack.Decoder(Record)


def pack(record: Record) -> bytes:
    """Return a record as it is kept."""
    return _ENCODER.encode(record)


class AnswerCache:
    """The last answers of the ranks of one aggregator."""

    def __init__(self, limit_bytes: int = LIMIT_BYTES) -> None:
        self._limit_bytes = limit_bytes
        self._size_bytes = 0
        # Packed, since that is a tenth of the objects' size; equal answers of a request are kept
        # once.
        self._requests: OrderedDict[int, dict[bytes, RankSet]] = OrderedDict()

    def keep(self, request_id: int, rank: int, record: Record) -> None:
        """Keep what a rank said; what says little (done, running, a stop) is not kept."""
        if isinstance(record, Templated):
            self.keep_packed(request_id, RankSet([rank]), pack(record))

    def keep_packed(self, request_id: int, ranks: RankSet, packed: bytes) -> None:
        """Keep what *ranks* said, made by :func:`pack`."""
        said = self._requests.setdefault(request_id, {})
        known = said.get(packed)
        if known is None:
            self._size_bytes += len(packed)
        said[packed] = ranks if known is None else known | ranks
        while self._size_bytes > self._limit_bytes:
            _, oldest = self._requests.popitem(last=False)
            self._size_bytes -= sum(map(len, oldest))

    def recall(self, request_id: int, rank: int) -> Record | None:
        """Return what a rank said to a request, None if it is not kept any longer."""
        for packed, ranks in self._requests.get(request_id, {}).items():
            if rank in ranks:
                return _DECODER.decode(packed)
        return None
