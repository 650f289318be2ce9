"""The leaf end of an aggregator: its own ranks, each under a GDB, and what they answer."""

from __future__ import annotations

import asyncio
import functools
import logging
import os
import socket
import struct
from collections.abc import Callable, Sequence

from pgdb.backend.care.pausing import Pauser
from pgdb.backend.gdb.attach import as_they_are
from pgdb.backend.gdb.debugger import Inferior
from pgdb.backend.gdb.queries import NeedsStopError
from pgdb.backend.gdb.reduction import sum_up
from pgdb.backend.node.answer_cache import AnswerCache, pack
from pgdb.backend.sbd.deployment import Deployment
from pgdb.backend.zygote import nursery
from pgdb.backend.zygote.gdb_factory import GdbFactory
from pgdb.backend.zygote.index_cache import IndexCache
from pgdb.backend.zygote.nursery import Nurseries
from pgdb.backend.zygote.symbol_prefetch import SymbolPrefetch, gdb_environment
from pgdb.errors import GdbError
from pgdb.jobs import environment_scan, gdb_program, hold, procfs
from pgdb.merge.classes import EquivalenceClass, Merger, Missing
from pgdb.merge.normalize import Normalized, join_slots, normalize_record
from pgdb.merge.record_visitor import is_long
from pgdb.merge.summary import Summary
from pgdb.overlay.executor import make
from pgdb.overlay.messages import (
    Acquire,
    Backtrace,
    Find,
    FoundRanks,
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
    Output,
    Progress,
    Record,
    Running,
    Stack,
    Stop,
    Text,
)

LOG = logging.getLogger(__name__)

LET_GO_TIMEOUT_S = 6.0
"""How long a GDB that computes has at the end, of the 10 s in which all of ours is to be gone."""
_ANSWER_TIMEOUT_S = 20.0
"""How long a GDB that computes has to answer before a new one takes its place."""
_CREDENTIALS = struct.Struct("3i")  # struct ucred: pid, uid, gid

_EVENTS = (Stop, Exit, Running, Output, Progress, Gone)
_ONLY_EVENTS = (Output, Progress, Gone)

_FRAMES_AT_ONCE = 5000
"""Stacks of so many frames are merged before the loop goes on with others."""
_MOST_MADE = 256

OnAnswer = Callable[[int, EquivalenceClass[Record]], None]
OnMissing = Callable[[int, Missing], None]
OnEvent = Callable[[RankSet, Event, tuple[str, ...]], None]


class Leaf:
    """The inferiors of one aggregator."""

    def __init__(
        self,
        *,
        on_answer: OnAnswer,
        on_missing: OnMissing,
        on_event: OnEvent,
        notice: Callable[[str], None],
        symbol_prefetch: SymbolPrefetch | None = None,
    ) -> None:
        self._notice = notice
        self._symbol_prefetch = symbol_prefetch
        self._nurseries: Nurseries | None = None
        self._on_answer = on_answer
        self._on_missing = on_missing
        self._on_event = on_event
        self._inferiors: dict[int, Inferior] = {}
        self._new: Callable[[int], Inferior]
        self._pids: dict[int, int] = {}
        self._is_held = False
        self._program = ""
        self._deployment: Deployment | None = None
        self._collector: Collector | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self._memory = AnswerCache()
        self._answers = StackAnswers(self._memory, on_answer)
        # GDBs that read symbols all at once would only compete for the host's cores.
        self._starting = asyncio.Semaphore(max(2, 2 * (os.cpu_count() or 1)))
        self._alone = asyncio.Lock()
        self._is_starting_again = False
        self._pauser = Pauser()

    async def find(self, find: Find, node: int) -> tuple[FoundRanks, ...]:
        """Look for ranks of the job on this host; held ones are waited for."""
        if not find.mark:
            groups = await asyncio.to_thread(environment_scan.scan, find.selector)
            return tuple(_found(group.key, group.size, group.processes) for group in groups)
        self._collector = Collector(find.mark, find.shares[node], find.shares_per_host)
        self._collector.listen()
        held = await self._collector.wait_all()
        host = socket.gethostname()
        processes = tuple(
            RankProcess(rank=rank, host=host, pid=held[rank], executable="") for rank in held
        )
        return (_found("", self._collector.job_size, processes),) if processes else ()

    def setup(self, setup: Setup, share: Share, deployment: Deployment | None = None) -> None:
        """Learn which ranks are this aggregator's and how to get hold of them."""
        self._deployment = deployment
        environment = gdb_environment(os.environ)
        gdb = gdb_program.find_gdb(setup.gdb) or setup.gdb
        index_cache = IndexCache(environment, self._notice)
        # Held ranks have no program yet; one rank has nobody to share with.
        if setup.nursery and not setup.is_held and len(share.ranks) > 1:
            nurseries = Nurseries(
                gdb,
                environment,
                self._notice,
                index_cache,
                free=self._pauser.release,
                symbol_prefetch=self._symbol_prefetch,
            )
            if reason := nursery.why_not(setup.gdb_commands):
                nurseries.fell_back(reason)
            else:
                self._nurseries = nurseries
        gdb_factory = GdbFactory(
            gdb,
            environment,
            setup.gdb_commands,
            index_cache,
            self._nurseries,
            expected_version=setup.gdb_version,
            notice=self._notice,
        )
        if self._nurseries is None and self._symbol_prefetch is not None:
            self._keep(asyncio.create_task(self._symbol_prefetch.close()))
        localise = deployment.localised if deployment is not None else as_they_are

        def new(rank: int) -> Inferior:
            return Inferior(
                rank,
                gdb_factory=gdb_factory,
                program=setup.program,
                tell=self._tell,
                localise=localise,
                pauser=self._pauser,
                is_guarded=setup.guard,
            )

        self._new = new
        self._inferiors = {rank: new(rank) for rank in share.ranks}
        self._pids = dict(zip(share.ranks, share.pids, strict=True))
        self._is_held = setup.is_held
        self._program = setup.program

    def ask(self, request: Request, ranks: RankSet) -> None:
        """Have *ranks* answer; each answer comes through the callbacks, in its own time."""
        if isinstance(request.operation, Acquire) and not self._is_held:
            self._pauser.pause(self._pids[rank] for rank in ranks)
        for rank in ranks:
            self._keep(asyncio.create_task(self._answer(request, rank)))

    def states(self) -> tuple[EquivalenceClass[Event], ...]:
        """Return what the ranks are doing, for a new parent."""
        merger: Merger[Event] = Merger()
        for rank, inferior in self._inferiors.items():
            event = inferior.current_event
            if event is not None:
                normalized = normalize_record(event)
                merger.add(RankSet([rank]), event_of(normalized.record), normalized.slots)
        return merger.classes

    async def close(self) -> None:
        """Let all ranks go, free and without breakpoints, and end their GDBs."""
        if self._collector is not None:
            self._collector.close()
        for task in self._tasks:
            if task is not asyncio.current_task():
                task.cancel()
        results = await asyncio.gather(
            *(inferior.let_go(LET_GO_TIMEOUT_S) for inferior in self._inferiors.values()),
            return_exceptions=True,
        )
        for result in results:
            if isinstance(result, BaseException):
                LOG.error("letting a rank go failed", exc_info=result)
        self._pauser.release_all()
        if self._nurseries is not None:
            await self._nurseries.close()
        if self._symbol_prefetch is not None:
            await self._symbol_prefetch.close()
        if self._deployment is not None:
            await self._deployment.close()

    def _keep(self, task: asyncio.Task[None]) -> None:
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _answer(self, request: Request, rank: int) -> None:
        """Do what is asked of one rank."""
        try:
            await self._do(request, rank)
        except Exception:
            # One request of one rank: the others go on, and the trace is in the log.
            LOG.exception("rank %d: %r failed", rank, request.operation)
            failed = Failure(message="internal error of PGDB; see the aggregator's log")
            self._on_answer(request.request_id, EquivalenceClass(RankSet([rank]), failed))

    async def _do(self, request: Request, rank: int) -> None:
        inferior = self._inferiors[rank]
        operation = request.operation
        if isinstance(operation, Recall):
            self._recall(request.request_id, operation, rank)
            return
        try:
            if isinstance(operation, Acquire):
                record = await self._acquire(inferior, request.request_id)
            elif isinstance(operation, Reattach):
                record = await self._reattach(inferior, request.request_id)
            elif operation.is_urgent:
                record = await inferior.perform(operation, request.request_id)
            else:
                # A GDB that hangs costs one command its time, not each one after it, too.
                if await inferior.is_silent():
                    late = Missing(late=RankSet([rank]))
                    self._on_missing(request.request_id, late)
                record = await inferior.perform(operation, request.request_id, request.timeout_s)
        except NeedsStopError:
            self._on_missing(request.request_id, Missing(running=RankSet([rank])))
            return
        except GdbError as error:
            record = Failure(message=str(error))
        if isinstance(operation, Backtrace) and isinstance(record, Stack):
            self._answers.add(request.request_id, rank, record, split=operation.split)
            return
        columns: tuple[Summary, ...] = ()
        if isinstance(operation, Reduce):
            # In a thread: an array of a million numbers takes half a second.
            record, columns = await asyncio.to_thread(sum_up, record, operation, rank)
        if operation.keeps_answer:
            self._memory.keep(request.request_id, rank, record)
        normalize = functools.partial(
            normalize_record,
            record,
            numbers_are_data=operation.asks_for_numbers,
            join_arguments=operation.joins_arguments,
        )
        normalized = await make(normalize) if is_long(record) else normalize()
        said = EquivalenceClass(
            ranks=RankSet([rank]),
            record=record_of(normalized.record),
            slots=normalized.slots,
            columns=columns,
        )
        self._on_answer(request.request_id, said)

    def _recall(self, request_id: int, recall: Recall, rank: int) -> None:
        """Answer with what a rank said to an earlier request, unmasked."""
        ranks = RankSet([rank])
        record = self._memory.recall(recall.request_id, rank)
        if record is None:
            self._on_missing(request_id, Missing(lost=ranks))
        else:
            self._on_answer(request_id, EquivalenceClass(ranks=ranks, record=record))

    async def _acquire(self, inferior: Inferior, request_id: int) -> Record:
        pid = self._pids[inferior.rank]
        if self._is_held:
            self._tell(inferior.rank, Progress(stage="held"))
        async with self._starting:
            if self._is_held:
                return await inferior.take_held(pid, request_id)
            # The rank's process may be a shell or a container's starter with the program below.
            try:
                program = environment_scan.program_of_rank(pid, self._program)
                if self._program and not environment_scan.executes(program, self._program):
                    self._notice(
                        f"--program {self._program}: there are ranks that do not execute it; "
                        "what they do execute is debugged"
                    )
                record = await inferior.attach(program, request_id, is_tried_again=True)
                if program == pid or inferior.state != "exited":
                    return record
                # Below a script that starts one short thing after the other: the script, then.
                inferior = self._inferiors[inferior.rank] = self._new(inferior.rank)
                program = pid
                return await inferior.attach(pid, request_id, is_tried_again=True)
            except GdbError as error:
                if inferior.state != "gone":
                    raise
                why = error
            finally:
                await self._pauser.release(pid)
        return await self._acquire_again(inferior, program, request_id, why)

    async def _acquire_again(
        self, old: Inferior, pid: int, request_id: int, why: GdbError
    ) -> Record:
        """Give a rank another GDB whose first one has died as it attached, as for want of memory.

        That has most of a chance if it is done for one rank at a time.
        """
        LOG.warning("rank %d: %s as it attached", old.rank, why)
        if not self._is_starting_again:
            self._is_starting_again = True
            self._notice(f"GDBs start again one at a time, which takes longer: {why}")
        async with self._alone:
            new = self._inferiors[old.rank] = self._new(old.rank)
            await old.abandon()
            return await new.attach(pid, request_id)

    async def _reattach(self, old: Inferior, request_id: int) -> Record:
        """Get hold of a rank by a new GDB, in place of one that is gone or hangs."""
        rank = old.rank
        pid = old.program_pid
        if pid is None or old.state == "exited":
            return old.take_end()
        if await old.has_debugger(_ANSWER_TIMEOUT_S):
            return Text(text="its debugger answers; there is nothing to mend")
        if self._inferiors[rank] is not old:
            return Failure(message="another 'reattach' is under way on this rank")
        new = self._inferiors[rank] = self._new(rank)
        try:
            await old.abandon()
        except GdbError:
            self._inferiors[rank] = old
            raise
        async with self._starting:
            status = procfs.read_stat(self._pids[rank])
            if status is not None and status.comm == hold.HELD_NAME:
                # The aggregator that was to take it died as the job was launched.
                return await new.take_held(self._pids[rank], request_id, goes_on=False)
            if not pid:
                pid = environment_scan.program_of_rank(self._pids[rank], self._program)
            return await new.attach(pid, request_id)

    def _tell(self, rank: int, event: Event) -> None:
        if isinstance(event, Gone):
            LOG.warning("rank %d: %s", rank, event.why)
        normalized = normalize_record(event)
        self._on_event(RankSet([rank]), event_of(normalized.record), normalized.slots)


class StackAnswers:
    """Merges the stacks that come at one time before they are told.

    Ranks of a host share their stacks (see :mod:`.stacks`), so that what is made of one is found by
    its identity.
    """

    def __init__(self, memory: AnswerCache, on_answer: OnAnswer) -> None:
        self._memory = memory
        self._on_answer = on_answer
        self._flush: asyncio.Handle | None = None
        # By request, by identity of the stack; the ranks that gave it.
        self._new: dict[tuple[int, bool], dict[int, tuple[Stack, list[int]]]] = {}
        # By identity, too; an entry keeps the stack, so that it is no other's meanwhile.
        self._made: dict[tuple[int, bool], tuple[Stack, bytes, Normalized]] = {}
        self._shared: dict[Record | Event, Record | Event] = {}

    def add(self, request_id: int, rank: int, stack: Stack, *, split: bool) -> None:
        """Take the stack of a rank; it is told before the loop waits for anything else."""
        said = self._new.setdefault((request_id, split), {})
        said.setdefault(id(stack), (stack, []))[1].append(rank)
        if self._flush is None:
            self._flush = asyncio.get_running_loop().call_soon(self._tell)

    def _tell(self) -> None:
        self._flush = None
        new, self._new = self._new, {}
        frames = 0
        for (request_id, split), said in new.items():
            classes: dict[int, tuple[Normalized, list[int], tuple[str, ...]]] = {}
            for identity, (stack, ranks) in list(said.items()):
                if frames > _FRAMES_AT_ONCE:
                    self._new[request_id, split] = said
                    break
                del said[identity]
                frames += len(stack.frames)
                packed, normalized = self._make(stack, split)
                self._memory.keep_packed(request_id, RankSet(ranks), packed)
                one = classes.get(id(normalized.record))
                if one is None:
                    classes[id(normalized.record)] = (normalized, [*ranks], normalized.slots)
                else:
                    one[1].extend(ranks)
                    slots = join_slots(one[2], normalized.slots)
                    classes[id(normalized.record)] = (one[0], one[1], slots)
            for normalized, ranks, slots in classes.values():
                record = record_of(normalized.record)
                self._on_answer(
                    request_id, EquivalenceClass(ranks=RankSet(ranks), record=record, slots=slots)
                )
        if self._new:
            # The others in the next round of the loop.
            self._flush = asyncio.get_running_loop().call_soon(self._tell)

    def _make(self, stack: Stack, split: bool) -> tuple[bytes, Normalized]:
        known = self._made.get((id(stack), split))
        if known is None:
            normalized = normalize_record(stack, join_arguments=not split)
            # Stacks that are equal but for what was normalized share the rest.
            if len(self._shared) >= _MOST_MADE:
                self._shared.clear()
            shared = self._shared.setdefault(normalized.record, normalized.record)
            normalized = Normalized(record=shared, slots=normalized.slots)
            while len(self._made) >= _MOST_MADE:
                del self._made[next(iter(self._made))]
            known = self._made[id(stack), split] = (stack, pack(stack), normalized)
        return known[1:]


class Collector:
    """Hears which ranks of this host are held, from themselves.

    A rank that came before us is found in /proc; one that comes later sends a datagram. The
    kernel vouches for its process and user. Each one's environment tells how many there are
    to come.
    """

    def __init__(self, mark: str, share: int, shares: int) -> None:
        self._mark = mark
        self._share = share
        self._shares = shares
        self._held: dict[int, int] = {}  # rank -> process id
        self._expected: int | None = None
        self._all_held = asyncio.Event()
        self._sockets: list[socket.socket] = []
        self.job_size = 0
        """Ranks in MPI_COMM_WORLD, 0 until the first one is held."""

    def listen(self) -> None:
        """Begin to hear datagrams, then look for ranks that are held already."""
        # Ranks that did not come to a Slurm node in Slurm's way do not know its name for it.
        for node in dict.fromkeys((os.environ.get("SLURMD_NODENAME", ""), "")):
            self._listen_at(hold.collector_address(self._mark, self._share, node))
        for pid in procfs.all_pids():
            self._look_at(pid)

    def close(self) -> None:
        """Stop listening."""
        for each in self._sockets:
            asyncio.get_running_loop().remove_reader(each)
            each.close()
        self._sockets.clear()

    async def wait_all(self) -> dict[int, int]:
        """Wait until all ranks of the share are held; return the process id of each.

        Whoever waits brings the deadline: a rank may end, or never come.
        """
        await self._all_held.wait()
        return dict(sorted(self._held.items()))

    def _listen_at(self, address: str) -> None:
        listening = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK)
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_PASSCRED, 1)
        try:
            listening.bind(address)
        except OSError as error:
            # Another node's aggregator on this machine has it.
            LOG.info("cannot listen for held ranks at %r: %s", address, error.strerror)
            listening.close()
            return
        self._sockets.append(listening)
        asyncio.get_running_loop().add_reader(listening, self._receive, listening)

    def _receive(self, listening: socket.socket) -> None:
        while True:
            try:
                _, control, _, _ = listening.recvmsg(65536, socket.CMSG_SPACE(_CREDENTIALS.size))
            except BlockingIOError:
                return
            for level, kind, data in control:
                if (level, kind) == (socket.SOL_SOCKET, socket.SCM_CREDENTIALS):
                    pid, uid, _ = _CREDENTIALS.unpack(data[: _CREDENTIALS.size])
                    if uid in (os.getuid(), 0):
                        self._look_at(pid)

    def _look_at(self, pid: int) -> None:
        status = procfs.read_stat(pid)
        if status is None or status.comm != hold.HELD_NAME:
            return
        # Root could read the environment of anybody's process that calls itself so.
        if status.uid not in (os.geteuid(), 0):
            return
        line = procfs.command_line(pid)
        environment = procfs.environment(pid)
        if line is None or environment is None or self._mark not in line:
            return
        if not procfs.on_this_host(pid):
            return
        rank, size, local_rank, local_size = hold.identity(environment)
        if self._expected is None:
            self.job_size = size
            self._expected = sum(
                hold.share_of(each, local_size, self._shares) == self._share
                for each in range(local_size)
            )
        if hold.share_of(local_rank, local_size, self._shares) == self._share:
            self._held[rank] = pid
        if len(self._held) >= self._expected:
            self._all_held.set()


def _found(job: str, size: int | None, processes: Sequence[RankProcess]) -> FoundRanks:
    ordered = sorted(processes, key=lambda each: each.rank)
    return FoundRanks(
        job=job,
        size=size or 0,
        ranks=RankSet(each.rank for each in ordered),
        pids=tuple(each.pid for each in ordered),
        executable=ordered[0].executable,
    )


def record_of(record: Record | Event) -> Record:
    """Narrow a normalized record to an answer."""
    assert not isinstance(record, _ONLY_EVENTS)
    return record


def event_of(record: Record | Event) -> Event:
    """Narrow a normalized record to an event."""
    assert isinstance(record, _EVENTS)
    return record
