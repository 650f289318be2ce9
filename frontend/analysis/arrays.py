"""Numbers of many ranks as NumPy arrays, read from the memory of the ranks.

A first request asks each rank for type and shape, so that nothing above the limit is transferred.
Further requests read pieces, so that the size of a message is bounded.
"""

from __future__ import annotations

import math
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol

import msgspec
from msgspec.structs import replace

from pgdb.errors import CommandError
from pgdb.frontend.analysis.answers import Answer
from pgdb.frontend.analysis.decompose import GlobalArray, assemble
from pgdb.frontend.analysis.layouts import Layout
from pgdb.frontend.analysis.limits import check_size
from pgdb.merge.classes import EquivalenceClass, Merger, Missing
from pgdb.overlay.messages import AnyOperation, ReadBlock
from pgdb.overlay.operations import trace_of
from pgdb.ranks import RankSet
from pgdb.records import Block, Failure, Record

if TYPE_CHECKING:
    from numpy.typing import NDArray

PIECE_BYTES = 64 * 1024 * 1024
"""Maximum size of one answer; the largest message of the overlay is four times that."""
_BEHIND_ALL = 1 << 62


class Ask(Protocol):
    """A function that asks ranks: :meth:`pgdb.frontend.api.session.Session.ask`."""

    async def __call__(self, command: str, operation: AnyOperation, ranks: RankSet) -> Answer:
        """Return the merged answer of *ranks*."""
        ...


class Arrays(msgspec.Struct, frozen=True):
    """The numbers of an expression on each rank."""

    expression: str
    ranks: RankSet
    """Asked ranks."""
    by_rank: Mapping[int, NDArray[Any]]
    """Numbers of each rank that gave some, ordered by rank. The arrays are read-only, since ranks
    with equal numbers share one array. A single number is an array without dimensions."""
    errors: tuple[EquivalenceClass[Record], ...] = ()
    """Ranks on which the numbers could not be read, with the error."""
    missing: Missing = msgspec.field(default_factory=Missing)
    """Ranks without an answer: running, late or lost."""
    elapsed_s: float = 0.0
    limit_bytes: int = sys.maxsize
    """Maximum size of the numbers of all ranks, and of a global array, in bytes."""
    lower: tuple[int, ...] = ()
    """Lower bound of each index, in Fortran; empty for 0, and where ranks have different ones."""

    @property
    def ok(self) -> bool:
        """Whether every asked rank gave its numbers."""
        return not self.errors and not self.missing

    @property
    def is_of_trace(self) -> bool:
        """Whether the numbers are those of a trace: each is of one row, and rows count from 1."""
        return trace_of(self.expression) is not None

    @property
    def given(self) -> RankSet:
        """Ranks that gave their numbers."""
        return RankSet(self.by_rank)

    @property
    def size_bytes(self) -> int:
        """Size of the numbers of all ranks, in bytes."""
        return sum(each.nbytes for each in self.by_rank.values())

    @property
    def forms(self) -> dict[tuple[str, tuple[int, ...]], RankSet]:
        """Ranks of each element type and shape, ordered by least rank."""
        found: dict[tuple[str, tuple[int, ...]], list[int]] = {}
        for rank, values in self.by_rank.items():
            found.setdefault((values.dtype.name, values.shape), []).append(rank)
        return {form: RankSet(ranks) for form, ranks in found.items()}

    @property
    def failures(self) -> Answer:
        """The failures and missing ranks as an answer, without the ranks that gave numbers."""
        return Answer(
            command=f"print {self.expression}",
            ranks=self.ranks,
            classes=self.errors,
            missing=self.missing,
            elapsed_s=self.elapsed_s,
        )

    def check(self) -> Arrays:
        """Return these arrays if they are complete.

        :raises CommandError: if a rank could not read the numbers; the message names the ranks.
        :raises NoAnswerError: if a rank has not answered.
        """
        self.failures.check()
        return self

    def stack(self) -> NDArray[Any]:
        """Return one array whose first index counts the ranks of :attr:`given`.

        :raises CommandError: if no rank gave numbers, or if shapes or element types differ.
        """
        import numpy

        forms = self.forms
        if not forms:
            raise CommandError(f"{self.expression}: no rank has given any numbers")
        if len(forms) > 1:
            words = ", ".join(f"{form_text(*form)} on [{ranks}]" for form, ranks in forms.items())
            raise CommandError(f"{self.expression} differs in shape: {words}; name fewer ranks")
        return numpy.stack(list(self.by_rank.values()))

    def assemble(self, layout: Layout) -> GlobalArray:
        """Return the global array that consists of the arrays of the ranks.

        :raises CommandError: if the arrays do not fit the layout, or if the global array is larger
            than :attr:`limit_bytes`.
        """
        return assemble(
            self.by_rank,
            self.ranks,
            layout,
            name=self.expression,
            limit_bytes=self.limit_bytes,
        )


def form_text(kind: str, shape: tuple[int, ...]) -> str:
    """Return the text of an element type and a shape, such as ``float64[4][3]``."""
    return kind + "".join(f"[{extent}]" for extent in shape)


async def read_arrays(ask: Ask, expression: str, ranks: RankSet, *, limit_bytes: int) -> Arrays:
    """Read *expression*, a number or an array of numbers, on *ranks*.

    Ranks that cannot read it are errors in the result; the other ranks are not affected.

    :raises CommandError: if the numbers of all ranks are larger than *limit_bytes* or than the
        memory of this host.
    """
    begun_s = time.monotonic()
    reading = _Reading(ask, expression, limit_bytes)
    forms = await reading.ask_forms(ranks)
    total = sum(each.size_bytes * len(each.ranks) for each in forms)
    count = sum(len(each.ranks) for each in forms)
    less = "name fewer ranks, or read a part, ELEMENT@COUNT"
    check_size(f"{expression} on {count} ranks", total, limit_bytes, less=less)
    for piece in pieces(forms, PIECE_BYTES):
        await reading.read(piece)
    lower = {each.block.lower for each in forms}
    return Arrays(
        expression=expression,
        ranks=ranks,
        by_rank=reading.arrays(forms),
        errors=reading.errors.classes,
        missing=reading.missing,
        elapsed_s=time.monotonic() - begun_s,
        limit_bytes=limit_bytes,
        lower=lower.pop() if len(lower) == 1 else (),
    )


class Form(msgspec.Struct, frozen=True):
    """Ranks whose numbers are of the same type and shape."""

    ranks: RankSet
    block: Block
    """Type and shape; no data."""

    @property
    def count(self) -> int:
        """Number of elements on each rank."""
        return math.prod(self.block.shape)

    @property
    def item_bytes(self) -> int:
        """Size of an element, in bytes."""
        return int(self.block.dtype[2:])

    @property
    def size_bytes(self) -> int:
        """Size of the numbers of one rank, in bytes."""
        return self.count * self.item_bytes


class Piece(msgspec.Struct, frozen=True):
    """Ranks and elements of one request."""

    ranks: RankSet
    start: int = 0
    count: int = 0
    """Number of elements; 0 for all."""


def pieces(forms: Sequence[Form], most_bytes: int) -> Iterator[Piece]:
    """Yield requests whose answers have at most *most_bytes* each.

    A request reads the whole arrays of several ranks, or a part of the array of one rank.
    """
    together: list[int] = []
    sum_bytes = 0
    for form in forms:
        if not form.count:
            continue
        for rank in form.ranks:
            if form.size_bytes > most_bytes:
                step = max(1, most_bytes // form.item_bytes)
                for start in range(0, form.count, step):
                    yield Piece(RankSet([rank]), start, min(step, form.count - start))
                continue
            if sum_bytes + form.size_bytes > most_bytes:
                yield Piece(RankSet(together))
                together, sum_bytes = [], 0
            together.append(rank)
            sum_bytes += form.size_bytes
    if together:
        yield Piece(RankSet(together))


def _begin(block: Block, count: int) -> Block:
    """Return a block of one dimension as it was when it had *count* elements."""
    if count >= block.shape[0]:
        return block
    left_bytes = max(0, count - block.start) * int(block.dtype[2:])
    return replace(block, shape=(count,), data=block.data[:left_bytes])


class _Reading:
    """The state of one reading: data that arrived, ranks that failed."""

    def __init__(self, ask: Ask, expression: str, limit_bytes: int) -> None:
        self._ask = ask
        self._expression = expression
        self._limit_bytes = limit_bytes
        # A rank that runs adds rows to a trace between two requests.
        self._grows = trace_of(expression) is not None
        self._data: dict[int, list[bytes]] = {}
        self._forms: dict[int, Block] = {}
        self.errors: Merger[Record] = Merger()
        self.missing = Missing()

    async def ask_forms(self, ranks: RankSet) -> list[Form]:
        """Ask for type and shape: a block behind the end of an array has no data."""
        answer = await self._send(ranks, _BEHIND_ALL, 0)
        forms = []
        for each in answer.classes:
            if isinstance(each.record, Block):
                block = Block(
                    dtype=each.record.dtype,
                    shape=each.record.shape,
                    data=b"",
                    order=each.record.order,
                    lower=each.record.lower,
                )
                forms.append(Form(ranks=each.ranks, block=block))
                for rank in each.ranks:
                    self._forms[rank] = block
                    self._data[rank] = []
        return forms

    async def read(self, piece: Piece) -> None:
        """Read one piece, on the ranks that have not failed before."""
        ranks = piece.ranks - self._failed
        if not ranks:
            return
        answer = await self._send(ranks, piece.start, piece.count)
        for each in answer.classes:
            block = each.record
            if not isinstance(block, Block):
                continue
            for rank in each.ranks:
                form = self._forms[rank]
                read = _begin(block, form.shape[0]) if self._grows else block
                if (read.dtype, read.shape) != (form.dtype, form.shape):
                    changed = f"{self._expression} has changed while it was read"
                    self.errors.add(RankSet([rank]), Failure(message=changed))
                else:
                    self._data[rank].append(read.data)

    def arrays(self, forms: Sequence[Form]) -> dict[int, NDArray[Any]]:
        """Return the arrays of the ranks that have not failed."""
        import numpy

        made: dict[int, tuple[bytes, NDArray[Any]]] = {}
        found: dict[int, NDArray[Any]] = {}
        failed = self._failed
        for rank in sorted(rank for form in forms for rank in form.ranks - failed):
            parts, form = self._data[rank], self._forms[rank]
            # Equal numbers arrive once, as one object. They become one array.
            key = id(parts[0]) if len(parts) == 1 else -1
            if key not in made or made[key][0] is not parts[0]:
                data = parts[0] if len(parts) == 1 else b"".join(parts)
                values = numpy.frombuffer(data, form.dtype) if data else numpy.empty(0, form.dtype)
                values = values.reshape(form.shape, order=form.order)
                values.flags.writeable = False
                found[rank] = values
                if len(parts) == 1:
                    made[key] = (data, values)
            else:
                found[rank] = made[key][1]
            self._data[rank] = []
        return found

    @property
    def _failed(self) -> RankSet:
        return self.errors.ranks | self.missing.ranks

    async def _send(self, ranks: RankSet, start: int, count: int) -> Answer:
        operation = ReadBlock(
            expression=self._expression, start=start, count=count, limit_bytes=self._limit_bytes
        )
        answer = await self._ask(f"print {self._expression}", operation, ranks)
        self.errors.add_classes(
            each for each in answer.classes if not isinstance(each.record, Block)
        )
        self.missing = self.missing | answer.missing
        return answer
