"""The parent that watches one rank: reports, signals, and the end that it passes on."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import Sequence

import pytest

from pgdb.frontend.run.rank_reports import RankReports
from pgdb.jobs import rank_watcher
from tests.support.processes import wait_until

MARK = "pgdb-" + "a" * 24


def line(addresses: Sequence[str], *program: str, hold_s: float = 0.0) -> list[str]:
    words = [sys.executable, "-I", "-S", rank_watcher.__file__, MARK, ",".join(addresses)]
    return [*words, str(hold_s), "0", "off", "--", *program]


async def watch(*program: str, environment: dict[str, str]) -> tuple[RankReports, int, bytes]:
    """Run a program under a watcher; return the reports, its status and its output."""
    reports = RankReports(MARK)
    server, addresses = await reports.listen(["127.0.0.1"])
    reports.release()
    process = await asyncio.create_subprocess_exec(
        *line(addresses, *program), stdout=subprocess.PIPE, env={**os.environ, **environment}
    )
    out, _ = await process.communicate()
    assert process.returncode is not None
    server.close()
    return reports, process.returncode, out


@pytest.mark.parametrize(
    ("code", "status"),
    [("print('hi')", 0), ("raise SystemExit(7)", 7), ("import os; os.abort()", -signal.SIGABRT)],
)
def test_end_is_reported_and_passed_on(code: str, status: int) -> None:
    environment = {"PMI_RANK": "3", "PMI_SIZE": "8"}
    found = asyncio.run(watch(sys.executable, "-c", code, environment=environment))
    reports, ended, out = found
    assert ended == status
    assert out == (b"hi\n" if not status else b"")
    (start,) = reports.starts.values()
    (end,) = reports.ends.values()
    assert (start.rank, start.size, start.program[-1]) == (3, 8, code)
    assert end.rank == 3 and end.pid == start.pid != start.watcher
    assert (-end.signal or end.code) == status


def test_program_that_does_not_exist() -> None:
    _, status, _ = asyncio.run(watch("/nonexistent/program", environment={}))
    assert status == 127


def test_front_end_that_is_gone_delays_nothing() -> None:
    done = subprocess.run(line(["127.0.0.1:9"], "/bin/sh", "-c", "exit 5"), check=False)
    assert done.returncode == 5


def test_signal_to_the_watcher_alone_reaches_the_program() -> None:
    code = "trap 'echo got; exit 3' USR1; echo ready; while :; do sleep 0.1; done"
    with subprocess.Popen(
        line(["127.0.0.1:9"], "/bin/sh", "-c", code), stdout=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"ready\n"
        process.send_signal(signal.SIGUSR1)
        assert process.stdout.read() == b"got\n"
    assert process.returncode == 3


def test_program_does_not_outlive_a_watcher_that_is_killed() -> None:
    code = "echo $$; exec sleep 1000"
    with subprocess.Popen(
        line(["127.0.0.1:9"], "/bin/sh", "-c", code), stdout=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        pid = int(process.stdout.readline())
        process.kill()
    wait_until(lambda: not os.path.exists(f"/proc/{pid}"), "the end of the program")


def test_closed_output_of_the_program_is_closed() -> None:
    code = "exec >&-; echo $$ >&2; exec sleep 1000"
    with subprocess.Popen(
        line(["127.0.0.1:9"], "/bin/sh", "-c", code), stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        assert process.stdout.read() == b""  # before the program has ended
        assert process.poll() is None
        process.kill()
