"""One rank under one GDB: attached to, interrupted, held, replaced; without a job."""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
import subprocess
from contextlib import suppress
from pathlib import Path

import pytest

from pgdb.backend.rank.states import Interrupting, Resuming
from pgdb.jobs import hold, procfs
from pgdb.overlay.messages import Detach, Interrupt, Resume
from pgdb.records import Done, Failure, Record, Running, Stop
from tests.conftest import Build, StartJob
from tests.support.named_jobs import assert_free
from tests.support.processes import is_alive, status, wait_until
from tests.support.programs import Builder, find_mpi
from tests.support.single_ranks import (
    Notifications,
    attach_to,
    debugger,
    examine_held,
    held,
    only_attach_to,
    started,
)
from tests.support.terminal import DEADLINE_S, assert_untouched


@pytest.mark.gdb
def test_what_is_unusual_about_a_rank_is_reported(builder: Builder, tmp_path: Path) -> None:
    path = builder.build(find_mpi("openmpi"), "nompi.c").copied(tmp_path / "nompi").path
    with started(str(path)) as pid:
        path.unlink()
        os.kill(pid, signal.SIGSTOP)
        wait_until(lambda: status(pid, "State").startswith("T"), "it is stopped")
        record, frames = asyncio.run(attach_to(pid))
        assert isinstance(record, Stop)
        assert record.reason == "attached"
        assert record.was_stopped
        stopped, replaced = record.detail.split("; ", 1)
        assert stopped == "was stopped by a signal before, and will be again when PGDB detaches"
        assert replaced.startswith(f"{path} has been deleted or replaced")
        assert frames[-1].function == "main"
        wait_until(lambda: status(pid, "State").startswith("T"), "it is stopped again")


@pytest.mark.gdb
def test_a_rank_that_blocks_the_signal_for_a_moment_is_interrupted(
    builder: Builder, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The C library blocks all signals so while it starts a thread."""
    looks = []

    def blocked(pid: int, number: signal.Signals) -> bool:
        looks.append((pid, number))
        return len(looks) < 4

    async def debug(pid: int) -> tuple[Record, Notifications]:
        async with asyncio.timeout(DEADLINE_S), debugger(reported := Notifications()) as rank:
            await rank.attach(pid, 1)
            await rank.perform(Resume(command="continue"), 2)
            said = await rank.perform(Interrupt(), 3)
            while rank.state != "stopped":
                await asyncio.sleep(0.01)
            return said, reported

    monkeypatch.setattr("pgdb.jobs.procfs.blocked_in_all_threads", blocked)
    with started(str(builder.build(find_mpi("openmpi"), "nompi.c").path)) as pid:
        said, reported = asyncio.run(debug(pid))
        assert said == Done()
        assert looks == [(pid, signal.SIGURG)] * 4
    stops = [each for each in reported if isinstance(each, Stop)]
    assert [each.reason for each in stops][-1:] == ["interrupted"]


@pytest.mark.mpi
@pytest.mark.any_mpi
def test_a_rank_that_is_about_to_run_says_that_it_blocks_the_signal(
    build: Build, start_job: StartJob
) -> None:
    async def debug(pid: int) -> tuple[Record, Record, bool]:
        async with asyncio.timeout(DEADLINE_S), debugger(Notifications()) as rank:
            assert isinstance(await rank.attach(pid, 1), Stop)
            running = asyncio.create_task(rank.perform(Resume(command="continue"), 2))
            while not isinstance(rank.machine.motion, Resuming):
                await asyncio.sleep(0)
            assert rank.state == "stopped"
            said = await rank.perform(Interrupt(), 3)
            return said, await running, isinstance(rank.machine.motion, Interrupting)

    with start_job(2, build("masks.c"), "block") as job:
        said, *others = asyncio.run(debug(job.ranks[0]))
        assert isinstance(said, Failure) and "block SIGURG" in said.message, said
        assert others == [Running(run=2), False]
        # One that does not is stopped when it runs.
        assert asyncio.run(debug(job.ranks[1]))[0] == Done()
        assert_untouched(job.ranks)


@pytest.mark.gdb
def test_a_stopped_rank_that_is_set_going_meanwhile_goes_on(builder: Builder) -> None:
    async def debug(pid: int) -> None:
        async with asyncio.timeout(DEADLINE_S), debugger(Notifications()) as rank:
            await rank.attach(pid, 1)
            os.kill(pid, signal.SIGCONT)
            assert isinstance(await rank.perform(Resume(command="continue"), 2), Running)
            await rank.perform(Detach(), 3)

    with started(str(builder.build(find_mpi("openmpi"), "nompi.c").path)) as pid:
        os.kill(pid, signal.SIGSTOP)
        wait_until(lambda: status(pid, "State").startswith("T"), "it is stopped")
        asyncio.run(debug(pid))
        assert_free({0: pid})


@pytest.mark.gdb
def test_a_zombie_has_ended() -> None:
    process = subprocess.Popen(["true"])
    try:
        wait_until(lambda: not is_alive(process.pid), "it has ended")
        record, _ = asyncio.run(attach_to(process.pid))
        assert record == Failure(message=f"process {process.pid} has ended")
    finally:
        process.wait()


@pytest.mark.gdb
def test_a_rank_that_is_killed_while_it_is_attached_to(builder: Builder) -> None:
    program = builder.build(find_mpi("openmpi"), "nompi.c")

    async def attach_and_kill(pid: int, after_s: float) -> Record:
        async with asyncio.timeout(DEADLINE_S), debugger(Notifications()) as rank:
            asyncio.get_running_loop().call_later(after_s, os.kill, pid, signal.SIGKILL)
            return await rank.attach(pid, 1)

    for number in range(8):
        with started(str(program.path)) as pid:
            record = asyncio.run(attach_and_kill(pid, 0.005 * number))
            # It may have been there long enough to be seen.
            assert isinstance(record, Stop) or record == Failure(message=f"process {pid} has ended")


@pytest.mark.gdb
def test_a_rank_that_executes_programs_all_the_time(builder: Builder) -> None:
    program = builder.build(find_mpi("openmpi"), "reexec.c")
    with started(str(program.path), executes_itself=True) as pid:
        named = 0
        for _ in range(8):
            record, frames = asyncio.run(attach_to(pid))
            assert isinstance(record, Stop) and record.reason == "attached", record
            # Before its libraries are there it has no frames to name.
            named += bool(frames) and frames[-1].function == "main"
        assert named
        assert_free({0: pid})


SCRIPTS = Path(__file__).parents[1] / "programs"


@pytest.mark.gdb
@pytest.mark.parametrize(
    ("words", "program"),
    [
        ((str(SCRIPTS / "script.py"),), "script.py"),
        (("python3", "-W", "ignore", str(SCRIPTS / "script.py"), "1"), "script.py"),
        (("python3", "-m", "this"), "-m this"),
        ((str(SCRIPTS / "wrapper.sh"), str(SCRIPTS / "script.py")), "script.py"),
        (("python3", "-c", "pass"), ""),
        (("cat", "/dev/null"), ""),
    ],
)
def test_the_script_of_an_interpreter_is_named(words: tuple[str, ...], program: str) -> None:
    with held(*words) as pid:
        record, _, _ = asyncio.run(examine_held(pid))
    assert isinstance(record, Stop)
    assert record.reason in ("main", "entry")
    name, _, script = record.program.partition(" running ")
    assert script == program
    assert name.startswith("python3") == bool(program)


@pytest.mark.gdb
def test_a_python_program_below_a_shell_script_is_followed(tmp_path: Path) -> None:
    script = tmp_path / "job.py"
    script.write_text("import time\ntry:\n    import mpi4py\nexcept ImportError:\n    pass\n")
    shell = tmp_path / "job.sh"
    shell.write_text(
        "#!/bin/bash\nx=$(python3 -c 'print(1)')\ncd /\npython3 $OLDPWD/job.py $x\n:\n"
    )
    shell.chmod(0o755)
    with held("env", "-C", str(tmp_path), str(shell)) as pid:
        record, _, _ = asyncio.run(examine_held(pid))
    assert isinstance(record, Stop)
    assert record.program.endswith(" running job.py")


@pytest.mark.gdb
def test_a_rank_that_has_begun_meanwhile_is_attached_to() -> None:
    with held("sleep", "60") as pid:
        os.kill(pid, hold.RELEASE)
        comm = Path(f"/proc/{pid}/comm")
        wait_until(lambda: comm.read_text().strip() == "sleep", "it has begun")
        record, (stack,), _ = asyncio.run(examine_held(pid, "backtrace"))
        assert isinstance(record, Stop)
        assert record.reason == "attached"
        assert "nanosleep" in stack
        assert status(pid, "State").startswith("S")


@pytest.mark.gdb
@pytest.mark.parametrize("goes_on", [True, False])
def test_a_held_rank_that_cannot_be_attached_to(goes_on: bool) -> None:
    async def refused(pid: int) -> Record:
        async with (
            asyncio.timeout(DEADLINE_S),
            debugger(Notifications()) as one,
            debugger(Notifications()) as other,
        ):
            await one.attach(pid, 1)
            return await other.acquire_held(pid, 1, runs_on=goes_on)

    with held("sleep", "60") as pid:
        record = asyncio.run(refused(pid))
        assert isinstance(record, Failure)
        assert "is already traced" in record.message
        comm = Path(f"/proc/{pid}/comm")
        if goes_on:
            wait_until(lambda: comm.read_text().strip() == "sleep", "it goes on")
        else:
            assert comm.read_text().strip() == hold.HELD_NAME


@pytest.mark.gdb
def test_a_program_without_symbols_below_a_shell_script_is_stopped(tmp_path: Path) -> None:
    # The shell has a main, where nobody comes by any longer.
    program = tmp_path / "job"
    shutil.copy("/bin/true", program)
    with program.open("ab") as file:
        file.write(b"MPI_Init")
    shell = tmp_path / "job.sh"
    shell.write_text("#!/bin/bash\n/bin/true\n${0%.sh}\n:\n")
    shell.chmod(0o755)
    with held(str(shell)) as pid:
        record, (inferiors,), _ = asyncio.run(examine_held(pid, "info inferiors"))
    assert isinstance(record, Stop)
    assert record.reason == "entry"
    assert len(inferiors.splitlines()) == 2, inferiors  # the heading is one of them
    assert record.program == ""


@pytest.mark.gdb
def test_a_rank_that_nothing_can_stop_now_is_refused_with_the_reason(
    builder: Builder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pgdb.backend.gdb.unstoppable.PATIENCE_S", 0.2)
    program = builder.build(find_mpi("openmpi"), "vforked.c")
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    line = [program.path, tmp_path, pipe]
    process = subprocess.Popen(line, stdin=subprocess.DEVNULL)
    try:
        # A process that reads its program from a disk is in this state, too.
        wait_until(lambda: procfs.children(process.pid), "it has made a child")
        wait_until(lambda: status(process.pid, "State").startswith("D"), "it waits in vfork")
        record = asyncio.run(only_attach_to(process.pid))
        assert isinstance(record, Failure), record
        assert f"its thread {process.pid} sleeps in the kernel" in record.message
        assert "'reattach' attaches to it" in record.message
        pipe.write_bytes(b"x")
        wait_until(lambda: not status(process.pid, "State").startswith("D"), "it has gone on")
        record, frames = asyncio.run(attach_to(process.pid))
        assert isinstance(record, Stop), record
        assert frames[-1].function == "main"
        assert_free({0: process.pid})
    finally:
        with suppress(OSError):
            os.close(os.open(pipe, os.O_RDWR | os.O_NONBLOCK))
        process.kill()
        process.wait()
