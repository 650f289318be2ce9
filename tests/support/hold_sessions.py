"""The hold program as a launcher runs it, and a stand-in for the session that it reports to."""

from __future__ import annotations

import os
import secrets
import socket
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path

from pgdb.jobs import hold

DEADLINE_S = 20.0
LONG = "60"
"""Seconds of hold that are longer than any test."""


class HoldSession:
    """A stand-in for a session: a mark, an aggregator that receives datagrams, a listening front
    end."""

    def __init__(self) -> None:
        self.mark = f"test-{secrets.token_hex(8)}"
        self.front_end = socket.create_server(("127.0.0.1", 0))
        self.front_end.settimeout(DEADLINE_S)
        self.collector = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.collector.bind(hold.collector_address(self.mark, 0))
        self.collector.settimeout(DEADLINE_S)
        self._started: list[subprocess.Popen[bytes]] = []

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.front_end.getsockname()[1]}"

    def line(
        self, *program: str | bytes, seconds: str = LONG, address: str = ""
    ) -> list[str | bytes]:
        own = [self.mark, address or self.address, seconds, "1", "--"]
        return [sys.executable, "-I", "-S", hold.__file__, *own, *program]

    def start(
        self,
        *program: str | bytes,
        rank: int = 0,
        size: int = 4,
        seconds: str = LONG,
        address: str = "",
        environment: Mapping[str, str] | Mapping[bytes, bytes] | None = None,
        cwd: Path | None = None,
        preexec: Callable[[], None] | None = None,
    ) -> subprocess.Popen[bytes]:
        """Start a held rank of a job of *size*."""
        if environment is None:
            environment = {**os.environ, "PMI_RANK": str(rank), "PMI_SIZE": str(size)}
            environment |= {"MPI_LOCALRANKID": str(rank), "MPI_LOCALNRANKS": str(size)}
        line = self.line(*program, seconds=seconds, address=address)
        return self.start_line(line, environment, cwd, preexec)

    def start_line(
        self,
        line: list[str | bytes],
        environment: Mapping[str, str] | Mapping[bytes, bytes] | None = None,
        cwd: Path | None = None,
        preexec: Callable[[], None] | None = None,
    ) -> subprocess.Popen[bytes]:
        """Start a command line with the hold program in it."""
        process = subprocess.Popen(
            line,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=environment,
            cwd=cwd,
            preexec_fn=preexec,
        )
        self._started.append(process)
        return process

    def wait_held(self) -> list[str]:
        """Wait until a rank reports that it is held."""
        return self.collector.recv(65536).decode().split("\0")

    def accept(self) -> socket.socket:
        link, _ = self.front_end.accept()
        link.settimeout(DEADLINE_S)
        return link

    def close(self) -> None:
        for process in self._started:
            process.kill()
            process.communicate()
        self.front_end.close()
        self.collector.close()


def read_report(link: socket.socket) -> bytes:
    """Read the report of a held rank to the front end: a length, a newline, that many bytes."""
    with link.makefile("rb") as report:
        length = int(report.readline())
        return report.read(length)


def finish(process: subprocess.Popen[bytes]) -> bytes:
    """Return the output of a program that ends by itself with status 0."""
    output, errors = process.communicate(timeout=DEADLINE_S)
    assert process.returncode == 0, errors.decode()
    return output


def release(process: subprocess.Popen[bytes]) -> bytes:
    """Release a held rank; return the output of its program."""
    process.send_signal(hold.RELEASE)
    return finish(process)


def comm(process: subprocess.Popen[bytes]) -> str:
    """Return the name that the kernel has of a process."""
    return Path(f"/proc/{process.pid}/comm").read_text().strip()
