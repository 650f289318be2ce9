"""Recording a session: fetch the data that ``expand`` would show, and write the file."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import shlex
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from pgdb.errors import PgdbError
from pgdb.frontend.analysis.full_answers import kept_back
from pgdb.frontend.store import recording_file
from pgdb.frontend.store.recorder import WorkspaceState, commands_of
from pgdb.frontend.store.recording_file import Answers, Recording, States, StoredName, StoredNumber
from pgdb.frontend.system import deadline
from pgdb.frontend.system.user_files import user_path
from pgdb.frontend.system.workers import with_file
from pgdb.merge.classes import MOST_DISTINCT
from pgdb.overlay.messages import Recall
from pgdb.ranks import RankSet
from pgdb.sizes import whole_size
from pgdb.version import __version__

if TYPE_CHECKING:
    from pgdb.frontend.api.session import Session

LOG = logging.getLogger(__name__)

FETCH_TIMEOUT_S = 20.0
"""Longest time for the fetch of full answers; after it, answers are written as they came."""
STEP_LEAST_S = 0.5
"""Shortest time between two autosaves of an unfinished recording."""
STEP_SHARE = 0.05
"""Largest share of a session's time for autosaves, which a thread beside the session makes."""


class Written(msgspec.Struct, frozen=True):
    """A recording that was written."""

    path: Path
    size_bytes: int
    commands: tuple[str, ...]
    """The commands that it answers, as typed, each once."""
    forgotten: int
    """Number of answers without room in the session's memory."""

    @property
    def text(self) -> str:
        """A report for the user."""
        count = len(self.commands)
        asked = "1 command and its answer" if count == 1 else f"{count} commands and their answers"
        lines = [
            f"{self.path}: {whole_size(self.size_bytes)}, {asked}; "
            f"to open it: pgdb replay {_as_argument(self.path)}"
        ]
        if not count:
            lines.append("nothing was asked yet: 'bt' or 'tree' before it makes it worth more")
        if self.forgotten:
            lines.append(f"{self.forgotten} older answers are not in it: they found no room")
        return "\n".join(lines)


def _as_argument(path: Path) -> str:
    """Return a path as one word for a shell, which no program reads as an option."""
    text = str(path)
    return shlex.quote(f"./{text}" if text.startswith("-") else text)


async def save(session: Session, path: Path) -> Written:
    """Write a recording of *session* to a file.

    :raises CommandError: if it cannot be written.
    """
    path = user_path(path)
    await with_file(path, lambda: recording_file.check_place(path))
    if not session.has_ended:
        await _fetch(session)
    exchanges = session.recorder.exchanges
    pack = _collect(session, is_unfinished=False)
    # Encoding some MB takes a moment, in which events may come.
    size_bytes = await with_file(path, lambda: recording_file.write(pack(), path))
    return Written(path, size_bytes, commands_of(exchanges), session.recorder.forgotten)


class Autosave:
    """Saver of ``--record``'s file while the session lasts, because the session may be killed.

    Soon after a new answer or event, a thread replaces the whole file. It has everything but the
    data that is fetched at the end. An autosave takes longer the more was asked; the next one waits
    until autosaves take at most :data:`STEP_SHARE` of the session's time.
    """

    def __init__(self, session: Session, path: Path) -> None:
        """Write to *path*."""
        self._session = session
        self._path = user_path(path)
        self._is_due = False
        self._next_s = 0.0
        self._closed = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self.failure = ""
        """The reason why it cannot be written, as reported to the user; empty if it can."""

    def due(self) -> None:
        """Note that there is something new."""
        self._is_due = True
        if self._task is None and not self._closed.is_set() and not self.failure:
            self._task = asyncio.create_task(self._run())

    async def close(self) -> None:
        """Make no more autosaves; return when none is in progress."""
        self._closed.set()
        if self._task is not None:
            await self._task

    async def _run(self) -> None:
        while self._is_due and not self.failure:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(max(0.0, self._next_s - time.monotonic())):
                    await self._closed.wait()
            if self._closed.is_set():
                break
            self._is_due = False
            begun_s = time.monotonic()
            await self._write()
            now_s = time.monotonic()
            self._next_s = now_s + max(STEP_LEAST_S, (now_s - begun_s) * (1 / STEP_SHARE - 1))
        self._task = None

    async def _write(self) -> None:
        pack = _collect(self._session, is_unfinished=True)
        try:
            # The autosave may run within a command, and must not use the command's time.
            with deadline.unlimited():
                await with_file(self._path, lambda: recording_file.write(pack(), self._path))
        except PgdbError as error:
            self.failure = f"--record: {error}"
            self._session.note(self.failure)
        except Exception:
            # After any error the session must go on; its end tries once more.
            self.failure = "--record: it cannot be written, see the log"
            LOG.exception("the recording could not be written")


def _collect(session: Session, *, is_unfinished: bool) -> Callable[[], Recording]:
    """Return a function that makes the recording of the session as it is now, in any thread."""
    recorder, state = session.recorder, session.state
    exchanges, runs, moves = recorder.exchanges, recorder.runs, recorder.moves
    describe = recorder.describe_workspace
    workspace = describe() if describe is not None else WorkspaceState(focus=session.set)
    history = workspace.history
    if describe is None:
        # A program has no numbered answers of its own.
        asked = [each for each in exchanges if not isinstance(each.operation, Recall)]
        history = tuple((number, each.answer) for number, each in enumerate(asked, 1))
    states = States(
        stopped=state.stopped,
        running=state.running,
        exited=state.exited,
        lost=state.lost,
        detached=state.detached,
        latest=state.latest(session.set),
    )
    table, ranks, saved_s = session.table, session.set, time.time()
    sets, deliveries = {**session.sets, **workspace.sets}, session.deliveries
    aggregators, last_breakpoint = session.aggregators, session.last_breakpoint
    forgotten = recorder.forgotten

    def pack() -> Recording:
        answers = Answers()
        return Recording(
            pgdb=__version__,
            begun_s=recorder.begun_s,
            saved_s=saved_s,
            mode=session.mode,
            description=session.description,
            gdb=session.gdb_version,
            mpi=session.mpi_version,
            source=table.source,
            aggregators=aggregators,
            fan_out=session.options.fan_out,
            compare_pointers="raw" if session.options.compare_pointers == "raw" else "symbol",
            last_breakpoint=last_breakpoint,
            table=recording_file.store_table(table.only(ranks)),
            states=states,
            sets=sets,
            numbered_sets=workspace.numbered_sets,
            focus=workspace.focus,
            deliveries=deliveries,
            exchanges=recording_file.store_exchanges(exchanges, answers),
            runs=recording_file.store_changes(runs),
            moves=recording_file.store_changes(moves),
            history=tuple(
                StoredNumber(number=number, answer=answers.put(answer))
                for number, answer in history
            ),
            names=tuple(
                StoredName(
                    name=each.name,
                    answer=answers.put(each.answer),
                    time_s=each.time_s,
                    job=each.job,
                )
                for each in workspace.saved
            ),
            answers=tuple(answers.stored),
            forgotten=forgotten,
            is_unfinished=is_unfinished,
        )

    return pack


async def _fetch(session: Session) -> None:
    """Fetch the full answers, so that the recording has them.

    Of each answer, the fetch covers as many ranks as ``expand`` shows at a time. Answers that the
    aggregators have dropped stay as they came.
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
                if not each.operation.keeps_answer:
                    continue
                ranks = kept_back(each.answer)
                page = RankSet(list(ranks)[:MOST_DISTINCT])
                wanted = page & session.state.live - there.get(each.answer.request_id, RankSet())
                if wanted:
                    await session.recall(each.answer, wanted, timeout_s=FETCH_TIMEOUT_S)
