"""The leaf end of an aggregator: the debuggers of its own ranks, and their answers."""

from __future__ import annotations

import asyncio
import functools
import logging
import os
import socket
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from pgdb.backend.node.answer_cache import AnswerCache
from pgdb.backend.node.collector import Collector
from pgdb.backend.node.number_summary import sum_up
from pgdb.backend.node.stack_answers import OnAnswer, StackAnswers, event_of, record_of
from pgdb.backend.node.value_digest import digested, digested_stop, digested_variables
from pgdb.backend.rank.protocol import (
    DebuggerFactory,
    FactoryContext,
    HasEndedError,
    NeedsStopError,
    OpenFactory,
    RankDebugger,
)
from pgdb.errors import DebuggerError
from pgdb.jobs import environment_scan, hold, procfs, rank_program
from pgdb.merge.classes import EquivalenceClass, Merger, Missing
from pgdb.merge.normalize import normalize_record
from pgdb.merge.record_visitor import is_long
from pgdb.merge.summary import Summary
from pgdb.overlay.executor import make
from pgdb.overlay.messages import (
    Acquire,
    Backtrace,
    Evaluate,
    Find,
    FoundRanks,
    ListVariables,
    Reattach,
    Recall,
    Reduce,
    Request,
    Setup,
    Share,
)
from pgdb.proctable import RankProcess
from pgdb.ranks import RankSet
from pgdb.records import (
    Event,
    Exit,
    Failure,
    Gone,
    Progress,
    Record,
    Stack,
    Stop,
    Text,
    Value,
    Variables,
)

if TYPE_CHECKING:
    from pgdb.files.delivery import Delivery

LOG = logging.getLogger(__name__)

_RELEASED_S = 1.0
"""Time for which an answer waits until a process that was paused is released, in seconds."""

DETACH_TIMEOUT_S = 6.0
"""Time that a computing debugger has at the end, of the 10 s in which all of ours must be gone."""
_ANSWER_TIMEOUT_S = 20.0
"""Time that a computing debugger has to answer before a new one replaces it."""

OnMissing = Callable[[int, Missing], None]
OnEvent = Callable[[RankSet, Event, tuple[str, ...]], None]


class Leaf:
    """The ranks of one aggregator, each with its debugger."""

    def __init__(
        self,
        *,
        open_factory: OpenFactory,
        on_answer: OnAnswer,
        on_missing: OnMissing,
        on_event: OnEvent,
        notice: Callable[[str], None],
    ) -> None:
        self._notice = notice
        self._open_factory = open_factory
        self._factory: DebuggerFactory | None = None
        self._on_answer = on_answer
        self._on_missing = on_missing
        self._on_event = on_event
        self._debuggers: dict[int, RankDebugger] = {}
        self._pids: dict[int, int] = {}
        self._single_sets: dict[int, RankSet] = {}
        self._held_ranks = RankSet()
        self._held: dict[int, int] = {}
        self._program = ""
        self._has_cores = False
        self._collector: Collector | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self._memory = AnswerCache()
        self._answers = StackAnswers(self._memory, on_answer)
        # Debuggers that read symbols all at once would only compete for the host's cores.
        self._starting = asyncio.Semaphore(max(2, 2 * (os.cpu_count() or 1)))
        self._alone = asyncio.Lock()
        self._is_starting_again = False

    async def find(self, find: Find, node: int) -> tuple[FoundRanks, ...]:
        """Find ranks of the job on this host; wait for held ranks."""
        if not find.mark:
            groups = await asyncio.to_thread(environment_scan.scan, find.selector)
            return tuple(_found(group.key, group.size, group.processes) for group in groups)
        self._collector = Collector(find.mark, find.shares[node], find.shares_per_host)
        self._collector.listen()
        held = self._held = await self._collector.wait_all()
        host = socket.gethostname()
        by_program: dict[str, list[RankProcess]] = {}
        for rank, pid in held.items():
            program = self._collector.programs[rank]
            process = RankProcess(rank=rank, host=host, pid=pid, executable=program)
            by_program.setdefault(program, []).append(process)
        return tuple(_found("", self._collector.job_size, each) for each in by_program.values())

    def setup(self, setup: Setup, share: Share, delivery: Delivery | None = None) -> None:
        """Make a debugger for each rank of *share*."""
        context = FactoryContext(
            setup=setup,
            rank_count=len(share.ranks),
            notify=self._notify,
            notice=self._notice,
            core_paths=setup.cores.paths if setup.cores is not None else {},
            delivery=delivery,
        )
        self._has_cores = setup.cores is not None
        factory = self._factory = self._open_factory(context)
        self._debuggers = {rank: factory.make(rank) for rank in share.ranks}
        self._pids = dict(zip(share.ranks, share.pids, strict=True))
        if setup.is_held:
            self._held_ranks = share.ranks
            for rank, pid in self._held.items():
                if rank not in self._pids:
                    hold.release(pid)
        self._program = setup.program

    def add(self, setup: Setup, share: Share) -> None:
        """Make a debugger for each rank of *share* that is new: of a further world, mostly."""
        pids = dict(zip(share.ranks, share.pids, strict=True)) if share.pids else {}
        new = RankSet(pids) - RankSet(self._pids)
        for rank in new:
            self._pids[rank] = pids[rank]
            self._debuggers[rank] = self._shared.make(rank)
        if setup.is_held:
            self._held_ranks |= new

    def ask(self, request: Request, ranks: RankSet) -> None:
        """Have *ranks* answer; each answer comes through the callbacks, in its own time."""
        if isinstance(request.operation, Acquire) and (running := ranks - self._held_ranks):
            self._shared.pause(self._pids[rank] for rank in running)
        for rank in ranks:
            self._keep(asyncio.create_task(self._answer(request, rank)))

    def states(self) -> tuple[EquivalenceClass[Event], ...]:
        """Return the current event of each rank, for a new parent."""
        merger: Merger[Event] = Merger()
        for rank, debugger in self._debuggers.items():
            event = debugger.current_event
            if event is not None:
                event = digested_stop(event) if isinstance(event, Stop) else event
                normalized = normalize_record(event, rank=rank)
                merger.add(RankSet([rank]), event_of(normalized.record), normalized.slots)
        return merger.classes

    async def close(self) -> None:
        """Detach from all ranks, which run free and without breakpoints, and end the debuggers."""
        if self._collector is not None:
            self._collector.close()
        for task in self._tasks:
            if task is not asyncio.current_task():
                task.cancel()
        results = await asyncio.gather(
            *(debugger.detach(DETACH_TIMEOUT_S) for debugger in self._debuggers.values()),
            return_exceptions=True,
        )
        for result in results:
            if isinstance(result, BaseException):
                LOG.error("detaching from a rank failed", exc_info=result)
        if self._factory is not None:
            await self._factory.close()

    @property
    def _shared(self) -> DebuggerFactory:
        assert self._factory is not None, "the setup comes first"
        return self._factory

    def _only(self, rank: int) -> RankSet:
        """Return the set of one rank: each answer and each event has it."""
        found = self._single_sets.get(rank)
        if found is None:
            found = self._single_sets[rank] = RankSet([rank])
        return found

    def _keep(self, task: asyncio.Task[None]) -> None:
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _answer(self, request: Request, rank: int) -> None:
        """Carry out a request on one rank."""
        try:
            await self._do(request, rank)
        except Exception:
            # One request of one rank: the others go on, and the trace is in the log.
            LOG.exception("rank %d: %r failed", rank, request.operation)
            failed = Failure(message="internal error of PGDB; see the aggregator's log")
            self._on_answer(request.request_id, EquivalenceClass(RankSet([rank]), failed))

    async def _do(self, request: Request, rank: int) -> None:
        operation = request.operation
        if isinstance(operation, Recall):
            self._recall(request.request_id, operation, rank)
            return
        try:
            record = await self._perform(request, self._debuggers[rank])
        except NeedsStopError:
            self._on_missing(request.request_id, Missing(running=RankSet([rank])))
            return
        except HasEndedError:
            self._on_missing(request.request_id, Missing(lost=RankSet([rank])))
            return
        except DebuggerError as error:
            record = Failure(message=str(error))
        if isinstance(operation, Backtrace) and isinstance(record, Stack):
            self._answers.add(request.request_id, rank, record, split=operation.split)
            return
        columns: tuple[Summary, ...] = ()
        if isinstance(operation, Reduce):
            # In a thread: an array of a million numbers takes half a second.
            record, columns = await asyncio.to_thread(sum_up, record, operation, rank)
        elif isinstance(record, Value) and record.whole is not None:
            if isinstance(operation, Evaluate):
                record = await asyncio.to_thread(digested, record, operation)
        elif isinstance(record, Variables) and isinstance(operation, ListVariables):
            if any(item.whole is not None for item in record.items):
                record = await asyncio.to_thread(digested_variables, record, operation)
        if operation.keeps_answer:
            self._memory.keep(request.request_id, rank, record)
        normalize = functools.partial(
            normalize_record,
            record,
            numbers_are_data=operation.asks_for_numbers,
            join_arguments=operation.joins_arguments,
            rank=rank,
        )
        normalized = await make(normalize) if is_long(record) else normalize()
        answer = EquivalenceClass(
            ranks=self._only(rank),
            record=record_of(normalized.record),
            slots=normalized.slots,
            columns=columns,
        )
        self._on_answer(request.request_id, answer)

    async def _perform(self, request: Request, debugger: RankDebugger) -> Record:
        """Carry out a request with the debugger of a rank; return its answer."""
        operation, request_id = request.operation, request.request_id
        if isinstance(operation, Acquire):
            return await self._acquire(debugger, request_id)
        if isinstance(operation, Reattach):
            return await self._reattach(debugger, request_id)
        if operation.needed not in debugger.capabilities:
            return Failure(message="the debugger of this rank can only look at it")
        if operation.is_urgent:
            return await debugger.perform(operation, request_id)
        # A debugger that hangs costs one command its time, and not each later command as well.
        if await debugger.is_silent():
            self._on_missing(request_id, Missing(late=RankSet([debugger.rank])))
        return await debugger.perform(
            operation, request_id, request.timeout_s, of_ended=request.of_ended
        )

    def _recall(self, request_id: int, recall: Recall, rank: int) -> None:
        """Answer with a rank's whole answer to an earlier request."""
        ranks = RankSet([rank])
        record = self._memory.recall(recall.request_id, rank)
        if record is None:
            self._on_missing(request_id, Missing(lost=ranks))
        else:
            self._on_answer(request_id, EquivalenceClass(ranks=ranks, record=record))

    async def _acquire(self, debugger: RankDebugger, request_id: int) -> Record:
        rank = debugger.rank
        pid = self._pids[rank]
        is_held = rank in self._held_ranks
        if is_held:
            self._notify(rank, Progress(stage="held"))
        async with self._starting:
            if is_held:
                return await debugger.acquire_held(pid, request_id)
            if self._has_cores:
                # The process id in a core may be that of another process by now.
                return await debugger.attach(0, request_id)
            if (status := rank_program.held_end(pid)) is not None:
                self._keep(asyncio.create_task(self._shared.release(pid)))
                self._notify(rank, end := Exit.of_status(status))
                return end
            # The rank's process may be a shell or a container's starter with the program below.
            try:
                program = rank_program.program_of_rank(pid, self._program)
                if self._program and not rank_program.executes(program, self._program):
                    self._notice(
                        f"--program {self._program}: there are ranks that do not execute it; "
                        "what they do execute is debugged"
                    )
                record = await debugger.attach(program, request_id, is_retried=True)
                if program == pid or debugger.state != "exited":
                    return record
                # The process is a script that starts one short program after the other. Attach to
                # the script.
                debugger = self._debuggers[rank] = self._shared.make(rank)
                program = pid
                return await debugger.attach(pid, request_id, is_retried=True)
            except DebuggerError as error:
                if debugger.state != "gone":
                    raise
                why = error
            finally:
                # A thread that nothing can stop now is released when it goes on.
                releasing = asyncio.create_task(self._shared.release(pid))
                self._keep(releasing)
                await asyncio.wait({releasing}, timeout=_RELEASED_S)
        return await self._acquire_again(debugger, program, request_id, why)

    async def _acquire_again(
        self, old: RankDebugger, pid: int, request_id: int, why: DebuggerError
    ) -> Record:
        """Attach another debugger to a rank whose first one died, for example for lack of memory.

        One rank at a time has the best chance.
        """
        LOG.warning("rank %d: %s as it attached", old.rank, why)
        if not self._is_starting_again:
            self._is_starting_again = True
            name = self._shared.debuggers
            self._notice(f"{name} start again one at a time, which takes longer: {why}")
        async with self._alone:
            new = self._debuggers[old.rank] = self._shared.make(old.rank)
            await old.abandon()
            return await new.attach(pid, request_id)

    async def _reattach(self, old: RankDebugger, request_id: int) -> Record:
        """Replace a debugger that is gone or hangs, and attach the new one."""
        rank = old.rank
        pid = old.program_pid
        if pid is None or old.state == "exited":
            return old.note_end()
        if await old.has_debugger(_ANSWER_TIMEOUT_S):
            return Text(text="its debugger answers; there is nothing to repair")
        if self._debuggers[rank] is not old:
            return Failure(message="another 'reattach' is under way on this rank")
        new = self._debuggers[rank] = self._shared.make(rank)
        try:
            is_held_back = await old.abandon(holds_back=True)
        except DebuggerError:
            self._debuggers[rank] = old
            raise
        async with self._starting:
            if self._has_cores:
                return await new.attach(0, request_id)
            status = procfs.read_stat(self._pids[rank])
            if status is not None and status.comm == hold.HELD_NAME:
                # The aggregator that was to acquire it died as the job was launched.
                return await new.acquire_held(self._pids[rank], request_id, runs_on=False)
            if not pid:
                pid = rank_program.program_of_rank(self._pids[rank], self._program)
            return await new.attach(pid, request_id, is_held_back=is_held_back)

    def _notify(self, rank: int, event: Event) -> None:
        if isinstance(event, Gone):
            LOG.warning("rank %d: %s", rank, event.why)
        if isinstance(event, Stop):
            event = digested_stop(event)
        normalized = normalize_record(event, rank=rank)
        self._on_event(self._only(rank), event_of(normalized.record), normalized.slots)


def _found(job: str, size: int | None, processes: Sequence[RankProcess]) -> FoundRanks:
    ordered = sorted(processes, key=lambda each: each.rank)
    return FoundRanks(
        job=job,
        size=size or 0,
        ranks=RankSet(each.rank for each in ordered),
        pids=tuple(each.pid for each in ordered),
        executable=ordered[0].executable,
    )
