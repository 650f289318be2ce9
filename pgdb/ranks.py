"""Sets of MPI ranks: parsing, folding, algebra.

A rank is a number in MPI_COMM_WORLD. A :class:`RankSet` never changes. Its text is folded
(``0-3,8``, ``0-30/2``) and parses back to the same set.
"""

from __future__ import annotations

import re
from array import array
from collections.abc import Callable, Iterable, Iterator, Sequence

from pyroaring import BitMap, FrozenBitMap

from pgdb.errors import RankSetError
from pgdb.patterns import pattern

MAX_RANK = 1 << 24
"""Largest rank that can be named or sent. A few letters can stand for a huge set; at this limit the
encoding that grows most needs 400 MB. The biggest jobs have some million ranks."""

_TERM = pattern(r"(\d+)(?:(?:-|\.\.)(\d+)(?:/(\d+))?)?\Z")
_OPERATORS = ",!&^"
# int() raises ValueError for more than 4300 digits, even if they are leading zeros.
_MAX_DIGITS = 1000
_EMPTY_SET_BYTES = 300  # RankSet, FrozenBitMap and the bitmap of C
# For fewer ranks, asking the library for the size takes longer than it is worth.
_FEW_RANKS = 1024
# Each rank of a stepped range takes time, and a text can have thousands of such ranges.
_MOST_STEPPED = 1 << 24
# Shortest run that is folded with a step: "0,2" reads better than "0-2/2".
_SHORTEST_STEPPED_RUN = 4
# From this many runs on the loop over them takes longer than importing NumPy.
MANY_RUNS = 10_000


class RankSet:
    """An immutable set of ranks.

    >>> RankSet.parse("0-3,8") | RankSet([4])
    RankSet('0-4,8')
    """

    __slots__ = ("_bits",)
    _bits: FrozenBitMap

    def __init__(self, ranks: Iterable[int] = ()) -> None:
        """Make a set of numbers from 0 on.

        :raises RankSetError: if *ranks* are no such numbers.
        """
        if isinstance(ranks, FrozenBitMap):
            self._bits = ranks
            return
        try:
            if isinstance(ranks, bytes | bytearray):
                raise TypeError  # an array would take them for the memory of its numbers
            known = ranks
            if not isinstance(ranks, range):
                ranks = ranks if isinstance(ranks, Sequence) else list(ranks)
                if bool in set(map(type, ranks)):
                    raise TypeError
                # Without the array, the library takes 1.5 for rank 1.
                known = array("I", ranks)
            self._bits = FrozenBitMap(known)
        except (TypeError, OverflowError):
            raise RankSetError(
                f"RankSet({ranks!r}): ranks are whole numbers from 0 on, such as [0, 3]; "
                "RankSet.parse('0-3') reads a text"
            ) from None

    @classmethod
    def range(cls, start: int, stop: int, step: int = 1) -> RankSet:
        """Return the ranks of ``range(start, stop, step)`` without a list of them."""
        return cls(FrozenBitMap(range(start, stop, step)))

    @classmethod
    def parse(
        cls,
        text: str,
        *,
        everything: RankSet | None = None,
        named: Callable[[str], RankSet | None] | None = None,
    ) -> RankSet:
        """Read a rank set as users write it.

        Terms are ``3``, ``0-3``, ``0..3``, ``0-31/2`` (step), ``all`` (needs *everything*)
        and ``@name`` (looked up with *named*); operators, read from left to right, are ``,``
        (union), ``!`` (difference), ``&`` (intersection) and ``^`` (symmetric difference).
        Surrounding brackets are allowed.

        :raises RankSetError: if the text is malformed, with the faulty term in the message.
        """
        if not isinstance(text, str):
            raise RankSetError(f"RankSet.parse: {text!r} is no text such as '0-3'")
        body = text.strip()
        if body.startswith("[") and body.endswith("]"):
            body = body[1:-1].strip()
        if not body:
            raise RankSetError(f"rank set {text!r} is empty; write for example 0-3,8 or all")
        # The set is changed in place from the second term on, which saves a copy for each term.
        only: RankSet | None = None
        result: BitMap | None = None
        operator = ","
        stepped_count = 0
        for piece in re.split(f"([{_OPERATORS}])", body):
            piece = piece.strip()
            if piece and piece in _OPERATORS:
                if only is None and piece == "!" and everything is not None:
                    only = everything
                    operator = piece
                    continue
                if operator or only is None:
                    raise RankSetError(f"rank set {text!r}: nothing stands before {piece!r}")
                operator = piece
                continue
            if not piece:
                continue
            term = cls._term(piece, text, everything, named)
            if "/" in piece:
                stepped_count += len(term)
                if stepped_count > _MOST_STEPPED:
                    raise RankSetError(f"rank set {text!r} has too many ranges with a step")
            if only is None:
                only, operator = term, ""
                continue
            if result is None:
                result = BitMap(only._bits)
            if operator == ",":
                result |= term._bits
            elif operator == "!":
                result -= term._bits
            elif operator == "&":
                result &= term._bits
            else:
                result ^= term._bits
            operator = ""
        if operator or only is None:
            raise RankSetError(f"rank set {text!r}: nothing follows {operator!r}")
        return only if result is None else cls(FrozenBitMap(result))

    @classmethod
    def _term(
        cls,
        piece: str,
        text: str,
        everything: RankSet | None,
        named: Callable[[str], RankSet | None] | None,
    ) -> RankSet:
        if piece == "all":
            if everything is None:
                raise RankSetError(f"rank set {text!r}: 'all' means nothing before there is a job")
            return everything
        if piece.startswith("@"):
            found = named(piece[1:]) if named is not None else None
            if found is None:
                raise RankSetError(
                    f"rank set {text!r}: there is no set named {piece!r}; "
                    "'defset NAME SET' makes one, and 'ranks' lists them"
                )
            return found
        match = _TERM.match(piece)
        if match is None:
            raise RankSetError(
                f"rank set {text!r}: {piece!r} is no rank or range; write for example 0-3,8"
            )
        if any(number is not None and len(number) > _MAX_DIGITS for number in match.groups()):
            raise RankSetError(f"rank set {text!r}: {piece!r} is larger than any MPI rank")
        first = int(match[1])
        last = int(match[2]) if match[2] is not None else first
        step = int(match[3]) if match[3] is not None else 1
        if last < first:
            raise RankSetError(
                f"rank set {text!r}: {piece!r} runs backwards; write '{last}-{first}'"
            )
        if step == 0:
            raise RankSetError(f"rank set {text!r}: {piece!r} has a step of 0")
        if last > MAX_RANK:
            raise RankSetError(f"rank set {text!r}: {last} is larger than any MPI rank")
        # A step beyond the end equals one to the end; the library may not accept the larger number.
        return cls.range(first, last + 1, min(step, last - first + 1))

    @classmethod
    def union(cls, sets: Iterable[RankSet]) -> RankSet:
        """Return the union of any number of sets.

        :raises TypeError: if one of them is no RankSet.
        """
        sets = tuple(sets)
        try:
            bits = [each._bits for each in sets]
        except AttributeError:
            raise TypeError("RankSet.union takes RankSets only") from None
        if len(sets) == 1:
            return sets[0]
        return cls(FrozenBitMap(BitMap.union(*bits)) if sets else ())

    def to_array(self) -> array[int]:
        """Return the ranks in order, as unsigned integers of 32 bits (type code ``I``)."""
        found: array[int] = self._bits.to_array()
        return found

    @classmethod
    def from_array(cls, ranks: array[int]) -> RankSet:
        """Return the set of the ranks in an array of type code ``I``."""
        return cls(FrozenBitMap(ranks))

    @property
    def run_count(self) -> int:
        """Number of runs of ranks without a gap."""
        return len(self._bits - self._bits.shift(1))

    @property
    def size_bytes(self) -> int:
        """Most memory that the set takes, in bytes."""
        if len(self) <= _FEW_RANKS:
            return 2 * len(self)
        found = self._bits.get_statistics()
        return (
            found["n_bytes_array_containers"]
            + found["n_bytes_run_containers"]
            + found["n_bytes_bitset_containers"]
        )

    def to_bytes(self) -> bytes:
        """Return the set as a serialised Roaring bitmap."""
        return self._bits.serialize()

    @classmethod
    def from_bytes(cls, data: bytes) -> RankSet:
        """Return the set that :meth:`to_bytes` wrote.

        :raises RankSetError: if *data* is not a Roaring bitmap.
        """
        try:
            return cls(FrozenBitMap.deserialize(data))
        except (ValueError, IndexError) as error:  # IndexError: no bytes at all
            raise RankSetError(f"no serialised rank set: {error}") from None

    def __or__(self, other: RankSet) -> RankSet:
        if not isinstance(other, RankSet):
            return NotImplemented
        return RankSet(self._bits | other._bits)

    def __and__(self, other: RankSet) -> RankSet:
        if not isinstance(other, RankSet):
            return NotImplemented
        return RankSet(self._bits & other._bits)

    def __sub__(self, other: RankSet) -> RankSet:
        if not isinstance(other, RankSet):
            return NotImplemented
        return RankSet(self._bits - other._bits)

    def __xor__(self, other: RankSet) -> RankSet:
        if not isinstance(other, RankSet):
            return NotImplemented
        return RankSet(self._bits ^ other._bits)

    def __le__(self, other: RankSet) -> bool:
        if not isinstance(other, RankSet):
            return NotImplemented
        return self._bits <= other._bits

    def isdisjoint(self, other: RankSet) -> bool:
        """Return whether the two sets have no rank in common.

        :raises TypeError: if *other* is no RankSet.
        """
        if not isinstance(other, RankSet):
            raise TypeError(f"RankSet.isdisjoint takes a RankSet, and not {other!r}")
        return self._bits.isdisjoint(other._bits)

    def __contains__(self, rank: int) -> bool:
        try:
            return rank in self._bits
        except (TypeError, OverflowError):
            return False  # it is no number of a rank

    def __iter__(self) -> Iterator[int]:
        return iter(self._bits)

    def __len__(self) -> int:
        return len(self._bits)

    def __bool__(self) -> bool:
        return bool(self._bits)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, RankSet) and self._bits == other._bits

    def __hash__(self) -> int:
        return hash(self._bits)

    @property
    def first(self) -> int:
        """The least rank.

        :raises ValueError: if the set is empty.
        """
        if not self._bits:
            raise ValueError("an empty rank set has no first rank")
        return self._bits.min()

    @property
    def last(self) -> int:
        """The greatest rank.

        :raises ValueError: if the set is empty.
        """
        if not self._bits:
            raise ValueError("an empty rank set has no last rank")
        return self._bits.max()

    def strided_ranges(self) -> Iterator[tuple[int, int, int]]:
        """Yield ``(first, last, step)`` runs in order; together they are the set."""
        if self.run_count > MANY_RUNS:
            yield from self._many_strided_ranges()
            return
        pending: list[int] = []
        for low, high in self.runs():
            if high - low >= 1:
                yield from _fold_singles(pending)
                pending = []
                yield (low, high, 1)
            else:
                pending.append(low)
        yield from _fold_singles(pending)

    def _many_strided_ranges(self) -> Iterator[tuple[int, int, int]]:
        """Yield the same for a set with very many runs, without a loop over all its ranks."""
        import numpy

        lows = numpy.frombuffer((self._bits - self._bits.shift(1)).to_array(), numpy.uint32)
        highs = numpy.frombuffer((self._bits - self._bits.shift(-1)).to_array(), numpy.uint32)
        blocks = numpy.flatnonzero(highs > lows).tolist()
        begin = 0
        for block in (*blocks, len(lows)):
            singles = lows[begin:block]
            # A new run begins where the step changes.
            steps = numpy.diff(singles)
            ends = numpy.append(numpy.flatnonzero(numpy.diff(steps)) + 1, len(steps)).tolist()
            at = 0
            for end in ends if len(singles) > 1 else ():
                if end - at + 1 >= _SHORTEST_STEPPED_RUN:
                    yield (int(singles[at]), int(singles[end]), int(steps[at]))
                    at = end + 1
                    continue
                while at < end:
                    yield (int(singles[at]), int(singles[at]), 1)
                    at += 1
            yield from ((rank, rank, 1) for rank in singles[at:].tolist())
            if block < len(lows):
                yield (int(lows[block]), int(highs[block]), 1)
            begin = block + 1

    def runs(self) -> Iterator[tuple[int, int]]:
        """Yield the first and the last rank of each run without a gap, in order."""
        # Ranks without a neighbour below begin a run, and ranks without one above end it. For a run
        # of a million ranks set algebra takes 0.1 ms; a loop over the ranks takes 50 ms.
        lows = self._bits - self._bits.shift(1)
        highs = self._bits - self._bits.shift(-1)
        yield from zip(lows, highs, strict=True)

    def __str__(self) -> str:
        parts = []
        for first, last, step in self.strided_ranges():
            if first == last:
                parts.append(str(first))
            elif step == 1:
                parts.append(f"{first}-{last}")
            else:
                parts.append(f"{first}-{last}/{step}")
        return ",".join(parts)

    def __repr__(self) -> str:
        return f"RankSet({str(self)!r})"


class SetsRoom:
    """Limit of the memory of the rank sets in one file: few bytes can stand for much."""

    def __init__(self, most_bytes: int) -> None:
        self._left_bytes = most_bytes

    def take(self, ranks: RankSet) -> RankSet:
        """Count *ranks*, and return them.

        :raises RankSetError: if all counted sets together take too much memory.
        """
        self._left_bytes -= ranks.size_bytes + _EMPTY_SET_BYTES
        if self._left_bytes < 0:
            raise RankSetError("its rank sets are too large")
        return ranks


def _fold_singles(ranks: list[int]) -> Iterator[tuple[int, int, int]]:
    """Fold isolated ranks into strided runs where a step holds long enough."""
    at = 0
    while at < len(ranks):
        end = at + 1
        if end < len(ranks):
            step = ranks[end] - ranks[at]
            while end + 1 < len(ranks) and ranks[end + 1] - ranks[end] == step:
                end += 1
            if end - at + 1 >= _SHORTEST_STEPPED_RUN:
                yield (ranks[at], ranks[end], step)
                at = end + 1
                continue
        yield (ranks[at], ranks[at], 1)
        at += 1
