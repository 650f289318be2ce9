"""Make a recording of a session: fetch what ``expand`` would show, and write it all to a file."""

from __future__ import annotations

import asyncio
import contextlib
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from pgdb.errors import PgdbError
from pgdb.frontend.answers import Answer
from pgdb.frontend.recording import recordfile
from pgdb.frontend.recording.recorder import ShellState, commands_of
from pgdb.frontend.recording.recordfile import Answers, Recording, States, StoredName, StoredNumber
from pgdb.merge.answer import MOST_DISTINCT, EquivalenceClass
from pgdb.merge.masking import DIFFERENT_SLOT
from pgdb.overlay.messages import Recall, Reduce
from pgdb.ranks import RankSet
from pgdb.records import Exit, Record, Running, Stop, Various
from pgdb.version import __version__

if TYPE_CHECKING:
    from pgdb.frontend.session import Session

FETCH_TIMEOUT_S = 20.0
"""Longest time for what answers have kept back; then they are written as they came."""


@dataclass(frozen=True, slots=True)
class Written:
    """A recording that was written."""

    path: Path
    size_bytes: int
    commands: tuple[str, ...]
    """What it answers, as it was typed, each once."""
    forgotten: int
    """Answers that the session's memory had no room for."""

    @property
    def text(self) -> str:
        """The same in words."""
        count = len(self.commands)
        lines = [
            f"{self.path}: {max(1, self.size_bytes >> 10)} KiB, "
            f"{count} {'command' if count == 1 else 'commands'} and their answers; "
            f"'pgdb replay {self.path}' opens it"
        ]
        if not count:
            lines.append("nothing was asked yet: 'bt' or 'tree' before it makes it worth more")
        if self.forgotten:
            lines.append(f"{self.forgotten} older answers are not in it: they found no room")
        return "\n".join(lines)


def kept_back(answer: Answer) -> RankSet:
    """Return the ranks that have said more than the answer holds."""
    return RankSet.union(each.ranks for each in answer.classes if is_kept_back(each))


def is_kept_back(each: EquivalenceClass[Record]) -> bool:
    """Return whether the ranks of a class have said more than came with it."""
    if isinstance(each.record, Stop | Exit | Running):
        return False  # told as an event, of which the leaves keep nothing
    return isinstance(each.record, Various) or DIFFERENT_SLOT in each.slots


async def save(session: Session, path: Path) -> Written:
    """Write a recording of *session* to a file.

    :raises CommandError: if it cannot be written.
    """
    path = path.expanduser()
    recordfile.check_place(path)
    if not session.has_ended:
        await _fetch(session)
    recorder = session.recorder
    describe = recorder.describe_shell
    shell = describe() if describe is not None else ShellState(focus=session.set)
    answers = Answers()
    exchanges = recorder.exchanges
    history = shell.history
    if describe is None:
        # A program has no numbered answers of its own.
        asked = [each for each in exchanges if not isinstance(each.operation, Recall)]
        history = tuple((number, each.answer) for number, each in enumerate(asked, 1))
    state = session.state
    recording = Recording(
        pgdb=__version__,
        begun_s=recorder.begun_s,
        saved_s=time.time(),
        mode=session.mode,
        description=session.description,
        gdb=session.gdb_version,
        mpi=session.mpi_version,
        source=session.table.source,
        aggregators=session.aggregators,
        fan_out=session.options.fan_out,
        compare_pointers="raw" if session.options.compare_pointers == "raw" else "symbol",
        last_breakpoint=session.last_breakpoint,
        table=recordfile.store_table(session.table.only(session.set)),
        states=States(
            stopped=state.stopped,
            running=state.running,
            exited=state.exited,
            lost=state.lost,
            detached=state.detached,
            latest=state.latest(session.set),
        ),
        sets=dict(session.sets),
        numbered_sets=session.numbered_sets,
        focus=shell.focus,
        deliveries=session.deliveries,
        exchanges=recordfile.store_exchanges(exchanges, answers),
        runs=recordfile.store_changes(recorder.runs),
        moves=recordfile.store_changes(recorder.moves),
        history=tuple(
            StoredNumber(number=number, answer=answers.put(answer)) for number, answer in history
        ),
        names=tuple(
            StoredName(
                name=each.name,
                answer=answers.put(each.answer),
                time_s=each.time_s,
                job=each.job,
            )
            for each in shell.saved
        ),
        answers=tuple(answers.stored),
        forgotten=recorder.forgotten,
    )
    # Packing some MB takes a moment, in which ranks may tell something.
    size_bytes = await asyncio.to_thread(recordfile.write, recording, path)
    return Written(path, size_bytes, commands_of(exchanges), recorder.forgotten)


async def _fetch(session: Session) -> None:
    """Ask for what answers have kept back, so that it is in the recording.

    Of each answer for as many ranks as ``expand`` shows at a time; what the aggregators have
    forgotten stays as it came.
    """
    exchanges = session.recorder.exchanges
    there: dict[int, RankSet] = {}
    for each in exchanges:
        if isinstance(each.operation, Recall):
            known = there.get(each.operation.request_id, RankSet())
            there[each.operation.request_id] = known | each.answer.ranks
    with contextlib.suppress(TimeoutError, PgdbError):
        async with asyncio.timeout(FETCH_TIMEOUT_S):
            for each in reversed(exchanges):  # the last ones matter most
                if isinstance(each.operation, Recall | Reduce):
                    continue  # of a sum nothing more is kept
                ranks = kept_back(each.answer)
                page = RankSet(list(ranks)[:MOST_DISTINCT])
                wanted = page & session.state.live - there.get(each.answer.request_id, RankSet())
                if wanted:
                    await session.recall(each.answer, wanted, timeout_s=FETCH_TIMEOUT_S)
