"""The transport over a recording: the answers of a session that has ended.

An operation is looked up that a live session would have sent. All that is made of answers (trees,
comparisons, checks, statistics) therefore works. The last answer to the same question counts.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence

from pgdb.errors import CommandError, NotRecordedError
from pgdb.frontend.analysis.full_answers import part_of
from pgdb.frontend.store.recorder import (
    Change,
    Exchange,
    check_changes_nothing,
    commands_of,
    key_of,
    listing,
)
from pgdb.frontend.store.recording_file import Loaded
from pgdb.frontend.transport.transport import Receiver, Transport
from pgdb.merge.classes import EquivalenceClass, Merger, Missing
from pgdb.overlay.messages import (
    AnyOperation,
    Delivered,
    InsertBreakpoint,
    Lost,
    Notice,
    Recall,
)
from pgdb.overlay.router import Gathered
from pgdb.proctable import ProcTable
from pgdb.ranks import RankSet
from pgdb.records import Failure, Record, Various

_MOST_NAMED = 12
"""Number of commands that an error lists; more are counted."""


class RecordingTransport:
    """The answers of a recording."""

    is_recorded = True
    when_closed = "the recording is closed"

    def __init__(self, loaded: Loaded, name: str) -> None:
        """Answer from *loaded*; messages call it *name*."""
        self._name = name
        self._file = loaded.file
        self._ranks = loaded.ranks
        self.stored_workspace = loaded.workspace
        """The workspace of the user interface that made the recording."""
        self._exchanges = loaded.exchanges
        self._of_key: dict[bytes, list[Exchange]] = {}
        for exchange in loaded.exchanges:
            self._of_key.setdefault(key_of(exchange.operation), []).append(exchange)
        self._runs, self._moves = loaded.runs, loaded.moves
        self._numbers = {
            (answer.command, answer.request_id): number
            for number, answer in loaded.workspace.history
        }
        # A recall of an answer that was put together from several looks into each of them.
        self._origins: dict[int, list[tuple[RankSet, int]]] = {}
        self._last_id = 1 + max((each.answer.request_id for each in loaded.exchanges), default=0)
        self._receiver: Receiver | None = None

    # -- description -------------------------------------------------------------------------

    @property
    def deliveries(self) -> tuple[Delivered, ...]:
        """The work of each node for the ranks' files."""
        return self._file.deliveries

    @property
    def aggregators(self) -> int:
        """Number of aggregators that the session had."""
        return self._file.aggregators

    @property
    def commands(self) -> tuple[str, ...]:
        """The commands that have an answer, as typed, each once, in the order of the first time."""
        return commands_of(self._exchanges)

    def describe(self, *, whole: bool = False) -> str:
        """Describe the recording: its job, its time, its first commands, or with *whole* all."""
        file = self._file
        when = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(file.saved_s))
        lines = [
            f"recording {self._name} of {when}, PGDB {file.pgdb}: "
            f"{file.description or 'a job without a name'}",
        ]
        listed = listing(self._exchanges, self._ranks) if whole else []
        lines += (
            ["it has the answers to:", *listed] if listed else [f"it has {self._what_it_has()}"]
        )
        if file.is_unfinished:
            lines.append(
                "its session has ended suddenly, or still goes on: the last moments, and what "
                "answers kept back, can be missing"
            )
        if file.forgotten:
            lines.append(f"{file.forgotten} answers are not in it: they found no room")
        return "\n".join(lines)

    # -- the transport -----------------------------------------------------------------------

    def subscribe(self, receiver: Receiver) -> None:
        """Send remarks to *receiver*."""
        self._receiver = receiver

    def next_id(self) -> int:
        """Return 0: the recording numbers its answers."""
        return 0

    async def ask(
        self,
        request_id: int,
        ranks: RankSet,
        operation: AnyOperation,
        timeout_s: float,
        command: str,
        *,
        of_ended: bool = False,
    ) -> Gathered:
        """Look up the answers of *ranks*.

        Ranks that were not asked this are errors in the answer.

        :raises NotRecordedError: if no rank was asked this.
        :raises CommandError: if the operation would change the job.
        """
        del request_id, timeout_s, of_ended
        if isinstance(operation, InsertBreakpoint):
            raise CommandError(f"'{command}' needs the job, and this is a recording of it")
        wanted = check_changes_nothing(operation, command)
        if isinstance(wanted, Recall):
            return self._recall(wanted.request_id, ranks)
        known = [
            each
            for each in self._of_key.get(key_of(wanted), ())
            if not each.answer.ranks.isdisjoint(ranks)
        ]
        if not known:
            for_others = key_of(wanted) in self._of_key
            raise NotRecordedError(command, self._why_not(for_others=for_others))
        used, left = _latest(known, ranks)
        classes = [each for exchange, part in used for each in part_of(exchange.answer, part)]
        missing = Missing()
        for exchange, part in used:
            missing |= part_of(exchange.answer, part).missing
        if left:
            where = RankSet.union(each.answer.ranks for each in known)
            message = f"not in the recording: it was asked of [{where}] only"
            classes.append(EquivalenceClass(ranks=left, record=Failure(message=message)))
        self._remark(command, wanted, known, used)
        number = used[0][0].answer.request_id
        if len(used) > 1:
            self._last_id += 1
            number = self._last_id
            self._origins[number] = [(part, each.answer.request_id) for each, part in used]
        return Gathered(
            number,
            _merged(classes) if len(used) > 1 or left else tuple(classes),
            missing,
            elapsed_s=max(each.answer.elapsed_s for each, _ in used),
        )

    @property
    def out_of_reach(self) -> RankSet:
        """No ranks."""
        return RankSet()

    @property
    def unacquired(self) -> RankSet:
        """No ranks."""
        return RankSet()

    async def restore(self, ranks: RankSet, table: ProcTable) -> tuple[tuple[RankSet, str], ...]:
        """Do nothing: there is no job."""
        del ranks, table
        return ()

    def describe_loss(self, lost: Lost, ranks: RankSet) -> tuple[tuple[RankSet, str], ...]:
        """Return the reason for *ranks*."""
        return ((ranks, lost.why),)

    def ask_states(self) -> None:
        """Do nothing: the states are in the recording."""

    async def close(self) -> None:
        """Do nothing: there is no process."""

    def _recall(self, request_id: int, ranks: RankSet) -> Gathered:
        """Return the full answers of some ranks to a request, or else the known parts of them."""
        classes: list[EquivalenceClass[Record]] = []
        unknown = RankSet()
        for members, origin in self._origins.get(request_id, [(ranks, request_id)]):
            part = members & ranks
            known = self._of_key.get(key_of(Recall(request_id=origin)), ())
            used, left = _latest(known, part)
            for exchange, share in used:
                answer = part_of(exchange.answer, share)
                classes += answer.classes
                left |= share & answer.missing.ranks
            if left:
                unknown |= left
                classes += self._as_it_came(origin, left)
        there = RankSet.union(each.ranks for each in classes)
        unknown = unknown & there
        if unknown:
            text = f"[{unknown}] what differs here was not recorded; it shows as it came"
            self._note(text)
        return Gathered(
            request_id,
            tuple(sorted(classes, key=lambda each: each.ranks.first)),
            Missing(lost=ranks - there),
            elapsed_s=0.0,
        )

    def _as_it_came(self, request_id: int, ranks: RankSet) -> Sequence[EquivalenceClass[Record]]:
        answers = [answer for _, answer in self.stored_workspace.history]
        answers += [
            each.answer for each in self._exchanges if not isinstance(each.operation, Recall)
        ]
        for answer in answers:
            if answer.request_id == request_id:
                # A summed-up class holds nothing that could be shown for one rank.
                classes = part_of(answer, ranks).classes
                return [each for each in classes if not isinstance(each.record, Various)]
        return ()

    # -- words -------------------------------------------------------------------------------

    def _what_it_has(self) -> str:
        commands = self.commands
        named = ", ".join(commands[:_MOST_NAMED])
        if not commands:
            return "no answers, only where the ranks are ('ranks')"
        more = f" and {len(commands) - _MOST_NAMED} more" if len(commands) > _MOST_NAMED else ""
        return f"{named}{more}"

    def _why_not(self, *, for_others: bool) -> str:
        if for_others:
            return "is in the recording for other ranks only; 'session' lists it"
        return f"is not in the recording; it has {self._what_it_has()}"

    def _remark(
        self,
        command: str,
        operation: AnyOperation,
        known: Sequence[Exchange],
        used: Sequence[tuple[Exchange, RankSet]],
    ) -> None:
        """Send a remark when an answer is older than the last run, or one of several."""
        remarks = []
        changes = self._runs
        if operation.uses_frame:
            changes = (*changes, *self._moves)
        for change in _changes_since(changes, used):
            remarks.append(f"[{change.ranks}] were asked before '{change.command}'")
        others = [each for each in known if each not in [one for one, _ in used]]
        shown = [one.answer.classes for one, _ in used]
        numbers = [self._number(each) for each in others if each.answer.classes not in shown]
        if earlier := [f"'expand {number}'" for number in numbers if number]:
            remarks.append(f"there was another answer before: {', '.join(earlier[-3:])}")
        if remarks:
            self._note(f"'{command}': {'; '.join(remarks)}")

    def _number(self, exchange: Exchange) -> int:
        answer = exchange.answer
        return self._numbers.get((answer.command, answer.request_id), 0)

    def _note(self, text: str) -> None:
        if self._receiver is not None:
            self._receiver.on_notice(Notice(text=text, hosts=()))


def recording_of(transport: Transport) -> RecordingTransport | None:
    """Return *transport* if it is a recording, else None."""
    return transport if isinstance(transport, RecordingTransport) else None


def _latest(
    exchanges: Iterable[Exchange], ranks: RankSet
) -> tuple[list[tuple[Exchange, RankSet]], RankSet]:
    """Return the last exchange for each of *ranks*, the latest first, and the ranks without one."""
    used = []
    for exchange in reversed(tuple(exchanges)):
        if part := ranks & exchange.answer.ranks:
            used.append((exchange, part))
            ranks = ranks - part
    return used, ranks


def _changes_since(
    changes: Iterable[Change], used: Sequence[tuple[Exchange, RankSet]]
) -> list[Change]:
    """Return the changes after which the answers are out of date, with their ranks."""
    found = []
    for change in changes:
        stale = [part for each, part in used if each.sequence < change.sequence]
        if ranks := RankSet.union(stale) & change.ranks:
            found.append(Change(change.sequence, change.command, ranks))
    return found


def _merged(
    classes: Iterable[EquivalenceClass[Record]],
) -> tuple[EquivalenceClass[Record], ...]:
    merger: Merger[Record] = Merger()
    merger.add_classes(classes)
    return merger.classes
