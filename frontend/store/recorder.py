"""Requests and their answers, kept in memory for a recording. No I/O.

A workspace mostly keeps the same answers, so that this costs little. When there are too many, the
oldest answers to the most frequent request are dropped first.
"""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple

import msgspec
from msgspec.structs import replace

from pgdb.errors import CommandError
from pgdb.frontend.analysis.answers import Answer
from pgdb.frontend.analysis.saved import Saved
from pgdb.frontend.api import gdb_commands
from pgdb.overlay import messages
from pgdb.overlay.messages import AnyOperation, RecordedOperation
from pgdb.ranks import RankSet

MOST_EXCHANGES = 1000
MOST_BYTES = 64 << 20
"""Approximate limit for the size of all kept answers together."""

_MOVING = ("thread", "frame", "up", "down", "select-frame", "up-silently", "down-silently")


class Exchange(msgspec.Struct, frozen=True):
    """A request and its answer."""

    sequence: int
    """Position among all requests and changes of the session."""
    operation: RecordedOperation
    answer: Answer
    time_s: float
    """Time of the answer, in seconds since 1970."""
    occasion: int = 0
    """Number of this occasion among those of the same request, from 1 on; 0 if it is unknown.

    Requests to ranks that have not run in between are one occasion, whoever they went to."""
    place: str = ""
    """The line at which all of the ranks had stopped, such as ``a.c:7``; empty for several."""


class _Occasion(msgspec.Struct):
    """The last occasion of a request."""

    number: int = 0
    asked: list[tuple[int, RankSet]] = []
    """The position of each request, and its ranks."""


class Compared(NamedTuple):
    """A comparison with a value of another recording."""

    number: int
    """Number of the value, from 1 on."""
    last_run: int
    """Position of the last command before it that has set ranks running."""


class Change(msgspec.Struct, frozen=True):
    """A command after which earlier answers of some ranks are out of date."""

    sequence: int
    command: str
    ranks: RankSet


class WorkspaceState(msgspec.Struct, frozen=True):
    """The part of a workspace that a recording holds."""

    focus: RankSet
    history: tuple[tuple[int, Answer], ...] = ()
    """The numbered answers, which ``expand`` shows."""
    saved: tuple[Saved, ...] = ()
    """The answers that ``save`` has kept."""
    sets: Mapping[str, RankSet] = {}
    """The sets that ``defset`` has defined."""
    numbered_sets: tuple[RankSet, ...] = ()
    """The sets ``@1``, ``@2`` …"""


class Recorder:
    """The answers of one session, as long as there is room."""

    def __init__(self, most_exchanges: int = MOST_EXCHANGES, most_bytes: int = MOST_BYTES) -> None:
        self._most_exchanges = most_exchanges
        self._most_bytes = most_bytes
        self._size_bytes = 0
        self._sequence = 0
        self._exchanges: OrderedDict[int, tuple[bytes, Exchange, int]] = OrderedDict()
        self._of_key: dict[bytes, list[int]] = {}
        self._occasions: dict[bytes, _Occasion] = {}
        self.begun_s = time.time()
        """Time at which the session began, in seconds since 1970."""
        self.compared: dict[tuple[str, str, str], Compared] = {}
        """The last comparison with another recording, by its path, expression and location."""
        self.forgotten = 0
        """Number of answers without room."""
        self.runs: tuple[Change, ...] = ()
        """The last command that has set each rank running, or stopped it."""
        self.moves: tuple[Change, ...] = ()
        """The last command that has selected another frame or thread on each rank."""
        self.describe_workspace: Callable[[], WorkspaceState] | None = None
        """Function that returns the workspace's state; None where no user interface has one."""

    @property
    def exchanges(self) -> tuple[Exchange, ...]:
        """The kept exchanges, the oldest first."""
        return tuple(exchange for _, exchange, _ in self._exchanges.values())

    @property
    def last_run(self) -> int:
        """Position of the last command that has set ranks running, or stopped them; 0 for none."""
        return max((each.sequence for each in self.runs), default=0)

    @property
    def commands(self) -> tuple[str, ...]:
        """The commands that a recording would answer, as typed, each once."""
        return commands_of(self.exchanges)

    def take(self, operation: AnyOperation, answer: Answer, place: str = "") -> None:
        """Keep a request and its answer.

        :param place: the line at which all of the ranks have stopped.
        """
        self._sequence += 1
        if operation.outdates_answers or operation.sets_running:
            self.runs = _changed(self.runs, Change(self._sequence, answer.command, answer.ranks))
            return
        if not isinstance(operation, RecordedOperation):
            return
        key = key_of(operation)
        occasion = self._occasion(key, answer.ranks)
        self._put(key, Exchange(self._sequence, operation, answer, time.time(), occasion, place))
        if isinstance(operation, messages.SelectFrame) or (
            isinstance(operation, messages.Console)
            and gdb_commands.resolve(operation.command) in _MOVING
        ):
            self.moves = _changed(self.moves, Change(self._sequence, answer.command, answer.ranks))

    def take_late(self, late: Answer) -> None:
        """Add answers that have come after their deadline."""
        for number, (key, exchange, size_bytes) in self._exchanges.items():
            answer = exchange.answer
            if answer.request_id != late.request_id:
                continue
            whole = answer.joined(late)
            added = late.size_bytes
            self._size_bytes += added
            self._exchanges[number] = (
                key,
                replace(exchange, answer=whole),
                size_bytes + added,
            )
            return

    def _occasion(self, key: bytes, ranks: RankSet) -> int:
        """Return the number of the occasion at which *ranks* are asked now."""
        last = self._occasions.setdefault(key, _Occasion())
        is_next = not last.number or any(
            not RankSet.union(run.ranks for run in self.runs if run.sequence > sequence).isdisjoint(
                asked & ranks
            )
            for sequence, asked in last.asked
        )
        if is_next:
            last.number += 1
            last.asked = []
        kept = [(sequence, left) for sequence, asked in last.asked if (left := asked - ranks)]
        last.asked = [*kept, (self._sequence, ranks)]
        return last.number

    def _put(self, key: bytes, exchange: Exchange) -> None:
        size_bytes = exchange.answer.size_bytes
        if size_bytes > self._most_bytes // 2:
            self.forgotten += 1
            return
        self._exchanges[exchange.sequence] = (key, exchange, size_bytes)
        self._of_key.setdefault(key, []).append(exchange.sequence)
        self._size_bytes += size_bytes
        while len(self._exchanges) > self._most_exchanges or self._size_bytes > self._most_bytes:
            self._forget()

    def _forget(self) -> None:
        numbers = max(self._of_key.values(), key=len)
        oldest = numbers[0] if len(numbers) > 1 else next(iter(self._exchanges))
        key, _, size_bytes = self._exchanges.pop(oldest)
        self._size_bytes -= size_bytes
        self._of_key[key].remove(oldest)
        if not self._of_key[key]:
            del self._of_key[key]
        self.forgotten += 1


def commands_of(exchanges: Iterable[Exchange]) -> tuple[str, ...]:
    """Return the commands of exchanges other than recalls, as typed, each once, oldest first."""
    asked = (
        each.answer.command for each in exchanges if not isinstance(each.operation, messages.Recall)
    )
    return tuple(dict.fromkeys(asked))


def listing(exchanges: Iterable[Exchange], ranks: RankSet) -> list[str]:
    """Return a line for each command, with the asked ranks unless these are all of *ranks*."""
    asked: dict[str, RankSet] = {}
    for each in exchanges:
        if not isinstance(each.operation, messages.Recall):
            command = each.answer.command
            asked[command] = asked.get(command, RankSet()) | each.answer.ranks
    return [
        f"  {command}" if of == ranks else f"  {command}  [{of}]" for command, of in asked.items()
    ]


def key_of(operation: RecordedOperation) -> bytes:
    """Return a key that is the same for all operations with the same meaning."""
    if isinstance(operation, messages.ReadBlock):
        operation = replace(operation, limit_bytes=0)
    elif isinstance(operation, messages.Reduce):
        operation = replace(operation, limit_bytes=0, of_look=0)
    elif isinstance(operation, messages.Evaluate):
        operation = replace(operation, limit_bytes=0, most_elements=0, keeps_history=False)
    elif isinstance(operation, messages.Console):
        command = " ".join(operation.command.split())
        operation = replace(operation, command=command)
    return msgspec.msgpack.encode(operation)


def check_changes_nothing(operation: AnyOperation, command: str) -> RecordedOperation:
    """Return *operation* if it does not change the job.

    :raises CommandError: if it would.
    """
    if isinstance(operation, RecordedOperation) and not operation.sets_running:
        return operation
    raise CommandError(
        f"'{command}' needs the job, and this is a recording of it; what can be asked is what "
        "was asked then: 'session' lists it"
    )


def _changed(changes: tuple[Change, ...], new: Change) -> tuple[Change, ...]:
    kept = [replace(each, ranks=left) for each in changes if (left := each.ranks - new.ranks)]
    return (*kept, new)
