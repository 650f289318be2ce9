"""The transfer of PGDB to hosts that have none.

:mod:`pgdb.overlay.archive_bootstrap` runs in an aggregator's place on such a host. It reports its
Python, machine and C library, and gets an archive for these (:mod:`.shipped_archive`).
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import json
import logging
import shlex
import socket
import zlib
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path

from pgdb.errors import StartError
from pgdb.frontend.startup.shipped_archive import Archive, Tags, archive_for
from pgdb.frontend.system.subprocesses import Program
from pgdb.overlay import archive_bootstrap
from pgdb.overlay.channel import BACKLOG, Listener
from pgdb.version import __version__

LOG = logging.getLogger(__name__)

PEER_TIMEOUT_S = 120.0
"""Longest time for the exchange with one host, in seconds, without the fetching of wheels."""
_MAX_LINE_BYTES = 65536
# A shell that greets its user does so before our text runs.
MAX_GREETING_LINES = 200
LAST_WORDS_S = 5.0
_PIECE_BYTES = 1 << 18


def remote_command(python: str = "python3", *, over_pipe: bool = False) -> tuple[str, ...]:
    """Return the command for a host in place of ``python -m pgdb.backend``."""
    arguments = ("pipe",) if over_pipe else ()
    return (*carried_program(Path(archive_bootstrap.__file__), python), *arguments)


def carried_program(source: Path, python: str) -> tuple[str, ...]:
    """Return the line that runs one of our files, which needs no other, on a host without it.

    The line has no line breaks and nothing that a quoting shell would change, and any Python 3 can
    parse its start, which reports a Python that is too old.
    """
    packed = base64.b64encode(zlib.compress(source.read_bytes(), 9)).decode("ascii")
    line = (
        "import sys;sys.version_info<(3,11)and sys.exit("
        '"pgdb: %s is Python %d.%d, and PGDB needs 3.11; name another with --remote-python"'
        "%((sys.executable,)+tuple(sys.version_info[:2])));"
        f'import base64,zlib;exec(zlib.decompress(base64.b64decode("{packed}")))'
    )
    # -I -S exclude the user's directory, where a file may be named like a module, and the host's
    # site-packages.
    return (python, "-I", "-S", "-c", line)


class Shipper:
    """Sender of PGDB to hosts that ask for it with the session's credentials."""

    def __init__(self) -> None:
        self.problem = ""
        """Reason of the first failure; empty if there is none."""
        self._credentials = b""
        self._host = ""
        self._server: Listener | None = None
        self._serving: set[asyncio.Task[None]] = set()
        self._archives: dict[Tags, asyncio.Task[Archive]] = {}

    async def start(self, host: str, credentials: bytes) -> None:
        """Listen on a free port of *host*.

        :raises StartError: if that fails.
        """
        try:
            listening = socket.create_server((host, 0), backlog=BACKLOG)
        except OSError as error:
            raise StartError(f"cannot listen on {host} to ship PGDB: {error}") from None
        self._server = Listener(listening, credentials, self._accepted)
        self._host, self._credentials = host, credentials

    @property
    def address(self) -> str:
        """The listening address, as ``host:port``."""
        assert self._server is not None
        return f"{self._host}:{self._server.port}"

    def describe_environment(self, host: str = "") -> str:
        """Return the value of the variable PGDB_SHIP, which is secret.

        *host* is our name for the others, if that is not the listening host.
        """
        port = self.address.rpartition(":")[2]
        value = {
            "address": f"{host or self._host}:{port}",
            "credentials": self._credentials.decode(),
        }
        return json.dumps(value)

    async def close(self) -> None:
        """Stop listening and all transfers."""
        if self._server is not None:
            await self._server.close()
        tasks = [*self._serving, *self._archives.values()]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _accepted(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._serving.add(task)
        try:
            await _serve(reader, writer, self._archive)
        except StartError as error:
            LOG.warning("a host gets no PGDB: %s", error)
            self.problem = self.problem or str(error)
        except asyncio.CancelledError:
            # The session ends; asyncio would report the cancelled task of a server as an error.
            pass
        finally:
            self._serving.discard(task)
            writer.close()

    async def _archive(self, tags: Tags) -> Archive:
        """Return the archive for *tags*, made once however many hosts ask for it."""
        if tags not in self._archives:
            self._archives[tags] = asyncio.create_task(archive_for(tags))
        return await asyncio.shield(self._archives[tags])


async def ship_by_ssh(
    host: str, ssh: Sequence[str] = ("ssh",), python: str = "python3", *, timeout_s: float = 400.0
) -> str:
    """Put PGDB into the cache of *host*; return the PYTHONPATH with which *python* finds it there.

    :raises StartError: if *host* cannot be reached, or cannot store it.
    """
    command = shlex.join(remote_command(python, over_pipe=True))
    try:
        process = await Program.start(
            *ssh,
            host,
            command,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            limit=_MAX_LINE_BYTES,
        )
    except OSError as error:
        raise StartError(f"cannot run {ssh[0]}: {error.strerror}; is ssh installed?") from None
    assert process.stdin and process.stdout and process.stderr
    complaints = asyncio.create_task(process.stderr.read())
    try:
        async with asyncio.timeout(timeout_s):
            await _serve(process.stdout, process.stdin, archive_for)
            answer = json.loads(await process.stdout.readline() or b"null")
            status = await process.wait()
        if isinstance(answer, str) and status == 0:
            return answer
        raise StartError("the host did not report where it put the archive")
    except (StartError, ValueError, TimeoutError) as error:
        process.stdin.close()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(LAST_WORDS_S):
                await process.wait()
                await asyncio.wait((complaints,))
        await process.end()
        said = (await complaints).decode("utf-8", "replace").strip().splitlines()
        late = f"no end within {timeout_s:g} s" if isinstance(error, TimeoutError) else str(error)
        raise StartError(f"cannot ship PGDB to {host}: {said[-1] if said else late}") from None
    finally:
        await process.end()
        complaints.cancel()


async def _serve(
    reader: asyncio.StreamReader,
    writer: asyncio.StreamWriter,
    archive_of: Callable[[Tags], Awaitable[Archive]],
) -> None:
    """Send one host the archive that it needs.

    :raises StartError: if that fails; the host has received the reason.
    """
    try:
        async with asyncio.timeout(PEER_TIMEOUT_S):
            tags = Tags.parse(await _read_description(reader))
        archive = await archive_of(tags)
        async with asyncio.timeout(PEER_TIMEOUT_S):
            size = len(archive.data)
            _send(writer, {"digest": archive.digest, "size": size, "pgdb": __version__})
            await writer.drain()
            answer = json.loads(await reader.readline() or b"null")
            if answer not in ("have", "send"):
                raise EOFError("its own message is in the log of the aggregators")
            if answer == "send":
                for start in range(0, size, _PIECE_BYTES):
                    writer.write(archive.data[start : start + _PIECE_BYTES])
                    await writer.drain()
    except StartError as error:
        _send(writer, {"error": str(error)})
        raise
    except TimeoutError:
        raise StartError(f"a host did not take PGDB within {PEER_TIMEOUT_S:g} s") from None
    except (OSError, ValueError, EOFError) as error:
        raise StartError(
            f"a host stopped the transfer of PGDB: {error or type(error).__name__}"
        ) from None


async def _read_description(reader: asyncio.StreamReader) -> object:
    """Read the line in which a host describes itself."""
    for _ in range(MAX_GREETING_LINES):
        line = await reader.readline()
        if not line:
            raise EOFError("it closed the connection")
        if (start := line.find(b'{"host"')) >= 0:
            described: object = json.loads(line[start:])
            return described
    raise StartError("a host did not describe itself before the transfer of PGDB")


def _send(writer: asyncio.StreamWriter, message: object) -> None:
    writer.write(json.dumps(message).encode("ascii") + b"\n")
