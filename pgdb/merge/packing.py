"""The form of rank sets, and of partitions of ranks into classes, on the wire.

A set is sent in the smallest of several forms. Regular sets (blocks, every fourth rank) take some
bytes as text; sets without a pattern come close to the entropy of the choice, which no form can
go below: Huffman codes of gaps or of bits, and for a partition of its labels. The largest class
of a partition is not sent at all, since it is what the others leave.
"""

from __future__ import annotations

import math
import re
import zlib
from array import array
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import msgspec

from pgdb.errors import ProtocolError
from pgdb.ranks import MAX_RANK, RankSet

if TYPE_CHECKING:
    import numpy

MAX_PACKED_RANK = MAX_RANK
"""Ranks above this are refused."""
MAX_SETS = 1 << 20
"""A partition of more sets than this is none: they would be made of a few coded bytes."""

# Below this nothing is gained by looking for a better form.
_SMALL_BYTES = 256
_SMALL_PARTITION_BYTES = 2048
# Folding sets with more runs than this into a text costs more than it can gain.
_MANY_RUNS = 10_000
_ROARING, _GAPS, _BITS = b"R", b"G", b"B"
_PLANES = 4
# A real code can be longer than the estimate of it by so much; a few sets are packed to find out.
_DOUBT = 1.3
_FEW_SETS = 64
# What a coded set has beside its code.
_HEAD_BYTES = 8
_DIGITS = re.compile(r"[0-9]+")
_FOLDED = re.compile(r"[0-9]+(?:-[0-9]+(?:/[0-9]+)?)?(?:,[0-9]+(?:-[0-9]+(?:/[0-9]+)?)?)*")


def pack(ranks: RankSet) -> str | bytes:
    """Return the smallest form of a set: folded text, or bytes."""
    text = _text(ranks)
    if text is not None and len(text) <= _SMALL_BYTES:
        return text
    forms: list[str | bytes] = [_ROARING + ranks.to_bytes()]
    if text is not None:
        forms.append(text)
    if min(map(len, forms)) > _SMALL_BYTES:
        forms += [_pack_gaps(ranks), _pack_bits(ranks)]
    return min(forms, key=len)


def unpack(data: object) -> RankSet:
    """Return the set that :func:`pack` made *data* of.

    :raises ProtocolError: if it is none, or has a rank above MAX_PACKED_RANK.
    """
    if data == "":
        return RankSet()
    if isinstance(data, str):
        return _unpack_text(data)
    if not isinstance(data, bytes):
        raise ProtocolError(f"rank set: {type(data).__name__}")
    kind, body = data[:1], data[1:]
    if kind == _ROARING:
        ranks = RankSet.from_bytes(body)
    elif kind == _GAPS:
        ranks = _unpack_gaps(body)
    elif kind == _BITS:
        ranks = _unpack_bits(body)
    else:
        raise ProtocolError(f"rank set: no form {kind!r}")
    if ranks and ranks.last > MAX_PACKED_RANK:
        raise ProtocolError("rank set: a rank is too large")
    return ranks


class Partition(msgspec.Struct, frozen=True, array_like=True):
    """Sets of ranks without a rank in common, as they travel."""

    base: RankSet
    """All ranks together."""
    count: int
    """Number of sets."""
    rest: int = -1
    """Which set is not sent since it is what the others leave."""
    given: tuple[RankSet, ...] = ()
    """The other sets in order; where there are *labels*, all of them together."""
    labels: tuple[bytes, ...] = ()
    """Which of the other sets each of their ranks is in, see _pack_labels."""


def to_partition(sets: Sequence[RankSet]) -> Partition:
    """Return the form in which *sets*, none of them empty, travel together."""
    base = RankSet.union(sets)
    if not sets:
        return Partition(base=base, count=0)
    rest = max(range(len(sets)), key=lambda number: len(sets[number]))
    given = tuple(each for number, each in enumerate(sets) if number != rest)
    if len(given) > 1 and len(sets) < len(base) and _is_long(given):
        others = base - sets[rest]
        everybody, labels = _label(others, given)
        packed = _code_labels(labels, len(given))
        size = len(pack(others)) + sum(map(len, packed))
        estimate = _estimate_bytes(everybody, labels)
        if estimate <= size < _DOUBT * estimate and len(given) <= _FEW_SETS:
            estimate = sum(len(pack(each)) for each in given)
        if size < estimate:
            return Partition(base=base, count=len(sets), rest=rest, given=(others,), labels=packed)
    return Partition(base=base, count=len(sets), rest=rest, given=given)


def _is_long(sets: Sequence[RankSet]) -> bool:
    """Return whether sets may take more than some bytes; each takes 8 at most for a rank."""
    size = 0
    for each in sets:
        size += min(8 * len(each), 16 * each.run_count)
        if size > _SMALL_PARTITION_BYTES:
            return True
    return False


def _estimate_bytes(everybody: numpy.ndarray[Any, Any], labels: numpy.ndarray[Any, Any]) -> float:
    """Return about how many bytes the sets would take if each was packed by itself.

    Packing a thousand of them just to know that takes a second for a million ranks.
    """
    import numpy

    order = numpy.argsort(labels, kind="stable")
    ranks = everybody[order].astype(numpy.int64)
    begins = numpy.flatnonzero(numpy.diff(labels[order], prepend=numpy.iinfo(labels.dtype).max))
    counts = numpy.diff(begins, append=len(ranks))
    steps = numpy.diff(ranks, prepend=0)
    # A text has a term wherever the step changes; the first two ranks of a set are no change.
    changes = numpy.diff(steps, prepend=0) != 0
    changes[begins] = False
    seconds = begins[counts > 1] + 1
    changes[seconds] = False
    terms = 1 + numpy.add.reduceat(changes.astype(numpy.int64), begins)
    texts = terms * (2 + 2 * math.log10(max(2, int(everybody[-1]))))
    # No code of a set without a pattern is shorter than what it takes to choose its ranks.
    spans = ranks[begins + counts - 1] - ranks[begins] + 1
    share = numpy.clip(counts / spans, 1e-9, 1 - 1e-9)
    bits = -spans * (share * numpy.log2(share) + (1 - share) * numpy.log2(1 - share))
    return float(numpy.minimum(texts, _HEAD_BYTES + bits / 8).sum())


def from_partition(partition: Partition) -> tuple[RankSet, ...]:
    """Return the sets that *partition* was made of.

    :raises ProtocolError: if they have ranks in common, are empty or go beyond its base.
    """
    count, base, rest = partition.count, partition.base, partition.rest
    if not count:
        if partition.given or base:
            raise ProtocolError("partition: ranks without a set")
        return ()
    if count > MAX_SETS:
        raise ProtocolError(f"partition: {count} sets")
    given = partition.given
    if partition.labels and len(given) == 1:
        given = _unpack_labels(given[0], count - 1, partition.labels)
    if len(given) != count - 1 or not 0 <= rest < count:
        raise ProtocolError(f"partition: {len(given)} sets of {count}")
    together = RankSet.union(given)
    if sum(map(len, given)) != len(together) or not together <= base:
        raise ProtocolError("partition: the sets overlap")
    sets = list(given)
    sets.insert(rest, base - together)
    if not all(sets):
        raise ProtocolError("partition: a set is empty")
    return tuple(sets)


# -- sets --------------------------------------------------------------------------------------


def _text(ranks: RankSet) -> str | None:
    """Return the folded text, or None where there is no short one."""
    if ranks.run_count <= _MANY_RUNS:
        return str(ranks)
    import numpy

    # Regular sets have few places at which the step changes, however many ranks they have.
    steps = numpy.diff(_as_numpy(ranks))
    return str(ranks) if numpy.count_nonzero(numpy.diff(steps)) < _MANY_RUNS else None


def _unpack_text(text: str) -> RankSet:
    if not _FOLDED.fullmatch(text):
        raise ProtocolError("rank set: no folded text")
    if any(len(number) > 9 or int(number) > MAX_PACKED_RANK for number in _DIGITS.findall(text)):
        raise ProtocolError("rank set: a rank is too large")
    if "," not in text:
        return RankSet.parse(text)
    # In order and apart, as they are written, so that together they are no larger than the set.
    terms = []
    last = -1
    for term in text.split(","):
        ranks = RankSet.parse(term)
        if ranks.first <= last:
            raise ProtocolError("rank set: no folded text")
        last = ranks.last
        terms.append(ranks)
    return RankSet.union(terms)


def _pack_gaps(ranks: RankSet) -> bytes:
    """Return the gaps between ranks, byte by byte of their binary form, each plane coded."""
    import numpy

    array_ = _as_numpy(ranks)
    gaps = numpy.diff(array_, prepend=numpy.uint32(0)).astype("<u4")
    bytes_ = gaps.view(numpy.uint8).reshape(-1, _PLANES)
    planes = [_deflate(bytes_[:, plane].tobytes()) for plane in range(_PLANES)]
    return _GAPS + msgspec.msgpack.encode([len(array_), *planes])


def _unpack_gaps(body: bytes) -> RankSet:
    import numpy

    try:
        count, *planes = msgspec.msgpack.decode(body, type=tuple[int, bytes, bytes, bytes, bytes])
    except msgspec.DecodeError as error:
        raise ProtocolError(f"rank set: {error}") from None
    if not 0 <= count <= MAX_PACKED_RANK + 1:
        raise ProtocolError("rank set: too many ranks")
    columns = [numpy.frombuffer(_inflate(plane, count), numpy.uint8) for plane in planes]
    gaps = numpy.stack(columns, axis=1).reshape(-1).view("<u4")
    ranks = numpy.cumsum(gaps, dtype=numpy.uint64)
    if count and ranks[-1] > MAX_PACKED_RANK:
        raise ProtocolError("rank set: a rank is too large")
    return _from_numpy(ranks)


def _pack_bits(ranks: RankSet) -> bytes:
    """Return one bit for each rank from the first to the last, coded."""
    import numpy

    bits = numpy.zeros(ranks.last - ranks.first + 1, numpy.uint8)
    bits[_as_numpy(ranks) - numpy.uint32(ranks.first)] = 1
    packed = _deflate(numpy.packbits(bits).tobytes())
    return _BITS + msgspec.msgpack.encode([ranks.first, len(bits), packed])


def _unpack_bits(body: bytes) -> RankSet:
    import numpy

    try:
        first, count, packed = msgspec.msgpack.decode(body, type=tuple[int, int, bytes])
    except msgspec.DecodeError as error:
        raise ProtocolError(f"rank set: {error}") from None
    if not 0 <= first <= first + count <= MAX_PACKED_RANK + 1:
        raise ProtocolError("rank set: a rank is too large")
    data = numpy.frombuffer(_inflate(packed, -(-count // 8)), numpy.uint8)
    bits = numpy.unpackbits(data, count=count)
    return _from_numpy(numpy.flatnonzero(bits) + first)


# -- labels of a partition -----------------------------------------------------------------------


def _label(
    base: RankSet, sets: Sequence[RankSet]
) -> tuple[numpy.ndarray[Any, Any], numpy.ndarray[Any, Any]]:
    """Return the ranks of *base*, and the number of its set for each of them."""
    import numpy

    everybody = _as_numpy(base)
    kind = numpy.uint16 if len(sets) <= 1 << 16 else numpy.uint32
    by_rank = numpy.zeros(base.last + 1, kind)
    for number, each in enumerate(sets):
        by_rank[_as_numpy(each)] = number
    return everybody, by_rank[everybody]


def _pack_labels(base: RankSet, sets: Sequence[RankSet]) -> tuple[bytes, ...]:
    """Return the number of its set for each rank of *base*, coded."""
    return _code_labels(_label(base, sets)[1], len(sets))


def _code_labels(labels: numpy.ndarray[Any, Any], count: int) -> tuple[bytes, ...]:
    """Return the labels of *count* sets as coded planes of bytes.

    As many labels as go into a byte stand in one, so that a code of whole bits for a byte comes
    close to the entropy of each; more than 256 sets need two planes.
    """
    import numpy

    if count > 256:
        bytes_ = labels.astype("<u4").view(numpy.uint8).reshape(-1, 4)
        planes = 2 if count <= 1 << 16 else 4
        return tuple(_deflate(bytes_[:, plane].tobytes()) for plane in range(planes))
    per_byte = _labels_per_byte(count)
    padded = numpy.zeros(-(-len(labels) // per_byte) * per_byte, numpy.uint32)
    padded[: len(labels)] = labels
    weights = count ** numpy.arange(per_byte)
    packed = (padded.reshape(-1, per_byte) * weights).sum(axis=1).astype(numpy.uint8)
    return (_deflate(packed.tobytes()),)


def _unpack_labels(base: RankSet, count: int, planes: Sequence[bytes]) -> tuple[RankSet, ...]:
    import numpy

    size = len(base)
    if not 0 < count <= size:
        raise ProtocolError(f"partition: {count} sets of {size} ranks")
    if count > 256:
        if len(planes) != (2 if count <= 1 << 16 else 4):
            raise ProtocolError(f"partition: {len(planes)} planes for {count} sets")
        labels = numpy.zeros(size, numpy.uint32)
        for number, plane in enumerate(planes):
            digits = numpy.frombuffer(_inflate(plane, size), numpy.uint8)
            labels |= digits.astype(numpy.uint32) << (8 * number)
    else:
        if len(planes) != 1:
            raise ProtocolError(f"partition: {len(planes)} planes for {count} sets")
        per_byte = _labels_per_byte(count)
        packed = numpy.frombuffer(_inflate(planes[0], -(-size // per_byte)), numpy.uint8)
        weights = count ** numpy.arange(per_byte)
        labels = (packed[:, None] // weights % count).reshape(-1)[:size].astype(numpy.uint32)
    if labels.max() >= count:
        raise ProtocolError("partition: a label without a set")
    # Sorting once finds the ranks of all sets: a search for each would take count passes. Numbers
    # of 16 bits are sorted by their digits, several times as fast.
    if count <= 1 << 16:
        labels = labels.astype(numpy.uint16)
    order = numpy.argsort(labels, kind="stable")
    ends = numpy.searchsorted(labels[order], numpy.arange(count), side="right").tolist()
    ordered = _as_numpy(base)[order]
    sets = []
    begin = 0
    for end in ends:
        if end == begin:
            raise ProtocolError("partition: a set is empty")
        sets.append(_from_numpy(ordered[begin:end]))
        begin = end
    return tuple(sets)


def _labels_per_byte(count: int) -> int:
    per_byte = 1
    while count > 1 and count ** (per_byte + 1) <= 256 and per_byte < 8:
        per_byte += 1
    return per_byte


# -- small things ----------------------------------------------------------------------------------


def _deflate(data: bytes) -> bytes:
    # Runs of one byte and Huffman codes; a search for longer matches finds none in what is random,
    # and makes it larger.
    packer = zlib.compressobj(9, zlib.DEFLATED, -15, 9, zlib.Z_RLE)
    return packer.compress(data) + packer.flush()


def _inflate(data: bytes, size: int) -> bytes:
    unpacker = zlib.decompressobj(-15)
    try:
        found = unpacker.decompress(data, size + 1)
    except zlib.error as error:
        raise ProtocolError(f"rank set: {error}") from None
    if len(found) != size:
        raise ProtocolError("rank set: its size is not what it says")
    return found


def _as_numpy(ranks: RankSet) -> numpy.ndarray[Any, Any]:
    import numpy

    return numpy.frombuffer(ranks.to_array(), numpy.uint32)


def _from_numpy(ranks: numpy.ndarray[Any, Any]) -> RankSet:
    found = array("I")
    found.frombytes(ranks.astype("uint32", copy=False).tobytes())
    return RankSet.from_array(found)
