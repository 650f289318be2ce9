"""A session without a job: what a recording holds, asked as the job was asked.

Whatever is asked of ranks goes through :meth:`Session.ask`, so that here an operation is looked
up which the live session would have sent: all that is made of answers (trees, comparisons, checks,
statistics) works as it did. Of what was asked several times the last answer counts.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from pathlib import Path

from pgdb.errors import CommandError, NotRecordedError, SessionEndedError
from pgdb.frontend.analysis.answers import Answer
from pgdb.frontend.analysis.full_answers import part_of
from pgdb.frontend.api.job_state import JobState
from pgdb.frontend.api.notifications import Listener
from pgdb.frontend.api.options import SessionOptions
from pgdb.frontend.api.session import Session
from pgdb.frontend.startup.session_directory import SessionDirectory
from pgdb.frontend.store import recording_file
from pgdb.frontend.store.recorder import (
    Change,
    Exchange,
    WorkspaceState,
    check_changes_nothing,
    commands_of,
    key_of,
    listing,
)
from pgdb.frontend.store.recording_file import Loaded
from pgdb.frontend.system.user_files import user_path
from pgdb.merge.classes import EquivalenceClass, Merger, Missing
from pgdb.overlay.messages import (
    AnyOperation,
    Delivered,
    Recall,
)
from pgdb.ranks import RankSet
from pgdb.records import Exit, Failure, Record, Stop, Various

_MOST_NAMED = 12
"""More commands are counted in an error."""


class RecordedSession(Session):
    """A session that answers from a recording; made by :func:`replay`."""

    is_recorded = True

    def __init__(self, loaded: Loaded, name: str) -> None:
        """Open a recording; *name* is what messages call it."""
        file = loaded.file
        options = SessionOptions(
            fan_out=max(1, file.fan_out), compare_pointers=file.compare_pointers
        )
        super().__init__(file.mode, options, SessionDirectory())
        self._name = name
        self._file = file
        self.table = loaded.table
        self.description = file.description
        self.mpi_version = file.mpi
        self.gdb_version = file.gdb
        self.state = _state(loaded)
        self.sets = dict(file.sets)
        self._next_breakpoint = file.last_breakpoint + 1
        self._notifier.release()
        self.start_answer = Answer(
            command="replay",
            ranks=self.set,
            classes=tuple(
                EquivalenceClass[Record](ranks=each.ranks, record=each.record, slots=each.slots)
                for each in self.state.latest(self.state.stopped | self.state.exited)
                if isinstance(each.record, Stop | Exit)
            ),
        )
        self.stored_workspace: WorkspaceState = loaded.workspace
        """The workspace that the recording holds."""
        self._exchanges = loaded.exchanges
        self._of_key: dict[bytes, list[Exchange]] = {}
        for exchange in loaded.exchanges:
            self._of_key.setdefault(key_of(exchange.operation), []).append(exchange)
        self._runs, self._moves = loaded.runs, loaded.moves
        self._numbers = {
            (answer.command, answer.request_id): number
            for number, answer in loaded.workspace.history
        }
        # An answer that is put together from several is recalled from those.
        self._origins: dict[int, list[tuple[RankSet, int]]] = {}
        self._last_id = 1 + max((each.answer.request_id for each in loaded.exchanges), default=0)

    @property
    def kills_at_close(self) -> bool:
        """Never: there is no job."""
        return False

    @property
    def deliveries(self) -> tuple[Delivered, ...]:
        """What bringing the ranks' files to the hosts had cost each node."""
        return self._file.deliveries

    @property
    def aggregators(self) -> int:
        """Number of aggregators that the session had."""
        return self._file.aggregators

    @property
    def commands(self) -> tuple[str, ...]:
        """What can be asked, as it was typed, each once, in the order of the first time."""
        return commands_of(self._exchanges)

    def describe(self, *, whole: bool = False) -> str:
        """Return in words what this is a recording of, and what it has: of many commands the first,
        or the *whole*."""
        file = self._file
        when = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(file.saved_s))
        lines = [
            f"recording {self._name} of {when}, PGDB {file.pgdb}: "
            f"{file.description or 'a job without a name'}",
        ]
        listed = listing(self._exchanges, self.set) if whole else []
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

    # -- asking ------------------------------------------------------------------------------

    async def ask(
        self,
        command: str,
        operation: AnyOperation,
        ranks: RankSet,
        *,
        timeout_s: float | None = None,
        request_id: int | None = None,
        reachable: RankSet | None = None,
        is_again: bool = False,
    ) -> Answer:
        """Look up what *ranks* have answered.

        Ranks that this was not asked of are errors in the answer.

        :raises NotRecordedError: if it is not in the recording.
        :raises CommandError: if it would change the job.
        :raises SessionEndedError: if the session was closed.
        """
        del timeout_s, request_id, reachable, is_again
        if self.has_ended:
            raise SessionEndedError("the recording is closed")
        wanted = check_changes_nothing(operation, command)
        if isinstance(wanted, Recall):
            return self._recall(command, wanted.request_id, ranks)
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
        return Answer(
            command=command,
            ranks=ranks,
            classes=_merged(classes) if len(used) > 1 or left else tuple(classes),
            missing=missing,
            request_id=number,
            elapsed_s=max(each.answer.elapsed_s for each, _ in used),
        )

    async def _start(
        self, line: str, operation: AnyOperation, ranks: RankSet, timeout_s: float | None
    ) -> Answer:
        del ranks, timeout_s
        check_changes_nothing(operation, line)
        raise AssertionError("what sets ranks running changes the job")

    async def insert_breakpoint(
        self, line: str, ranks: RankSet, *, timeout_s: float | None = None
    ) -> Answer:
        """Refuse.

        :raises CommandError: always; there is no job to set breakpoints in.
        """
        del ranks, timeout_s
        raise CommandError(f"'{line}' needs the job, and this is a recording of it")

    async def wait_stopped(
        self,
        command: str,
        ranks: RankSet,
        *,
        timeout_s: float | None = None,
        settle_s: float | None = None,
    ) -> Answer:
        """Return where *ranks* had stopped.

        :raises CommandError: if some of them ran: they will never stop.
        """
        if running := ranks & self.state.running:
            raise CommandError(
                f"'{command}' needs the job, and this is a recording of it; [{running}] ran when "
                "it was written"
            )
        return await super().wait_stopped(command, ranks, timeout_s=timeout_s, settle_s=settle_s)

    async def close(self, *, kill: bool | None = None) -> None:
        """Close the recording; there is no job to be ended."""
        del kill
        if not self._is_over:
            self._is_over = True
            self.directory.remove()

    def _recall(self, command: str, request_id: int, ranks: RankSet) -> Answer:
        """Return what some ranks had said to a request in full, or else what is known of it."""
        classes: list[EquivalenceClass[Record]] = []
        unknown = RankSet()
        for members, origin in self._origins.get(request_id, [(ranks, request_id)]):
            part = members & ranks
            known = self._of_key.get(key_of(Recall(request_id=origin)), ())
            used, left = _latest(known, part)
            for exchange, told in used:
                answer = part_of(exchange.answer, told)
                classes += answer.classes
                left |= told & answer.missing.ranks
            if left:
                unknown |= left
                classes += self._as_it_came(origin, left)
        there = RankSet.union(each.ranks for each in classes)
        unknown = unknown & there
        if unknown:
            text = f"[{unknown}] what differs here was not recorded; it shows as it came"
            self.note(text)
        return Answer(
            command=command,
            ranks=ranks,
            classes=tuple(sorted(classes, key=lambda each: each.ranks.first)),
            missing=Missing(lost=ranks - there),
            request_id=request_id,
        )

    def _as_it_came(self, request_id: int, ranks: RankSet) -> Sequence[EquivalenceClass[Record]]:
        answers = [answer for _, answer in self.stored_workspace.history]
        answers += [
            each.answer for each in self._exchanges if not isinstance(each.operation, Recall)
        ]
        for answer in answers:
            if answer.request_id == request_id:
                # Of what was summed up there is nothing that could be shown for one rank.
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
        """Tell what the user should know of an answer: that it is old, or one of several."""
        remarks = []
        changes = self._runs
        if operation.uses_frame:
            changes = (*changes, *self._moves)
        for change in _changes_since(changes, used):
            remarks.append(f"[{change.ranks}] were asked before '{change.command}'")
        others = [each for each in known if each not in [one for one, _ in used]]
        told = [one.answer.classes for one, _ in used]
        numbers = [self._number(each) for each in others if each.answer.classes not in told]
        if earlier := [f"'expand {number}'" for number in numbers if number]:
            remarks.append(f"there was another answer before: {', '.join(earlier[-3:])}")
        if remarks:
            self.note(f"'{command}': {'; '.join(remarks)}")

    def _number(self, exchange: Exchange) -> int:
        answer = exchange.answer
        return self._numbers.get((answer.command, answer.request_id), 0)


def _state(loaded: Loaded) -> JobState:
    states = loaded.file.states
    state = JobState(loaded.ranks)
    state.apply(states.latest)
    # What ranks had told last is not all that they did after that.
    for name in ("stopped", "running", "exited", "lost", "detached"):
        setattr(state, name, getattr(states, name))
    return state


def _latest(
    exchanges: Iterable[Exchange], ranks: RankSet
) -> tuple[list[tuple[Exchange, RankSet]], RankSet]:
    """Return the last exchange for each of *ranks*, the latest first, and who is in none."""
    used = []
    for exchange in reversed(tuple(exchanges)):
        if part := ranks & exchange.answer.ranks:
            used.append((exchange, part))
            ranks = ranks - part
    return used, ranks


def _changes_since(
    changes: Iterable[Change], used: Sequence[tuple[Exchange, RankSet]]
) -> list[Change]:
    """Return what has made the answers out of date, for the ranks that it has."""
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


async def replay(path: Path | str, *, listener: Listener | None = None) -> RecordedSession:
    """Open a recording; *listener* is told what the session tells unasked.

    :raises CommandError: if the file cannot be read, or is no recording.
    """
    path = user_path(path)
    session = RecordedSession(recording_file.read(path), path.name)
    if listener is not None:
        session.subscribe(listener)
    return session
