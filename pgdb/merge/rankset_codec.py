"""Rank sets, and partitions of ranks into classes, on the wire and in recordings.

A set travels in the smallest of several encodings: folded text (``0-99/4,200``), a Roaring bitmap,
deflated gaps, or deflated bits. A partition travels as its sets without the largest one, which is
the remainder, or as labels: for each rank the number of its set, deflated.
"""

from __future__ import annotations

import io
import zlib
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

import msgspec

from pgdb.errors import ProtocolError
from pgdb.merge.partition_labels import NOBODY, Field, Labels, as_numpy, from_numpy
from pgdb.patterns import pattern
from pgdb.ranks import MAX_RANK, RankSet

if TYPE_CHECKING:
    from pgdb.merge.partition_labels import Numbers

MAX_PACKED_RANK = MAX_RANK
"""Largest rank that is accepted."""
MAX_SETS = 1 << 20
"""Most sets of a partition that are accepted: a few coded bytes could stand for more."""

# A shorter text is sent without a search for a smaller encoding.
_SMALL_BYTES = 256
SMALL_PARTITION_BYTES = 2048
# Folding a set with more runs than this into text costs more than it can gain.
_MANY_RUNS = 10_000
_ROARING, _GAPS, _BITS = b"R", b"G", b"B"
_PLANES = 4
# Gaps and bits take thirty times as long to decode as a bitmap, so they must gain something.
_WORTH = 0.95
# Up to this many sets are encoded to compare them with labels, if one byte of labels stands for
# more than _REGULAR_RANKS ranks. Otherwise there is no pattern, and sets are not shorter.
FEW_SETS = 64
_REGULAR_RANKS = 32
# Partitions of fewer ranks are never labelled: labels need NumPy, which takes longer to load.
FEW_RANKS = 1024
# Few and long runs are sent as sets.
FEW_BLOCKS = 4096
LONG_RUN = 256
SLICE = 1 << 13
_DIGITS = pattern(r"[0-9]+")
_FOLDED = pattern(r"[0-9]+(?:-[0-9]+(?:/[0-9]+)?)?(?:,[0-9]+(?:-[0-9]+(?:/[0-9]+)?)?)*")


def pack(ranks: RankSet) -> str | bytes:
    """Return the smallest encoding of *ranks*: folded text, or bytes."""
    text = _text(ranks)
    if text is not None and len(text) <= _SMALL_BYTES:
        return text
    plain: str | bytes = _ROARING + ranks.to_bytes()
    if text is not None and len(text) <= len(plain):
        plain = text
    if len(plain) <= _SMALL_BYTES:
        return plain
    coded = min(_pack_gaps(ranks), _pack_bits(ranks), key=len)
    return coded if len(coded) < _WORTH * len(plain) else plain


def unpack(data: object) -> RankSet:
    """Return the set that :func:`pack` encoded.

    :raises ProtocolError: if *data* is invalid, or has a rank above MAX_PACKED_RANK.
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
        raise ProtocolError(f"rank set: no encoding {kind!r}")
    if ranks and ranks.last > MAX_PACKED_RANK:
        raise ProtocolError("rank set: a rank is too large")
    return ranks


class Partition(msgspec.Struct, frozen=True, array_like=True):
    """Disjoint sets of ranks as they travel."""

    base: RankSet
    """The union of all sets."""
    count: int
    """Number of sets."""
    rest: int = -1
    """Number of the set that is not sent: it is the remainder of *base*; -1 for none."""
    given: tuple[RankSet, ...] = ()
    """The other sets in order; with *labels* only their union."""
    labels: tuple[bytes, ...] = ()
    """Coded labels of the ranks in the other sets, see _code_labels; without *rest* and *given* the
    labels of all ranks."""


def to_partition(sets: Sequence[RankSet]) -> Partition:
    """Return the partition into *sets*, none of them empty, in its shorter encoding."""
    base = RankSet.union(sets)
    if not sets:
        return Partition(base=base, count=0)
    rest = max(range(len(sets)), key=lambda number: len(sets[number]))
    given = tuple(each for number, each in enumerate(sets) if number != rest)
    if len(given) > 1 and len(base) >= FEW_RANKS and _is_long(given):
        return pack_labels(Labels.of(sets, base), sets)
    return Partition(base=base, count=len(sets), rest=rest, given=given)


def pack_labels(labels: Labels, sets: Sequence[RankSet] | None = None) -> Partition:
    """Return the partition of *labels*, none of whose sets is empty, in its shorter encoding.

    *sets* are the sets of *labels*, if the caller has them.
    """
    sizes = labels.sizes()
    count, base, rest = labels.count, labels.ranks, int(sizes.argmax())
    labelled: Partition | None = None
    size = 0
    if count > 2 and _may_gain(labels):
        if 2 * int(sizes[rest]) > len(base):
            others = labels.without(rest)
            planes = _code_labels(others)
            labelled = Partition(base, count, rest, given=(others.ranks,), labels=planes)
        else:
            labelled = Partition(base=base, count=count, labels=_code_labels(labels))
        size = sum(map(len, labelled.labels)) + sum(len(pack(each)) for each in labelled.given)
        if count > FEW_SETS or size > len(base) / _REGULAR_RANKS:
            return labelled
    sets = labels.sets() if sets is None else sets
    given = tuple(each for number, each in enumerate(sets) if number != rest)
    if labelled is not None and size < sum(len(pack(each)) for each in given):
        return labelled
    return Partition(base=base, count=count, rest=rest, given=given)


def _may_gain(labels: Labels) -> bool:
    """Return whether labels may be shorter than sets: not if the sets have few and long runs."""
    runs = labels.count_changes() + labels.ranks.run_count
    return runs > FEW_BLOCKS or runs * LONG_RUN > len(labels)


def _is_long(sets: Sequence[RankSet]) -> bool:
    """Return whether *sets* may take more than 2 KiB, and do not have few and long runs."""
    runs = ranks = size = 0
    for each in sets:
        count = each.run_count
        runs += count
        ranks += len(each)
        size += min(8 * len(each), 16 * count)
    return size > SMALL_PARTITION_BYTES and (runs > FEW_BLOCKS or runs * LONG_RUN > ranks)


def read_partition(partition: Partition) -> Labels | tuple[RankSet, ...]:
    """Return the sets of *partition*, as labels if it has labels.

    :raises ProtocolError: if sets overlap, are empty or go beyond the base.
    """
    count, base, rest = partition.count, partition.base, partition.rest
    if not count:
        if partition.given or base:
            raise ProtocolError("partition: ranks without a set")
        return ()
    if count > MAX_SETS:
        raise ProtocolError(f"partition: {count} sets")
    given = partition.given
    if partition.labels and not given and rest == -1:
        return Labels(base, _decode_labels(len(base), count, partition.labels), count)
    if partition.labels and len(given) == 1 and 0 <= rest < count:
        others = given[0]
        if not others <= base or len(others) == len(base):
            raise ProtocolError("partition: the sets overlap")
        numbers = _decode_labels(len(others), count - 1, partition.labels)
        return _with_rest(base, others, numbers, count, rest)
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


def _with_rest(base: RankSet, others: RankSet, numbers: Numbers, count: int, rest: int) -> Labels:
    """Return the labels of *base*: *numbers* for *others*, and *rest* for the remainder."""
    import numpy

    table = numpy.arange(count - 1, dtype=numbers.dtype)
    table[rest:] += 1
    labels = Labels(others, numbers, count, table)
    if count < NOBODY and Field.suits(base):
        field = Field(base)
        field.put(base, rest)
        field.put_labels(labels)
        return field.labels(base, count)
    whole = numpy.full(len(base), rest, numbers.dtype)
    whole[numpy.searchsorted(as_numpy(base), as_numpy(others))] = labels.part(0, len(labels))
    return Labels(base, whole, count)


# -- sets --------------------------------------------------------------------------------------


def _text(ranks: RankSet) -> str | None:
    """Return the folded text, or None if it would be long."""
    if ranks.run_count <= _MANY_RUNS:
        return str(ranks)
    import numpy

    # A regular set has few changes of step, for any number of ranks.
    steps = numpy.diff(as_numpy(ranks))
    return str(ranks) if numpy.count_nonzero(numpy.diff(steps)) < _MANY_RUNS else None


def _unpack_text(text: str) -> RankSet:
    if not _FOLDED.fullmatch(text):
        raise ProtocolError("rank set: no folded text")
    if any(len(number) > 9 or int(number) > MAX_PACKED_RANK for number in _DIGITS.findall(text)):
        raise ProtocolError("rank set: a rank is too large")
    if "," not in text:
        return RankSet.parse(text)
    # The encoder writes the terms in order and apart; so together they are no larger than the set.
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
    """Return the gaps between ranks; each byte of their binary form is one deflated plane."""
    import numpy

    array_ = as_numpy(ranks)
    gaps = numpy.diff(array_, prepend=numpy.uint32(0)).astype("<u4")
    bytes_ = gaps.view(numpy.uint8).reshape(-1, _PLANES)
    planes = [_deflate((bytes_[:, plane].tobytes(),)) for plane in range(_PLANES)]
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
    return from_numpy(ranks)


def _pack_bits(ranks: RankSet) -> bytes:
    """Return one bit for each rank from the first to the last, deflated."""
    import numpy

    bits = numpy.zeros(ranks.last - ranks.first + 1, numpy.uint8)
    bits[as_numpy(ranks) - numpy.uint32(ranks.first)] = 1
    packed = _deflate((numpy.packbits(bits).tobytes(),))
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
    return from_numpy(numpy.flatnonzero(bits) + first)


# -- labels of a partition -----------------------------------------------------------------------


def _code_labels(labels: Labels) -> tuple[bytes, ...]:
    """Return labels as deflated planes of bytes.

    A byte holds as many labels as fit, because deflate spends at least one bit on each byte. More
    than
    256 sets need two planes, more than 65,536 four.
    """
    import numpy

    if labels.count > 256:
        return tuple(
            _deflate(
                (part >> 8 * plane).astype(numpy.uint8).tobytes() for _, part in labels.parts()
            )
            for plane in range(_plane_count(labels.count))
        )
    return (_deflate(_joined(labels)),)


def _joined(labels: Labels) -> Iterator[bytes]:
    """Yield labels, with as many in a byte as fit."""
    import numpy

    per_byte = _labels_per_byte(labels.count)
    for _, part in labels.parts(per_byte * SLICE):
        digits = part.astype(numpy.uint8)
        joined = numpy.zeros(-(-len(digits) // per_byte), numpy.uint8)
        for place in range(per_byte):
            some = digits[place::per_byte]
            joined[: len(some)] += some * numpy.uint8(labels.count**place)
        yield joined.tobytes()


def _decode_labels(size: int, count: int, planes: Sequence[bytes]) -> Numbers:
    """Return the labels of *size* ranks in *count* sets, none of which is empty.

    :raises ProtocolError: if *planes* are not such labels.
    """
    import numpy

    if not 0 < count <= size:
        raise ProtocolError(f"partition: {count} sets of {size} ranks")
    if len(planes) != _plane_count(count):
        raise ProtocolError(f"partition: {len(planes)} planes for {count} sets")
    kind = numpy.uint16 if count <= 1 << 16 else numpy.uint32
    numbers: Numbers
    if count > 256:
        numbers = numpy.zeros(size, kind)
        for number, plane in enumerate(planes):
            digits = numpy.frombuffer(_inflate(plane, size), numpy.uint8)
            numbers += numpy.left_shift(digits, 8 * number, dtype=kind)
    else:
        per_byte = _labels_per_byte(count)
        joined = numpy.frombuffer(_inflate(planes[0], -(-size // per_byte)), numpy.uint8)
        if joined.max() >= count**per_byte:
            raise ProtocolError("partition: a label without a set")
        numbers = numpy.empty(len(joined) * per_byte, kind)
        for place in range(per_byte):
            digits = numpy.arange(256) // count**place % count
            numbers[place::per_byte] = digits.astype(numpy.uint8)[joined]
        numbers = numbers[:size]
    if numbers.max() >= count:
        raise ProtocolError("partition: a label without a set")
    found = numpy.zeros(count, bool)
    found[numbers] = True
    if not found.all():
        raise ProtocolError("partition: a set is empty")
    return numbers


def _plane_count(count: int) -> int:
    return 1 if count <= 256 else 2 if count <= 1 << 16 else 4


def _labels_per_byte(count: int) -> int:
    per_byte = 1
    while count > 1 and count ** (per_byte + 1) <= 256 and per_byte < 8:
        per_byte += 1
    return per_byte


# -- small things ----------------------------------------------------------------------------------


def _deflate(pieces: Iterable[bytes]) -> bytes:
    packer = zlib.compressobj(1, zlib.DEFLATED, -15, 9)
    packed = io.BytesIO()  # its value is not copied
    for piece in pieces:
        packed.write(packer.compress(piece))
    packed.write(packer.flush())
    return packed.getvalue()


def _inflate(data: bytes, size: int) -> bytes:
    unpacker = zlib.decompressobj(-15)
    try:
        found = unpacker.decompress(data, size + 1)
    except zlib.error as error:
        raise ProtocolError(f"rank set: {error}") from None
    if len(found) != size:
        raise ProtocolError("rank set: its size is not what it says")
    return found
