"""The parent that watches one rank: reports, signals, and the end that it passes on."""

from __future__ import annotations

import asyncio
import os
import shlex
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from pgdb.frontend.run.rank_reports import RankReports
from pgdb.jobs import rank_output, rank_watcher
from tests.support.processes import wait_until

MARK = "pgdb-" + "a" * 24


def line(
    addresses: Sequence[str], *program: str, hold_s: float = 0.0, output: str = "as-it-is"
) -> list[str]:
    words = [sys.executable, "-I", "-S", rank_watcher.__file__, MARK, ",".join(addresses)]
    return [*words, str(hold_s), "0", "off", output, "--", *program]


async def watch(
    *program: str,
    environment: dict[str, str],
    output: str = "as-it-is",
    stderr: int | None = None,
) -> tuple[RankReports, int, bytes]:
    """Run a program under a watcher; return the reports, its status and its output."""
    reports = RankReports(MARK)
    server, addresses = await reports.listen(["127.0.0.1"])
    reports.release()
    process = await asyncio.create_subprocess_exec(
        *line(addresses, *program, output=output),
        stdout=subprocess.PIPE,
        stderr=stderr,
        env={**os.environ, **environment},
    )
    out, _ = await process.communicate()
    assert process.returncode is not None
    server.close()
    return reports, process.returncode, out


@pytest.mark.parametrize(
    ("code", "status"),
    [("pass", 0), ("raise SystemExit(7)", 7), ("os.abort()", -signal.SIGABRT)],
)
def test_end_is_reported_and_passed_on(code: str, status: int) -> None:
    environment = {"PMI_RANK": "3", "PMI_SIZE": "8"}
    code = f"import os; print(os.getpid(), flush=True); {code}"
    found = asyncio.run(watch(sys.executable, "-c", code, environment=environment))
    reports, ended, out = found
    assert ended == status
    (start,) = reports.starts.values()
    (end,) = reports.ends.values()
    assert (start.rank, start.size, start.program[-1]) == (3, 8, code)
    assert end.rank == 3 and int(out) == start.pid == end.pid
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


@pytest.mark.slow
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


RANK = {"PMI_RANK": "3", "PMI_SIZE": "8"}


def test_output_by_rank_passes_whole_and_its_end_is_reported() -> None:
    code = (
        "import sys; data = bytes(range(256)) * 8192; sys.stdout.buffer.write(data);"
        "sys.stderr.write('the reason'); sys.exit(3)"
    )
    reports, status, out = asyncio.run(
        watch(
            sys.executable,
            "-c",
            code,
            environment=RANK,
            output="by-rank",
            stderr=subprocess.DEVNULL,
        )
    )
    assert (status, out) == (3, bytes(range(256)) * 8192)
    ((key, tails),) = reports.tails.items()
    assert key == ("", 3)
    assert tails["stdout"].total == len(out)
    assert tails["stdout"].data == out[-rank_output.TAIL_BYTES :]
    assert tails["stderr"].data == b"the reason"


def test_output_and_errors_in_one_pipe_stay_in_order() -> None:
    code = "echo one; echo two >&2; echo three"
    found = asyncio.run(
        watch(
            "/bin/sh",
            "-c",
            code,
            environment=RANK,
            output="by-rank",
            stderr=subprocess.STDOUT,
        )
    )
    reports, _, out = found
    assert out == b"one\ntwo\nthree\n"
    (tails,) = reports.tails.values()
    assert {each.stream: each.data for each in tails.values()} == {"output": out}


def test_output_by_rank_is_a_terminal_where_it_was_one() -> None:
    ours, theirs = os.openpty()
    code = "test -t 1 && echo a terminal"
    with subprocess.Popen(
        line(["127.0.0.1:9"], "/bin/sh", "-c", code, output="by-rank"), stdout=theirs
    ) as process:
        os.close(theirs)
        assert os.read(ours, 100) == b"a terminal\r\n"
        assert process.wait() == 0
    os.close(ours)


@pytest.mark.slow
def test_output_of_a_process_that_is_left_passes_and_the_end_is_not_held_up(
    tmp_path: Path,
) -> None:
    gate = tmp_path / "gate"
    os.mkfifo(gate)
    code = f"(read line < {gate}; echo late) & echo early"
    with subprocess.Popen(
        line(["127.0.0.1:9"], "/bin/sh", "-c", code, output="by-rank"), stdout=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"early\n"
        assert process.wait() == 0
        gate.write_text("go on\n")
        assert process.stdout.read() == b"late\n"


def test_closed_output_by_rank_is_closed() -> None:
    code = "exec >&-; echo $$ >&2; exec sleep 1000"
    with subprocess.Popen(
        line(["127.0.0.1:9"], "/bin/sh", "-c", code, output="by-rank"),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as process:
        assert process.stdout is not None
        assert process.stdout.read() == b""  # before the program has ended
        assert process.poll() is None
        process.kill()


def test_without_any_output_there_is_nothing_to_pass_on() -> None:
    shell = " ".join(map(shlex.quote, line(["127.0.0.1:9"], "/bin/true", output="by-rank")))
    assert subprocess.run(["/bin/sh", "-c", f"exec {shell} >&- 2>&-"], check=False).returncode == 0
