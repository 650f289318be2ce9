"""Typed answers of ranks to a command: their classes, values and missing ranks."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec.structs import replace

from pgdb.errors import CommandError, NoAnswerError
from pgdb.frontend.analysis.diff import leaves
from pgdb.frontend.analysis.line_marks import Listing
from pgdb.frontend.analysis.rich_display import RichText
from pgdb.frontend.analysis.still_running import StillRunning
from pgdb.frontend.analysis.value_nodes import full_text, node_of
from pgdb.frontend.analysis.values import number_of
from pgdb.merge.classes import EquivalenceClass, Merger, Missing
from pgdb.merge.graph import to_networkx
from pgdb.merge.normalize import DIFFERENT
from pgdb.ranks import RankSet
from pgdb.records import PLACEHOLDER, Block, Failure, Record, Running, Text, Value, Various

if TYPE_CHECKING:
    import networkx
    import numpy
    from numpy.typing import NDArray


_LONG_BYTES = 1 << 16
_CLASS_BYTES = 200


class FieldValues(msgspec.Struct, frozen=True):
    """Values of the ranks at one field or element of a value."""

    ranks: NDArray[numpy.int64]
    values: NDArray[Any]
    """A number for each rank if all values are numbers, otherwise texts."""


class Answer(msgspec.Struct, RichText, frozen=True, dict=True):
    """The merged answer of some ranks to one command.

    Every asked rank is in exactly one class or in :attr:`missing`.
    """

    command: str
    """Command as a user would type it."""
    ranks: RankSet
    """Asked ranks."""
    classes: tuple[EquivalenceClass[Record], ...]
    """Classes of ranks with equal records, ordered by least rank."""
    missing: Missing = msgspec.field(default_factory=Missing)
    """Ranks without an answer, by reason."""
    request_id: int = 0
    elapsed_s: float = 0.0
    is_reported: bool = False
    """Whether events already reported its stops, so that an interface need not show them again."""

    may_run: bool = False
    """Whether ranks that still run count as no failure, because nobody waited for all of them."""
    still_running: tuple[StillRunning, ...] | None = None
    """The places of ranks that still run after a command that has waited for stops, as far as PGDB
    has looked; None for other commands."""
    listing: Listing | None = None
    """The files and marks of listed source lines."""

    @cached_property
    def size_bytes(self) -> int:
        """Approximate size in memory."""
        # Kept: records of some kinds are packed to be measured.
        return sum(
            _CLASS_BYTES
            + _record_bytes(each.record)
            + sum(map(len, each.slots))
            + each.ranks.size_bytes
            for each in self.classes
        )

    def joined(self, other: Answer) -> Answer:
        """Return the answer, with that of *other* for the ranks that have none here."""
        merger: Merger[Record] = Merger()
        merger.add_classes(self.classes)
        merger.add_classes(each.part(each.ranks - merger.ranks) for each in other.classes)
        missing = (other.missing | self.missing) - merger.ranks
        return replace(
            self, ranks=other.ranks | self.ranks, classes=merger.classes, missing=missing
        )

    @property
    def is_long(self) -> bool:
        """Whether its text takes so long to make that a thread is to make it."""
        return self.size_bytes > _LONG_BYTES

    @property
    def runs_unasked(self) -> bool:
        """Whether ranks run although the command is none that sets ranks running."""
        is_running = any(isinstance(each.record, Running) for each in self.classes)
        return is_running and not self.is_reported

    def __iter__(self) -> Iterator[EquivalenceClass[Record]]:
        return iter(self.classes)

    def for_rank(self, rank: int) -> Record:
        """Return the record of one rank.

        :raises NoAnswerError: if the rank has not answered, or if the ranks gave so many different
            answers that only a summary arrived.
        """
        for each in self.classes:
            if rank in each.ranks:
                if isinstance(each.record, Various):
                    raise NoAnswerError(
                        f"'{self.command}': of [{each.ranks}] there is a summary only; ask "
                        f"rank {rank} alone, or 'expand' the answer for it"
                    )
                return each.filled
        raise NoAnswerError(f"rank {rank} has not answered '{self.command}'")

    @property
    def errors(self) -> tuple[EquivalenceClass[Record], ...]:
        """Classes of ranks on which the command failed."""
        return tuple(each for each in self.classes if each.is_error)

    @property
    def ok(self) -> bool:
        """Whether every asked rank that is not held answered without an error."""
        return not self.errors and self.missing.ranks <= self.missing.held

    @property
    def values(self) -> dict[int, int | float | str]:
        """Value of each rank that has one: a number if its text is a number, otherwise the text."""
        found: dict[int, int | float | str] = {}
        for each in self.classes:
            record = each.filled
            if isinstance(record, Value):
                number, text = record.number, full_text(record)
                for rank in each.ranks:
                    found[rank] = text if number is None else number
        return dict(sorted(found.items()))

    def numbers(self) -> tuple[NDArray[numpy.int64], NDArray[Any]]:
        """Return ranks in ascending order and their values, for ranks whose value is a number.

        Values are integers if all are integers of at most 64 bits, otherwise floats.
        """
        pairs = [
            (each.ranks, number_of(each.filled.text, each.filled.base))
            for each in self.classes
            if isinstance(each.record, Value) and isinstance(each.filled, Value)
        ]
        return _arrays([(ranks, number) for ranks, number in pairs if number is not None])

    def fields(self) -> dict[str, FieldValues]:
        """Return the values of ranks at each field and element of a structure or array, by path.

        GDB accepts a path behind the expression: ``.x[1]``. A value without parts has the empty
        path. A run of elements that are equal on every rank is one entry: ``[3]@97``.
        """
        values = [
            (each.ranks, node_of(each)) for each in self.classes if isinstance(each.record, Value)
        ]
        bases = [each.record.base for each in self.classes if isinstance(each.record, Value)]
        base = max(bases, default=0)
        found = {}
        for path, texts in leaves(values).items():
            pairs = [(ranks, number_of(text, base)) for ranks, text in texts]
            numbers = [(ranks, number) for ranks, number in pairs if number is not None]
            ranks, array = _arrays(numbers if len(numbers) == len(pairs) else texts)
            found[path] = FieldValues(ranks, array)
        return found

    def check(self) -> Answer:
        """Return this answer if it is complete.

        :raises CommandError: if the command failed on a rank; the message names the ranks.
        :raises NoAnswerError: if a rank has not answered.
        """
        for each in self.errors:
            failure = each.filled
            if isinstance(failure, Various):
                failure = failure.template
            assert isinstance(failure, Failure)
            message = failure.message.replace(PLACEHOLDER, DIFFERENT) or "each says something else"
            raise CommandError(f"'{self.command}' failed on [{each.ranks}]: {message}")
        if silent := self.missing.ranks - self.missing.held:
            raise NoAnswerError(f"'{self.command}': no answer from [{silent}]")
        return self

    def graph(self) -> networkx.DiGraph[Any]:
        """Return the answer graph, for analysis and export; see :func:`to_networkx`."""
        return to_networkx(self.classes)


def failures_text(classes: Iterable[EquivalenceClass[Record]]) -> str:
    """Return the failures among the classes of an answer, with their ranks; empty without any."""
    return "; ".join(
        f"[{each.ranks}] {each.filled.message}"
        for each in classes
        if isinstance(each.filled, Failure)
    )


def _arrays(
    pairs: Sequence[tuple[RankSet, int | float | str]],
) -> tuple[NDArray[numpy.int64], NDArray[Any]]:
    """Return ranks in ascending order and the value of each."""
    import numpy

    ranks = [numpy.frombuffer(members.to_array(), numpy.uint32) for members, _ in pairs]
    if not ranks:
        return numpy.empty(0, numpy.int64), numpy.empty(0)
    values = numpy.array([value for _, value in pairs])
    if values.dtype == object:  # integers beyond 64 bits
        values = values.astype(float)
    every_rank = numpy.concatenate(ranks).astype(numpy.int64)
    every_value = numpy.repeat(values, [len(members) for members in ranks])
    order = numpy.argsort(every_rank)
    return every_rank[order], every_value[order]


def _record_bytes(record: Record) -> int:
    match record:
        case Value(text=text, whole=str(whole)):
            return len(text) + len(whole)
        case Value(text=text, whole=Block(data=data)):
            return len(text) + len(data)
        case Value(text=text) | Text(text=text) | Failure(message=text):
            return len(text)
        case Block(data=data):
            return len(data)
        case _:
            return len(msgspec.msgpack.encode(record))
