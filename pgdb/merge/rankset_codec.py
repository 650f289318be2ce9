"""The form of rank sets, and of partitions of ranks into classes, on the wire.

A set is sent in the smallest of several forms. Regular sets (blocks, every fourth rank) take some
bytes as text; sets without a pattern come close to the entropy of the choice, which no form can
go below: Huffman codes of gaps or of bits, and for a partition of its labels. The largest class
of a partition is not sent at all, since it is what the others leave.
"""

from __future__ import annotations

import io
import math
import sys
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
# Partitions of so few ranks are labelled without NumPy, which takes longer to load; and of fewer
# still where it is there.
_FEW_RANKS = 1024
_FEWEST_RANKS = 64
# Sets that together are so many runs, and long ones, are sent as they are.
_FEW_BLOCKS = 4096
_LONG_RUN = 256
_SLICE = 1 << 13
# What a coded set has beside its code.
_HEAD_BYTES = 8
_DIGITS = pattern(r"[0-9]+")
_FOLDED = pattern(r"[0-9]+(?:-[0-9]+(?:/[0-9]+)?)?(?:,[0-9]+(?:-[0-9]+(?:/[0-9]+)?)?)*")


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
    """Which of the other sets each of their ranks is in, see _code_labels; where no set is left
    out, and none given, which of all."""


def to_partition(sets: Sequence[RankSet]) -> Partition:
    """Return the form in which *sets*, none of them empty, travel together."""
    base = RankSet.union(sets)
    if not sets:
        return Partition(base=base, count=0)
    rest = max(range(len(sets)), key=lambda number: len(sets[number]))
    given = tuple(each for number, each in enumerate(sets) if number != rest)
    if len(given) > 1 and len(sets) < len(base):
        if len(base) < _FEW_RANKS:
            planes = _label_few(base, sets)
            if sum(map(len, planes)) + _HEAD_BYTES < _text_bytes(given):
                return Partition(base=base, count=len(sets), labels=planes)
        elif _is_long(given):
            return pack_labels(Labels.of(sets, base), sets)
    return Partition(base=base, count=len(sets), rest=rest, given=given)


def pack_labels(labels: Labels, sets: Sequence[RankSet] | None = None) -> Partition:
    """Return the form in which the sets of *labels*, none of them empty, travel together.

    *sets* are these, if they are known.
    """
    sizes = labels.sizes()
    count, base, rest = labels.count, labels.ranks, int(sizes.argmax())
    if count > 2 and _may_gain(labels):
        if 2 * int(sizes[rest]) > len(base):
            others = labels.without(rest)
            planes = _code_labels(others)
            partition = Partition(base, count, rest, given=(others.ranks,), labels=planes)
        else:
            partition = Partition(base=base, count=count, labels=_code_labels(labels))
        size = sum(map(len, partition.labels))
        size += sum(len(pack(each)) for each in partition.given)
        estimate = _estimate_bytes(labels, rest, sizes, size)
        if estimate <= size < _DOUBT * estimate and count <= _FEW_SETS:
            sets = labels.sets() if sets is None else sets
            estimate = sum(len(pack(each)) for each in sets) - len(pack(sets[rest]))
        if size < estimate:
            return partition
    sets = labels.sets() if sets is None else sets
    given = tuple(each for number, each in enumerate(sets) if number != rest)
    return Partition(base=base, count=count, rest=rest, given=given)


def _may_gain(labels: Labels) -> bool:
    """Return whether labels may be shorter than sets: not where these are some long runs."""
    runs = labels.count_changes() + labels.ranks.run_count
    return runs > _FEW_BLOCKS or runs * _LONG_RUN > len(labels)


def _is_long(sets: Sequence[RankSet]) -> bool:
    """Return whether sets may take more than some bytes, and are not some long runs."""
    runs = ranks = size = 0
    for each in sets:
        count = each.run_count
        runs += count
        ranks += len(each)
        size += min(8 * len(each), 16 * count)
    return size > _SMALL_PARTITION_BYTES and (runs > _FEW_BLOCKS or runs * _LONG_RUN > ranks)


def _text_bytes(sets: Sequence[RankSet]) -> int:
    """Return what folded texts of sets take, but for what steps save."""
    return sum(min(4 * len(each), 9 * each.run_count) for each in sets)


def _estimate_bytes(labels: Labels, rest: int, sizes: Numbers, enough: int) -> float:
    """Return about how many bytes the sets but *rest* would take if each was packed by itself.

    Packing a thousand of them just to know that takes a second for a million ranks. Where it is
    more than *enough* anything above that may be returned.
    """
    import numpy

    # No code of a set without a pattern is shorter than what it takes to choose its ranks.
    count = labels.count
    lasts = numpy.zeros(count, numpy.int64)
    spans = numpy.ones(count, numpy.int64)
    for begin, ranks in labels.slices():
        lasts[labels.part(begin, begin + len(ranks))] = ranks
    firsts = labels.firsts()
    for begin, ranks in labels.slices():
        here = (begin <= firsts) & (firsts < begin + len(ranks))
        spans[here] = lasts[here] - ranks[firsts[here] - begin] + 1
    share = numpy.clip(sizes / spans, 1e-9, 1 - 1e-9)
    bits = -spans * (share * numpy.log2(share) + (1 - share) * numpy.log2(1 - share))
    codes = _HEAD_BYTES + bits / 8
    codes[rest] = 0
    term_bytes = 2 + 2 * math.log10(max(2, labels.ranks.last))
    estimate = 0.0
    for terms in _count_terms(labels):
        estimate = float(numpy.minimum(terms * term_bytes, codes).sum())
        if estimate > enough:
            break
    return estimate


def _count_terms(labels: Labels) -> Iterator[Numbers]:
    """Yield how many terms the folded texts of the sets have so far, after each slice of ranks."""
    import numpy

    # A text has a term wherever the step changes; the first two ranks of a set are no change.
    terms = numpy.ones(labels.count, numpy.int64)
    seen = numpy.zeros(labels.count, numpy.int64)
    last = numpy.zeros(labels.count, numpy.int64)
    last_step = numpy.zeros(labels.count, numpy.int64)
    for begin, ranks in labels.slices():
        numbers = labels.part(begin, begin + len(ranks))
        order = numpy.argsort(numbers, kind="stable")
        ordered = ranks[order].astype(numpy.int64)
        sets = numbers[order]
        is_first = numpy.empty(len(sets), bool)
        is_first[0] = True
        numpy.not_equal(sets[1:], sets[:-1], out=is_first[1:])
        begins = numpy.flatnonzero(is_first)
        which = sets[begins]
        counts = numpy.diff(begins, append=len(sets))
        steps = numpy.diff(ordered, prepend=0)
        steps[begins] = ordered[begins] - last[which]
        before = numpy.empty_like(steps)
        before[1:] = steps[:-1]
        before[begins] = last_step[which]
        changes = steps != before
        changes[begins[seen[which] < 2]] = False
        changes[begins[(seen[which] == 0) & (counts > 1)] + 1] = False
        terms[which] += numpy.add.reduceat(changes.astype(numpy.int64), begins)
        ends = begins + counts - 1
        last[which] = ordered[ends]
        last_step[which] = steps[ends]
        seen[which] += counts
        yield terms


def from_partition(partition: Partition) -> tuple[RankSet, ...]:
    """Return the sets that *partition* was made of.

    :raises ProtocolError: if they have ranks in common, are empty or go beyond its base.
    """
    found = read_partition(partition)
    return found.sets() if isinstance(found, Labels) else found


def read_partition(partition: Partition) -> Labels | tuple[RankSet, ...]:
    """Return the sets that *partition* was made of, as labels where many ranks came with them.

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
    if partition.labels and not given and rest == -1:
        if len(base) < (_FEWEST_RANKS if "numpy" in sys.modules else _FEW_RANKS):
            return _unpack_few(base, count, partition.labels)
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
    """Return the labels of *base*, given those of *others*; the rest is in the set *rest*."""
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
    """Return the folded text, or None where there is no short one."""
    if ranks.run_count <= _MANY_RUNS:
        return str(ranks)
    import numpy

    # Regular sets have few places at which the step changes, however many ranks they have.
    steps = numpy.diff(as_numpy(ranks))
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
    """Return one bit for each rank from the first to the last, coded."""
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
    """Return labels as coded planes of bytes.

    As many as go into a byte stand in one, so that a code of whole bits for a byte comes close to
    the entropy of each; more than 256 sets need two planes.
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
    """Yield labels with as many in a byte as go into one."""
    import numpy

    per_byte = _labels_per_byte(labels.count)
    for _, part in labels.parts(per_byte * _SLICE):
        digits = part.astype(numpy.uint8)
        joined = numpy.zeros(-(-len(digits) // per_byte), numpy.uint8)
        for place in range(per_byte):
            some = digits[place::per_byte]
            joined[: len(some)] += some * numpy.uint8(labels.count**place)
        yield joined.tobytes()


def _decode_labels(size: int, count: int, planes: Sequence[bytes]) -> Numbers:
    """Return the labels of *size* ranks in *count* sets, none of them empty."""
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


def _label_few(base: RankSet, sets: Sequence[RankSet]) -> tuple[bytes, ...]:
    """Return what _code_labels does, without NumPy, which takes longer to load than this."""
    places = {rank: place for place, rank in enumerate(base)}
    numbers = [0] * len(base)
    for number, each in enumerate(sets):
        for rank in each:
            numbers[places[rank]] = number
    count = len(sets)
    if count > 256:
        planes = [bytes([each >> shift & 0xFF for each in numbers]) for shift in (0, 8)]
    else:
        per_byte = _labels_per_byte(count)
        joined = bytearray(-(-len(numbers) // per_byte))
        for place in range(per_byte):
            weight = count**place
            for at, number in enumerate(numbers[place::per_byte]):
                joined[at] += number * weight
        planes = [bytes(joined)]
    # Of so few the search for a pattern costs nothing.
    return tuple(min(_deflate((each,)), zlib.compress(each, 9, -15), key=len) for each in planes)


def _unpack_few(base: RankSet, count: int, planes: Sequence[bytes]) -> tuple[RankSet, ...]:
    size = len(base)
    if not 0 < count <= size:
        raise ProtocolError(f"partition: {count} sets of {size} ranks")
    if len(planes) != _plane_count(count):
        raise ProtocolError(f"partition: {len(planes)} planes for {count} sets")
    found: list[list[int]] = [[] for _ in range(count)]
    if count > 256:
        low, high = (_inflate(each, size) for each in planes)
        for rank, one, other in zip(base, low, high, strict=True):
            number = other << 8 | one
            if number >= count:
                raise ProtocolError("partition: a label without a set")
            found[number].append(rank)
    else:
        per_byte = _labels_per_byte(count)
        joined = _inflate(planes[0], -(-size // per_byte))
        ranks = iter(base)
        for each in joined:
            for _, rank in zip(range(per_byte), ranks, strict=False):
                found[each % count].append(rank)
                each //= count
            if each:
                raise ProtocolError("partition: a label without a set")
    if not all(found):
        raise ProtocolError("partition: a set is empty")
    return tuple(map(RankSet, found))


def _plane_count(count: int) -> int:
    return 1 if count <= 256 else 2 if count <= 1 << 16 else 4


def _labels_per_byte(count: int) -> int:
    per_byte = 1
    while count > 1 and count ** (per_byte + 1) <= 256 and per_byte < 8:
        per_byte += 1
    return per_byte


# -- small things ----------------------------------------------------------------------------------


def _deflate(pieces: Iterable[bytes]) -> bytes:
    # Runs of one byte and Huffman codes; a search for longer matches finds none in what is random,
    # and makes it larger.
    packer = zlib.compressobj(9, zlib.DEFLATED, -15, 9, zlib.Z_RLE)
    packed = io.BytesIO()  # whose value is no copy
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
