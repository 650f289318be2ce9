"""The ranks' full answers, with addresses and every value, kept for a while on their host.

Answers that travel up are normalized and may be reduced; a user who wants one rank's original
answer requests it again, page by page, from here.
"""

from __future__ import annotations

from collections import OrderedDict

import msgspec

from pgdb.merge.templates import Templated
from pgdb.ranks import RankSet
from pgdb.records import Record

LIMIT_BYTES = 4 * 1024 * 1024
"""Limit of an aggregator's cache, in bytes; the oldest requests are dropped first."""

_ENCODER = msgspec.msgpack.Encoder()
_DECODER: msgspec.msgpack.Decoder[Record] = msgspec.msgpack.Decoder(Record)


def pack(record: Record) -> bytes:
    """Return a record in the encoding of the cache."""
    return _ENCODER.encode(record)


class AnswerCache:
    """The latest answers of the ranks of one aggregator."""

    def __init__(self, limit_bytes: int = LIMIT_BYTES) -> None:
        self._limit_bytes = limit_bytes
        self._size_bytes = 0
        # Encoded, at a tenth of the objects' size; equal answers to a request are stored once.
        self._requests: OrderedDict[int, dict[bytes, RankSet]] = OrderedDict()

    def keep(self, request_id: int, rank: int, record: Record) -> None:
        """Store a rank's answer, unless it is short (done, running, a stop)."""
        if isinstance(record, Templated):
            self.keep_packed(request_id, RankSet([rank]), pack(record))

    def keep_packed(self, request_id: int, ranks: RankSet, packed: bytes) -> None:
        """Store the answer of *ranks*, encoded by :func:`pack`."""
        said = self._requests.setdefault(request_id, {})
        known = said.get(packed)
        if known is None:
            self._size_bytes += len(packed)
        said[packed] = ranks if known is None else known | ranks
        while self._size_bytes > self._limit_bytes:
            _, oldest = self._requests.popitem(last=False)
            self._size_bytes -= sum(map(len, oldest))

    def recall(self, request_id: int, rank: int) -> Record | None:
        """Return a rank's answer to a request, None if it is no longer stored."""
        for packed, ranks in self._requests.get(request_id, {}).items():
            if rank in ranks:
                return _DECODER.decode(packed)
        return None
