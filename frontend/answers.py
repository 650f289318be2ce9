"""What a session's calls return: typed answers that know their classes, ranks and missing ranks."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from pgdb.errors import CommandError, NoAnswerError
from pgdb.merge.answer import EquivalenceClass, Missing
from pgdb.merge.graph import to_networkx
from pgdb.ranks import RankSet
from pgdb.records import Failure, Record, Value

if TYPE_CHECKING:
    import networkx


@dataclass(frozen=True, slots=True)
class Answer:
    """The merged answer of some ranks to one command.

    Every rank that was asked is in exactly one class or in :attr:`missing`.
    """

    command: str
    """The command, as a user would type it."""
    ranks: RankSet
    """The ranks that were asked."""
    classes: tuple[EquivalenceClass[Record], ...]
    """Who said what, least rank first."""
    missing: Missing = field(default_factory=Missing)
    """Who said nothing, and why."""
    request_id: int = 0
    elapsed_s: float = 0.0
    told: bool = False
    """Whether its stops have been told as events, so that they need not be shown again."""

    may_run: bool = False
    """Whether ranks that still run are no failure, since nobody wanted to wait for them all."""

    def __iter__(self) -> Iterator[EquivalenceClass[Record]]:
        return iter(self.classes)

    def for_rank(self, rank: int) -> Record:
        """Return what one rank said.

        :raises NoAnswerError: if it said nothing.
        """
        for each in self.classes:
            if rank in each.ranks:
                return each.filled
        raise NoAnswerError(f"rank {rank} has not answered '{self.command}'")

    @property
    def errors(self) -> tuple[EquivalenceClass[Record], ...]:
        """The classes on whose ranks the command failed."""
        return tuple(each for each in self.classes if each.is_error)

    @property
    def ok(self) -> bool:
        """Whether all ranks that were asked have answered, and none with an error."""
        return not self.errors and not self.missing

    @property
    def values(self) -> dict[int, int | float | str]:
        """The value of each rank that has one: a number where its text is one."""
        found: dict[int, int | float | str] = {}
        for each in self.classes:
            record = each.filled
            if isinstance(record, Value):
                number = record.number
                for rank in each.ranks:
                    found[rank] = record.text if number is None else number
        return dict(sorted(found.items()))

    def check(self) -> Answer:
        """Return this answer.

        :raises CommandError: if the command failed on some rank; its message says on which.
        :raises NoAnswerError: if some rank has not answered.
        """
        for each in self.errors:
            assert isinstance(each.record, Failure)
            raise CommandError(f"'{self.command}' failed on [{each.ranks}]: {each.record.message}")
        if self.missing:
            raise NoAnswerError(f"'{self.command}': no answer from [{self.missing.ranks}]")
        return self

    def graph(self) -> networkx.DiGraph[Any]:
        """Return the answer graph, for analysis and export; see :func:`to_networkx`."""
        return to_networkx(self.classes)
