"""Compare the codec of partitions with a Roaring bitmap for each class and zlib over all.

    python bench/rankset_codec.py [--ranks N ...]

A Markdown table is printed: bytes, and the milliseconds to encode and to decode, of both codecs for
partitions of several shapes. Times are the best of three.
"""

from __future__ import annotations

import argparse
import time
import zlib
from collections.abc import Callable, Iterator
from typing import Any, TypeVar

import msgspec
import numpy

from pgdb.merge.partition_labels import Labels
from pgdb.merge.rankset_codec import Partition, pack, read_partition, to_partition, unpack
from pgdb.ranks import RankSet

Sets = tuple[RankSet, ...]
T = TypeVar("T")
REPEATS = 3
MOST_ALL_DIFFERENT = 1 << 16


def main() -> None:
    """Measure and print the table."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else None)
    parser.add_argument("--ranks", type=int, nargs="*", default=[65_536, 1_048_576])
    chosen = parser.parse_args()
    print("| ranks | partition | codec | ms | Roaring + zlib | ms |")
    print("|--:|---|--:|--:|--:|--:|")
    for count in chosen.ranks:
        for name, sets in shapes(count):
            cells = [
                cell
                for encode, decode in ((encode_partition, decode_partition), (bitmaps, of_bitmaps))
                for cell in measured(sets, encode, decode)
            ]
            print(f"| {count:,} | {name} | {' | '.join(cells)} |", flush=True)


def shapes(count: int) -> Iterator[tuple[str, Sets]]:
    """Yield partitions of *count* ranks with their names."""
    ranks = numpy.arange(count)
    chance = numpy.random.default_rng(1)
    yield "one outlier", sets_of((ranks == count // 3).astype(int))
    yield "5 blocks", sets_of(ranks * 5 // count)
    yield "1 % at random", sets_of((chance.random(count) < 0.01).astype(int))
    for classes in (2, 16, 1024):
        yield f"{classes} classes at random", sets_of(chance.integers(0, classes, count))
    for step in (2, 64, 1024):
        yield f"every {step}th", sets_of(ranks % step)
    if count <= MOST_ALL_DIFFERENT:
        yield "every rank differs", tuple(RankSet([rank]) for rank in range(count))


def sets_of(labels: numpy.ndarray[Any, Any]) -> Sets:
    """Return the sets of ranks with equal labels, least rank first."""
    order = numpy.argsort(labels, kind="stable")
    ends = numpy.cumsum(numpy.bincount(labels))
    sets = [RankSet(part.tolist()) for part in numpy.split(order, ends[:-1])]
    return tuple(sorted(filter(None, sets), key=lambda each: each.first))


def encode_partition(sets: Sets) -> bytes:
    """Encode *sets* as aggregators do."""
    return msgspec.msgpack.encode(to_partition(sets), enc_hook=pack)


def decode_partition(data: bytes) -> Sets:
    """Return the sets that :func:`encode_partition` encoded."""
    partition = msgspec.msgpack.decode(data, type=Partition, dec_hook=lambda _, said: unpack(said))
    found = read_partition(partition)
    return found.sets() if isinstance(found, Labels) else found


def bitmaps(sets: Sets) -> bytes:
    """Encode *sets* without the largest as Roaring bitmaps, deflated together."""
    rest = max(range(len(sets)), key=lambda number: len(sets[number]))
    given = [each.to_bytes() for number, each in enumerate(sets) if number != rest]
    return zlib.compress(msgspec.msgpack.encode([RankSet.union(sets).to_bytes(), rest, given]), 1)


def of_bitmaps(data: bytes) -> Sets:
    """Return the sets that :func:`bitmaps` encoded."""
    base, rest, given = msgspec.msgpack.decode(zlib.decompress(data))
    sets = [RankSet.from_bytes(each) for each in given]
    sets.insert(rest, RankSet.from_bytes(base) - RankSet.union(sets))
    return tuple(sets)


def measured(
    sets: Sets, encode: Callable[[Sets], bytes], decode: Callable[[bytes], Sets]
) -> tuple[str, str]:
    """Return the bytes of *sets*, and the times to encode and decode them."""
    encode_s, data = best(encode, sets)
    decode_s, found = best(decode, data)
    assert found == sets
    return f"{len(data):,}", f"{1e3 * encode_s:.1f} / {1e3 * decode_s:.1f}"


def best(what: Callable[..., T], *given: object) -> tuple[float, T]:
    """Return the least of several times that *what* took, in seconds, and its result."""
    taken_s = []
    for _ in range(REPEATS):
        begun_s = time.perf_counter()
        found = what(*given)
        taken_s.append(time.perf_counter() - begun_s)
    return min(taken_s), found


if __name__ == "__main__":
    main()
