"""Another host as the site of a session (``--host``), through an agent that ssh starts there.

The agent, ``python -m pgdb.frontend.startup.remote``, reads JSON lines from its standard input,
each a :class:`Call`, and answers each with a :class:`Return` of the same number; lines of
aggregators come in between as :class:`Line`. At the end of its input it ends all that it has
started, and itself.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import shlex
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from pgdb.errors import DiscoveryError, PgdbError, StartError
from pgdb.frontend.discovery.listing import RunningJob
from pgdb.frontend.startup.local_site import LocalSite, own_python_path
from pgdb.frontend.startup.session_directory import SessionDirectory
from pgdb.frontend.startup.site import (
    AggregatorStart,
    GetRendezvous,
    Located,
    OnLine,
    Starter,
    WorldPlaces,
)
from pgdb.frontend.system.subprocesses import LAST_WORDS_S, Program
from pgdb.jobs.gdb_program import check_gdb
from pgdb.jobs.launchers import Launcher
from pgdb.overlay.node import release
from pgdb.ranks import RankSet

LOG = logging.getLogger(__name__)

MAX_LINE_BYTES = 64 * 1024 * 1024
"""Longest line, in bytes; a proctable of a million ranks has some tens of megabytes."""
END_TIMEOUT_S = 10.0
"""Time in which an agent ends after its input; its ssh is killed after that."""
T = TypeVar("T")


class Call(msgspec.Struct, frozen=True, kw_only=True):
    """A request to the agent."""

    number: int
    method: str
    arguments: msgspec.Raw = msgspec.Raw(b"null")


class Return(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """The agent's answer to a call."""

    number: int
    error: str = ""
    value: msgspec.Raw = msgspec.Raw(b"null")


class Line(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """A line that the aggregators of a starter have printed."""

    starter: int
    text: str


class Choice(msgspec.Struct, frozen=True):
    """The arguments of ``choose_launcher``."""

    words: tuple[str, ...]
    located: Located


class Question(msgspec.Struct, frozen=True):
    """The arguments of ``examine``."""

    as_json: bool
    gdb: str


class Order(msgspec.Struct, frozen=True):
    """The arguments of ``start``."""

    start: AggregatorStart
    rendezvous: str


class Started(msgspec.Struct, frozen=True):
    """The arguments of ``start``."""

    starter: int
    pid: int


class Ended(msgspec.Struct, frozen=True):
    """The result of ``start``."""

    status: int
    last_words: str


def _encode_hook(value: Any) -> Any:
    if isinstance(value, RankSet):
        return str(value)
    if isinstance(value, Path):
        return str(value)
    raise TypeError(f"no JSON form for {type(value).__name__}")


def _decode_hook(kind: type, value: Any) -> Any:
    if kind is RankSet:
        return RankSet.parse(value) if value else RankSet()
    if issubclass(kind, Path):
        return Path(value)
    raise TypeError(f"no JSON form for {kind.__name__}")


def _dump(value: Any) -> bytes:
    try:
        return msgspec.json.encode(value, enc_hook=_encode_hook)
    except UnicodeEncodeError:
        # File names need not be valid text; an invalid one is only displayed.
        plain = msgspec.to_builtins(value, enc_hook=_encode_hook)
        return json.dumps(plain, ensure_ascii=False).encode("utf-8", "replace")


def _load(data: bytes | msgspec.Raw, kind: type[T]) -> T:
    return msgspec.json.decode(data, type=kind, dec_hook=_decode_hook)


class RemoteSite:
    """A host that is reached over ssh."""

    def __init__(self, host: str, process: Program) -> None:
        self._host = host
        self._process = process
        self._last_number = 0
        self._waiting: dict[int, asyncio.Future[msgspec.Raw]] = {}
        self._on_line: dict[int, OnLine] = {}
        self._early: dict[int, list[str]] = {}  # lines that arrived with the answer to start
        self._why = ""
        self._reading = asyncio.create_task(self._read())

    @classmethod
    async def connect(
        cls, host: str, ssh: Sequence[str], *, python: str = "", python_path: str | None = None
    ) -> RemoteSite:
        """Start the agent on *host*.

        *python* and *python_path* are for that host, with ours as defaults.

        :raises StartError: if the host cannot be reached, or has no PGDB or another version.
        """
        path = own_python_path() if python_path is None else python_path
        agent = shlex.join(
            ["env", f"PYTHONPATH={path}", python or sys.executable, "-P", "-m", __name__]
        )
        try:
            process = await Program.start(
                *ssh, "-o", "BatchMode=yes", host, f"exec {agent}",
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.PIPE,
                limit=MAX_LINE_BYTES,
                start_new_session=True,
            )  # fmt: skip
        except OSError as error:
            raise StartError(f"cannot run {ssh[0]}: {error.strerror}; --ssh names it") from None
        site = cls(host, process)
        try:
            theirs = await site._call("release", None, str)
        except BaseException:
            # After Ctrl-C, too: ssh may wait for a host that does not answer, and would not end by
            # itself. An agent that has not answered has started nothing.
            await asyncio.shield(site.close(end_timeout_s=0.0))
            raise
        if theirs != release():
            await site.close()
            raise StartError(
                f"{host} has {theirs}, here is {release()}; install the same PGDB and Python "
                "there, name another with --remote-python, or --ship ours"
            )
        return site

    async def find(self, target: str) -> Located:
        """Find a job on the host; see :meth:`LocalSite.find`."""
        return await self._call("find", target, Located)

    async def find_pids(self, entries: Sequence[str]) -> Located:
        """Make a job of explicit pids; see :meth:`LocalSite.find_pids`."""
        return await self._call("find_pids", tuple(entries), Located)

    async def world_places(self, launcher_pid: int) -> WorldPlaces:
        """Return where the worlds of a launcher of the host may be."""
        return await self._call("world_places", launcher_pid, WorldPlaces)

    async def jobs(self) -> tuple[RunningJob, ...]:
        """List the jobs of the host."""
        return await self._call("jobs", None, tuple[RunningJob, ...])

    async def choose_launcher(self, words: Sequence[str], located: Located) -> Launcher | None:
        """Choose the launcher of the aggregators; see :meth:`LocalSite.choose_launcher`."""
        choice = Choice(words=tuple(words), located=located)
        return await self._call("choose_launcher", choice, Launcher | None)  # type: ignore[arg-type]

    async def start(
        self, start: AggregatorStart, on_line: OnLine, rendezvous: GetRendezvous
    ) -> RemoteStarter:
        """Start aggregators from the host."""
        order = Order(start=start, rendezvous=await rendezvous())
        started = await self._call("start", order, Started)
        self._on_line[started.starter] = on_line
        for text in self._early.pop(started.starter, ()):
            on_line(text)
        return RemoteStarter(self, started)

    async def silent_hosts(self, hosts: Sequence[str]) -> tuple[str, ...]:
        """Return the hosts that do not answer that host; see :meth:`LocalSite.silent_hosts`."""
        return await self._call("silent_hosts", tuple(hosts), tuple[str, ...])

    async def settle(self) -> None:
        """Remove the files of the start; see :meth:`LocalSite.settle`."""
        await self._call("settle", None, type(None))

    async def examine(self, *, as_json: bool, gdb: str) -> tuple[str, int]:
        """Return the doctor's report on the host, and its exit status."""
        question = Question(as_json=as_json, gdb=gdb)
        return await self._call("examine", question, tuple[str, int])

    async def gdb_version(self, word: str) -> str:
        """Return the version of the host's GDB, empty if it has no usable one.

        The hosts of the ranks need a GDB; this host need not be one of them.
        """
        try:
            return await self._call("gdb_version", word, str)
        except StartError as error:
            LOG.info("GDB on %s: %s", self._host, error)
            return ""

    async def close(self, *, end_timeout_s: float = END_TIMEOUT_S) -> None:
        """End the agent and all that it has started; after *end_timeout_s* seconds end its ssh."""
        if self._process.stdin is not None:
            self._process.stdin.close()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(end_timeout_s):
                await self._process.wait()
        self._reading.cancel()
        await asyncio.gather(self._reading, return_exceptions=True)
        await self._process.end()

    async def _call(self, method: str, arguments: Any, kind: type[T]) -> T:
        self._last_number += 1
        number = self._last_number
        future: asyncio.Future[msgspec.Raw] = asyncio.get_running_loop().create_future()
        if self._why:
            raise StartError(self._why)
        self._waiting[number] = future
        call = Call(number=number, method=method, arguments=msgspec.Raw(_dump(arguments)))
        assert self._process.stdin is not None
        with contextlib.suppress(ConnectionError):
            self._process.stdin.write(msgspec.json.encode(call) + b"\n")
            await self._process.stdin.drain()
        return _load(await future, kind)

    async def _read(self) -> None:
        assert self._process.stdout is not None and self._process.stderr is not None
        complaints = asyncio.create_task(self._process.stderr.read())
        try:
            async for line in self._process.stdout:
                try:
                    message = msgspec.json.decode(line, type=Return | Line)
                except msgspec.DecodeError:
                    continue  # a greeting of the host's shell
                if isinstance(message, Line):
                    if (on_line := self._on_line.get(message.starter)) is not None:
                        on_line(message.text)
                    else:
                        self._early.setdefault(message.starter, []).append(message.text)
                elif (future := self._waiting.pop(message.number, None)) is not None:
                    if future.done():
                        continue  # the caller has given up
                    if message.error:
                        future.set_exception(DiscoveryError(f"{self._host}: {message.error}"))
                    else:
                        future.set_result(message.value)
            await asyncio.wait((complaints,), timeout=LAST_WORDS_S)
            await self._process.end()
            said = (await complaints).decode("utf-8", "replace").strip().splitlines()
            self._why = f"{self._host}: {explain_ssh(said[-1] if said else 'the link was closed')}"
        finally:
            complaints.cancel()
            self._why = self._why or f"{self._host}: the link was given up"
            for future in self._waiting.values():
                if not future.done():
                    future.set_exception(StartError(self._why))


class RemoteStarter:
    """A process on the site's host that starts aggregators."""

    def __init__(self, site: RemoteSite, started: Started) -> None:
        self._site = site
        self._started = started
        self._words = ""

    @property
    def pid(self) -> int:
        """Process id on that host."""
        return self._started.pid

    async def wait(self) -> int:
        """Wait for its end; return its exit status, or -1 when the site is gone."""
        try:
            return await self._ask("wait")
        except PgdbError as error:
            self._words = str(error)
            return -1

    async def end(self) -> None:
        """End the process and the aggregators that it has started."""
        with contextlib.suppress(PgdbError):
            await self._ask("end")

    def last_words(self) -> str:
        """Return its last output on one line, once it has ended."""
        return self._words

    async def _ask(self, method: str) -> int:
        ended = await self._site._call(method, self._started.starter, Ended)
        self._words = ended.last_words
        return ended.status


def explain_ssh(words: str) -> str:
    """Return the message of ssh, or of the shell behind it, with a remedy if one is known."""
    if "No module named" in words:
        return f"{words}; PGDB is not there: --remote-python names a Python that has it, --ship"
    if "Permission denied" in words or "Host key verification" in words:
        return f"{words}; 'ssh HOST true' must work without a question (a key, an agent)"
    if "not found" in words or "No such file" in words:
        return f"{words}; --remote-python names a Python of that host"
    return words


# -- the agent ---------------------------------------------------------------------------------


class _Agent:
    def __init__(self, directory: Path) -> None:
        self._site = LocalSite(directory)
        self._starters: dict[int, Starter] = {}
        self._tasks: set[asyncio.Task[None]] = set()

    async def serve(self, reader: asyncio.StreamReader) -> None:
        """Answer calls until the input ends; then end what was started."""
        try:
            while line := await reader.readline():
                call = msgspec.json.decode(line, type=Call)
                task = asyncio.create_task(self._answer(call))
                self._tasks.add(task)
                task.add_done_callback(self._tasks.discard)
        finally:
            await asyncio.gather(*(each.end() for each in self._starters.values()))

    async def _answer(self, call: Call) -> None:
        try:
            value = msgspec.Raw(_dump(await self._carry_out(call)))
        except PgdbError as error:
            _send(Return(number=call.number, error=str(error)))
        except Exception as error:
            # The failure is one call's: its caller must not wait for ever, and ssh's log gets the
            # traceback.
            LOG.exception("%s failed", call.method)
            _send(Return(number=call.number, error=f"internal error of PGDB there: {error!r}"))
        else:
            _send(Return(number=call.number, value=value))

    async def _carry_out(self, call: Call) -> Any:
        match call.method:
            case "release":
                return release()
            case "find":
                return await self._site.find(_load(call.arguments, str))
            case "find_pids":
                return await self._site.find_pids(_load(call.arguments, tuple[str, ...]))
            case "world_places":
                return await self._site.world_places(_load(call.arguments, int))
            case "jobs":
                return await self._site.jobs()
            case "silent_hosts":
                return await self._site.silent_hosts(_load(call.arguments, tuple[str, ...]))
            case "settle":
                return await self._site.settle()
            case "choose_launcher":
                choice = _load(call.arguments, Choice)
                return await self._site.choose_launcher(choice.words, choice.located)
            case "examine":
                question = _load(call.arguments, Question)
                return await self._site.examine(as_json=question.as_json, gdb=question.gdb)
            case "gdb_version":
                return await asyncio.to_thread(check_gdb, _load(call.arguments, str))
            case "start":
                return await self._start(_load(call.arguments, Order))
            case "wait" | "end":
                starter = self._starters[_load(call.arguments, int)]
                if call.method == "end":
                    await starter.end()
                status = await starter.wait()
                return Ended(status=status, last_words=starter.last_words())
        raise StartError(f"the agent cannot {call.method!r}")

    async def _start(self, order: Order) -> Started:
        number = len(self._starters) + 1

        async def rendezvous() -> str:
            return order.rendezvous

        def on_line(text: str) -> None:
            _send(Line(starter=number, text=text))

        starter = await self._site.start(order.start, on_line, rendezvous)
        self._starters[number] = starter
        return Started(starter=number, pid=starter.pid)


def _send(message: Return | Line) -> None:
    sys.stdout.buffer.write(msgspec.json.encode(message) + b"\n")
    sys.stdout.buffer.flush()


async def _run_agent() -> None:
    directory = SessionDirectory()
    reader = asyncio.StreamReader(limit=MAX_LINE_BYTES)
    loop = asyncio.get_running_loop()
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin.buffer)
    try:
        await _Agent(directory.path).serve(reader)
    finally:
        directory.remove()


if __name__ == "__main__":
    asyncio.run(_run_agent())
