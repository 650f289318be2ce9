"""Ranks that are not as one would like them: in containers, replaced, stopped, traced, dying."""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
import subprocess
import sys
import uuid
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager, suppress
from pathlib import Path

import pytest

from pgdb.backend.care.breakpoint_repair import Repair, repair
from pgdb.backend.gdb.debugger import GdbDebugger
from pgdb.backend.rank.states import Interrupting, Resuming
from pgdb.backend.zygote.gdb_factory import GdbFactory
from pgdb.backend.zygote.index_cache import IndexCache
from pgdb.jobs import hold
from pgdb.overlay.messages import Backtrace, Console, Detach, Interrupt, Resume
from pgdb.records import Done, Event, Failure, Frame, Record, Running, Stack, Stop, Text
from tests.conftest import Build, StartJob
from tests.support.processes import (
    is_alive,
    is_traced,
    kill_all,
    processes_with,
    rank_of,
    status,
    switches_of,
    variables_of,
    wait_progress,
    wait_settled,
    wait_until,
)
from tests.support.programs import Builder, Mpi, Program, find_mpi
from tests.support.terminal import Finished, assert_untouched, ex, run_json

_MARK = "PGDB_TEST_ODD"
DEADLINE_S = 120.0


# -- jobs whose ranks are not the programs that the launcher has started -------------------------


@contextmanager
def running(line: Sequence[str], count: int, name: str) -> Iterator[tuple[int, dict[int, int]]]:
    """Run a job until *count* of its processes are the program *name*; give launcher and ranks."""
    mark = uuid.uuid4().hex
    process = subprocess.Popen(
        line, stdin=subprocess.DEVNULL, env=os.environ | {_MARK: mark}, start_new_session=True
    )
    try:
        wait_until(
            lambda: process.poll() is not None or len(ranks_of(mark, name)) == count,
            f"{count} ranks of {line} are up",
            DEADLINE_S,
        )
        assert process.poll() is None, f"{line} ended, status {process.returncode}"
        ranks = ranks_of(mark, name)
        wait_settled(ranks.values())
        yield process.pid, ranks
    finally:
        process.kill()
        process.wait()
        kill_all(lambda: processes_with(f"{_MARK}={mark}"), f"the processes of {line}")


def ranks_of(mark: str, name: str) -> dict[int, int]:
    """Return the processes with a mark that are the program, by rank."""
    found = {}
    for pid in processes_with(f"{_MARK}={mark}"):
        with suppress(OSError):
            if Path(f"/proc/{pid}/comm").read_text().strip() != name:
                continue
            if (rank := rank_of(variables_of(pid))) is not None:
                # A shell's child is one, too, until it has executed its program.
                found[rank] = min(pid, found.get(rank, pid))
    return dict(sorted(found.items()))


def assert_free(ranks: dict[int, int]) -> None:
    """Check that ranks in a container run free, progress, and have no breakpoint in them."""
    for pid in ranks.values():
        assert not is_traced(pid)
        assert repair(pid) == Repair()
    before = {pid: switches_of(pid) for pid in ranks.values()}
    wait_until(
        lambda: all(switches_of(pid) >= before[pid] + 10 for pid in ranks.values()), "they get on"
    )


# -- containers ----------------------------------------------------------------------------------


@pytest.fixture(scope="session")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A root directory with a program in it, under the name of one that is here as well."""
    compiler = shutil.which("cc") or pytest.skip("this machine has no C compiler")
    source = Path(__file__).parents[1] / "programs" / "inside.c"
    root = tmp_path_factory.mktemp("tree")
    for name in ("usr/bin", "opt/inside", "old"):
        (root / name).mkdir(parents=True)
    build = [compiler, "-g", "-O0", str(source)]
    library = root / "opt/inside/libinside.so"
    subprocess.run([*build, "-DLIBRARY", "-fPIC", "-shared", "-o", library], check=True, timeout=60)
    link = ["-L", str(library.parent), "-linside", "-Wl,-rpath,/opt/inside"]
    subprocess.run([*build, *link, "-o", root / "usr/bin/env"], check=True, timeout=60)
    told = subprocess.run(
        ["ldd", root / "usr/bin/env"], check=True, capture_output=True, text=True, timeout=60
    ).stdout
    for word in told.split():
        if word.startswith("/"):
            (root / word[1:]).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(word, root / word[1:])
    return root


NEW_ROOT = Path(__file__).parents[1] / "programs" / "inside.sh"
CONTAINERS = {
    "chroot": ("unshare", "--mount", "chroot"),
    "chroot of a user": ("unshare", "--map-root-user", "--mount", "chroot"),
    "new root": ("unshare", "--mount", str(NEW_ROOT)),
    "new root of a user": ("unshare", "--map-root-user", "--mount", str(NEW_ROOT)),
    "with its own process ids": (
        *("unshare", "--map-root-user", "--mount", "--pid", "--fork", "--kill-child"),
        str(NEW_ROOT),
    ),
}


@pytest.mark.mpi
@pytest.mark.parametrize("kind", CONTAINERS)
def test_ranks_in_containers(builder: Builder, tree: Path, kind: str) -> None:
    words = [*CONTAINERS[kind], str(tree)]
    if subprocess.run([*words[: words.index("--mount") + 1], "true"], check=False).returncode:
        pytest.skip(f"this machine does not allow {' '.join(words[:3])}")
    mpi = find_mpi("openmpi")
    line = mpi.line(2, words[0], *words[1:], "/usr/bin/env")
    source = Program(path=tree, source=Path(__file__).parents[1] / "programs" / "inside.c")
    with running(line, 2, "env") as (launcher, ranks):
        commands = ("bt", "info sharedlibrary", "break library_pause", "c", "p last_step >= 0")
        finished = run_json("attach", *ex(*commands), launcher)
        assert finished.status == 0, finished.out
        (stack,) = finished.answer("backtrace")["classes"]
        frames = {each["function"]: each for each in stack["record"]["frames"]}
        assert frames["main"]["line"] == source.line("main")
        assert frames["library_pause"]["arguments"][0]["name"] == "step"
        # By the rank's own names, so that all ranks are of one class.
        (libraries,) = finished.answer("info sharedlibrary")["classes"]
        assert " /opt/inside/libinside.so" in libraries["record"]["text"]
        (hit,) = finished.answer("continue")["classes"]
        assert (hit["record"]["reason"], hit["record"]["frame"]["line"]) == (
            "breakpoint-hit",
            source.line("library"),
        )
        assert finished.answer("print last_step >= 0")["classes"][0]["value"] == 1
        assert_free(ranks)


def test_breakpoints_are_taken_out_of_a_rank_in_a_container(tree: Path) -> None:
    words = [*CONTAINERS["chroot of a user"], str(tree)]
    if subprocess.run([*words[:3], "true"], check=False).returncode:
        pytest.skip("this machine does not allow unshare --map-root-user --mount")
    with started(*words, "/usr/bin/env", name="env") as pid:
        assert_mended(pid)


def test_breakpoints_are_taken_out_of_a_rank_whose_program_was_deleted(
    builder: Builder, tmp_path: Path
) -> None:
    path = copy_of(builder.build(find_mpi("openmpi"), "nompi.c"), tmp_path)
    with started(str(path), name="nompi") as pid:
        path.unlink()
        assert_mended(pid)


def assert_mended(pid: int) -> None:
    """Check that a breakpoint is taken out of the first code that a process has mapped."""
    with open(f"/proc/{pid}/maps") as maps:
        fields = next(line.split() for line in maps if " r-xp " in line)
    at = int(fields[0].partition("-")[0], 16) + 64
    with open(f"/proc/{pid}/mem", "r+b", buffering=0) as memory:
        memory.seek(at)
        original = memory.read(1)
        memory.seek(at)
        memory.write(b"\xcc")
        assert repair(pid) == Repair(restored=int(original != b"\xcc"))
        memory.seek(at)
        assert memory.read(1) == original


# -- ranks of ordinary jobs ------------------------------------------------------------------------


def copy_of(program: Program, directory: Path) -> Path:
    return Path(shutil.copy(program.path, directory / program.path.name))


@pytest.mark.mpi
@pytest.mark.any_mpi
@pytest.mark.parametrize("replacement", [None, "/bin/true"])
def test_a_program_that_was_replaced_while_it_runs(
    build: Build, mpi: Mpi, tmp_path: Path, replacement: str | None
) -> None:
    program = build("nompi.c")
    path = copy_of(program, tmp_path)
    with running(mpi.line(2, path), 2, "nompi") as (launcher, ranks):
        path.unlink()
        if replacement:
            shutil.copy(replacement, path)
        finished = run_json("attach", *ex("bt"), launcher)
        assert finished.status == 0
        (stack,) = finished.answer("backtrace")["classes"]
        assert stack["record"]["frames"][-1]["function"] == "main"
        assert stack["record"]["frames"][-1]["line"] == program.line("step")
        assert_free(ranks)


@pytest.mark.mpi
@pytest.mark.any_mpi
def test_a_rank_that_was_stopped_is_stopped_again(build: Build, start_job: StartJob) -> None:
    with start_job(3, build("threads.c")) as job:
        os.kill(job.ranks[1], signal.SIGSTOP)
        wait_until(lambda: status(job.ranks[1], "State").startswith("T"), "rank 1 is stopped")
        # It runs while it is debugged, and does not stop at what stopped it.
        commands = ("c &", "p 1", "interrupt", "wait", "c &", "interrupt", "wait", "bt")
        finished = run_json("attach", *ex(*commands), job.pid)
        reasons = {each["reason"] for stop in finished.of_type("stop") for each in stop["classes"]}
        assert "signal-received" not in reasons, finished.out
        assert finished.answer("backtrace")["ranks"] == "0-2"
        wait_until(lambda: status(job.ranks[1], "State").startswith("T"), "rank 1 is stopped again")
        os.kill(job.ranks[1], signal.SIGCONT)
        assert_untouched(job.ranks)


@pytest.mark.mpi
@pytest.mark.any_mpi
def test_a_rank_that_is_traced_already(build: Build, start_job: StartJob) -> None:
    with start_job(3, build("storm.c")) as job:
        other = subprocess.Popen(
            ["gdb", "-nx", "-q", "-p", str(job.ranks[1])],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        try:
            wait_until(lambda: is_traced(job.ranks[1]), "rank 1 is traced", DEADLINE_S)
            finished = run_json("attach", *ex("break hit", "c"), job.pid)
            said = finished.out + finished.err
            assert f"is already traced by {other.pid} (gdb)" in said
            assert [each["ranks"] for each in finished.answer("continue")["classes"]] == ["0,2"]
        finally:
            other.communicate()  # the end of its input
        assert_untouched(job.ranks)


@pytest.mark.mpi
@pytest.mark.any_mpi
def test_the_program_ends_below_a_shell_that_lives_on(build: Build, mpi: Mpi) -> None:
    program = build("nompi.c")
    line = mpi.line(2, "bash", "-c", f"{program.path}; exec sleep 300")
    with running(line, 2, "nompi") as (launcher, ranks):
        commands = (f"break {program.at('step')}", "c", "delete", "set var steps = 0", "c")
        finished = run_json("attach", *ex(*commands), launcher)
        told = [each["record"] for each in finished.answers("continue")[1]["classes"]]
        assert [(each["kind"], each["code"]) for each in told] == [("exit", 0)]
        assert ends(finished) == {0}
        assert is_alive(launcher)
        assert not any(is_alive(pid) for pid in ranks.values())


@pytest.mark.mpi
def test_a_script_that_starts_one_short_program_after_the_other(mpi: Mpi) -> None:
    line = mpi.line(3, "bash", "-c", "while :; do /bin/sleep 0.001; done")
    with running(line, 3, "bash") as (launcher, _):
        for _ in range(4):
            finished = run_json("attach", *ex("print 40 + 2"), launcher)
            assert finished.status == 0, finished.out + finished.err
            told = finished.answer("print 40 + 2")["classes"]
            assert [(each["ranks"], each["record"]["text"]) for each in told] == [("0-2", "42")]


# -- launching -------------------------------------------------------------------------------------


def ends(finished: Finished) -> set[int]:
    return {each["code"] for line in finished.of_type("exit") for each in line.get("classes", ())}


@pytest.mark.mpi
def test_a_script_that_names_its_interpreter(mpi: Mpi, build: Build) -> None:
    finished = run_json("launch", *ex("c"), *mpi.line(2, build("script.py"), "3"))
    stop = finished.of_type("stop")[0]["classes"][0]
    assert (stop["ranks"], stop["reason"]) == ("0-1", "main")
    assert stop["frame"]["function"] in ("main", "Py_BytesMain")
    assert "the script runs" in "".join(each["text"] for each in finished.of_type("output"))
    assert ends(finished) == {3}


@pytest.mark.mpi
def test_arguments_with_newlines(mpi: Mpi, build: Build) -> None:
    program = build("nompi.c")
    finished = run_json("launch", *ex("p argv[3]", "c"), *mpi.line(2, program, "-", "1", "a\nb\n"))
    assert finished.answer("print argv[3]")["classes"][0]["record"]["text"].endswith('"a\\nb\\n"')
    assert ends(finished) == {0}


# -- one rank under one GDB ------------------------------------------------------------------------


@contextmanager
def started(*words: str, name: str = "", executes_itself: bool = False) -> Iterator[int]:
    """Run a program by itself that sleeps now and then, until it is called *name*; give its pid."""
    process = subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
    try:
        comm = Path(f"/proc/{process.pid}/comm")
        wait_until(lambda: comm.read_text().strip() == (name or Path(words[0]).name), f"{words}")
        # In its main, where it sleeps again and again.
        if executes_itself:
            wait_progress(process.pid)
        else:
            wait_settled([process.pid])
        yield process.pid
    finally:
        process.kill()
        process.wait()


class Told(list[Event]):
    """Notifications of one rank."""

    def __call__(self, rank: int, event: Event) -> None:
        assert rank == 0
        self.append(event)


@asynccontextmanager
async def inferior(told: Told) -> AsyncIterator[GdbDebugger]:
    gdb = shutil.which("gdb") or pytest.skip("this machine has no GDB")
    rank = GdbDebugger(
        0,
        gdb_factory=GdbFactory(gdb, dict(os.environ), (), IndexCache(os.environ, print)),
        program="",
        notify=told,
    )
    try:
        yield rank
    finally:
        await rank.detach(DEADLINE_S)


async def attach_to(pid: int) -> tuple[Record, tuple[Frame, ...]]:
    """Attach to a process, look where it is, detach."""
    async with asyncio.timeout(DEADLINE_S), inferior(Told()) as rank:
        record = await rank.attach(pid, 1)
        stack = await rank.perform(Backtrace(limit=0), 2)
        return record, stack.frames if isinstance(stack, Stack) else ()


@pytest.mark.gdb
def test_what_is_unusual_about_a_rank_is_told(builder: Builder, tmp_path: Path) -> None:
    path = copy_of(builder.build(find_mpi("openmpi"), "nompi.c"), tmp_path)
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
    """As while the C library starts a thread."""
    looks = []

    def blocked(pid: int, number: signal.Signals) -> bool:
        looks.append((pid, number))
        return len(looks) < 4

    async def debug(pid: int) -> tuple[Record, Told]:
        async with asyncio.timeout(DEADLINE_S), inferior(told := Told()) as rank:
            await rank.attach(pid, 1)
            await rank.perform(Resume(command="continue"), 2)
            said = await rank.perform(Interrupt(), 3)
            while rank.state != "stopped":
                await asyncio.sleep(0.01)
            return said, told

    monkeypatch.setattr("pgdb.jobs.procfs.blocked_in_all_threads", blocked)
    with started(str(builder.build(find_mpi("openmpi"), "nompi.c").path)) as pid:
        said, told = asyncio.run(debug(pid))
        assert said == Done()
        assert looks == [(pid, signal.SIGURG)] * 4
    stops = [each for each in told if isinstance(each, Stop)]
    assert [each.reason for each in stops][-1:] == ["interrupted"]


@pytest.mark.mpi
@pytest.mark.any_mpi
def test_a_rank_that_is_about_to_run_says_that_it_blocks_the_signal(
    build: Build, start_job: StartJob
) -> None:
    async def debug(pid: int) -> tuple[Record, Record, bool]:
        async with asyncio.timeout(DEADLINE_S), inferior(Told()) as rank:
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
        async with asyncio.timeout(DEADLINE_S), inferior(Told()) as rank:
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
        async with asyncio.timeout(DEADLINE_S), inferior(Told()) as rank:
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


async def take(pid: int, *commands: str) -> tuple[Record, list[str], list[Event]]:
    """Bring a held rank to its main, run GDB commands, detach."""
    told = Told()
    async with asyncio.timeout(DEADLINE_S), inferior(told) as rank:
        record = await rank.acquire_held(pid, 1)
        texts = []
        for command in commands:
            answer = await rank.perform(Console(command=command), 2)
            texts.append(answer.text if isinstance(answer, Text) else repr(answer))
        return record, texts, told


@contextmanager
def held(*program: str) -> Iterator[int]:
    """Hold a rank that has no launcher."""
    words = [sys.executable, "-I", "-S", hold.__file__, uuid.uuid4().hex, "127.0.0.1:1", "30", "1"]
    # Not the first rank of its host, which would not stay without a front end.
    variables = {"PMI_RANK": "1", "PMI_SIZE": "2", "MPI_LOCALRANKID": "1", "MPI_LOCALNRANKS": "2"}
    process = subprocess.Popen(
        [*words, "--", *program],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        env=os.environ | variables,
    )
    try:
        comm = Path(f"/proc/{process.pid}/comm")
        wait_until(lambda: comm.read_text().strip() == hold.HELD_NAME, "it is held")
        yield process.pid
    finally:
        process.kill()
        process.wait()


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
        record, _, _ = asyncio.run(take(pid))
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
        record, _, _ = asyncio.run(take(pid))
    assert isinstance(record, Stop)
    assert record.program.endswith(" running job.py")


@pytest.mark.gdb
def test_a_rank_that_has_begun_meanwhile_is_attached_to() -> None:
    with held("sleep", "60") as pid:
        os.kill(pid, hold.RELEASE)
        comm = Path(f"/proc/{pid}/comm")
        wait_until(lambda: comm.read_text().strip() == "sleep", "it has begun")
        record, (stack,), _ = asyncio.run(take(pid, "backtrace"))
        assert isinstance(record, Stop)
        assert record.reason == "attached"
        assert "nanosleep" in stack
        assert status(pid, "State").startswith("S")


@pytest.mark.gdb
@pytest.mark.parametrize("goes_on", [True, False])
def test_a_held_rank_that_cannot_be_attached_to(goes_on: bool) -> None:
    async def refused(pid: int) -> Record:
        async with asyncio.timeout(DEADLINE_S), inferior(Told()) as one, inferior(Told()) as other:
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
        record, (inferiors,), _ = asyncio.run(take(pid, "info inferiors"))
    assert isinstance(record, Stop)
    assert record.reason == "entry"
    assert len(inferiors.splitlines()) == 2, inferiors  # the heading is one of them
    assert record.program == ""


async def only_attach_to(pid: int) -> Record:
    async with asyncio.timeout(DEADLINE_S), inferior(Told()) as rank:
        return await rank.attach(pid, 1)


@pytest.mark.gdb
def test_a_rank_that_nothing_can_stop_now_is_refused_with_the_reason(
    builder: Builder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pgdb.backend.gdb.attach.PATIENCE_S", 0.2)
    program = builder.build(find_mpi("openmpi"), "vforked.c")
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    line = [program.path, tmp_path, pipe]
    process = subprocess.Popen(line, stdin=subprocess.DEVNULL)
    try:
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


@pytest.mark.mpi
@pytest.mark.any_mpi
def test_ranks_beside_one_that_nothing_can_stop_are_attached_to(
    mpi: Mpi, build: Build, tmp_path: Path
) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    script = tmp_path / "job.sh"
    rank = "${OMPI_COMM_WORLD_RANK:-${PMI_RANK:-$PMIX_RANK}}"
    program = build("vforked.c").path
    begin = tmp_path / "begin"
    words = f"{program} {begin} {pipe}"
    script.write_text(f"#!/bin/sh\n[ {rank} = 1 ] && exec {words}\nexec {program}\n")
    script.chmod(0o755)
    with running(mpi.line(3, script), 3, "vforked") as (launcher, ranks):
        begin.touch()
        wait_until(lambda: status(ranks[1], "State").startswith("D"), "it waits in vfork")
        finished = run_json("attach", *ex("print 6 * 7"), launcher)
        assert [each["ranks"] for each in finished.answer("print 6 * 7")["classes"]] == ["0,2"]
        assert "sleeps in the kernel" in finished.out + finished.err
        pipe.write_bytes(b"x")
        assert_free(ranks)
