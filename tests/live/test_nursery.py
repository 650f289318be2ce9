"""GDBs that are forked from one that has read the symbols, on processes without MPI."""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Coroutine, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

import pytest

from pgdb.backend.gdb.debugger import GdbDebugger
from pgdb.backend.sbd.mapped_objects import linked
from pgdb.backend.sbd.rank_files import look_at
from pgdb.backend.zygote import nursery
from pgdb.backend.zygote.gdb_factory import GdbFactory
from pgdb.backend.zygote.index_cache import IndexCache, is_whole
from pgdb.backend.zygote.nursery import Nurseries
from pgdb.errors import GdbError
from pgdb.jobs.gdb_program import check_gdb
from pgdb.overlay.messages import (
    Backtrace,
    Console,
    Detach,
    Evaluate,
    InsertBreakpoint,
    Interrupt,
    Resume,
)
from pgdb.records import Breakpoint, Done, Event, Failure, Gone, Running, Stack, Stop, Text, Value
from tests.support.processes import (
    has_opened,
    is_alive,
    is_traced,
    require_calls,
    status,
    wait_opened,
    wait_progress,
    wait_until,
    write_gdb,
)
from tests.support.programs import Program

PROGRAM = Path(__file__).parent.parent / "programs" / "opener.c"
LIBRARY = PROGRAM.with_name("visit.c")
DEADLINE_S = 120.0
SAY = """
#include <string>
#include <unistd.h>
static int say(const std::string &who, int times) { for (;;) usleep(1000); return times; }
int main() { return say("the rank", 1); }
"""

pytestmark = [
    pytest.mark.gdb,
    pytest.mark.skipif(not shutil.which("cc"), reason="this machine has no C compiler"),
    pytest.mark.skipif(not shutil.which("gdb"), reason="this machine has no GDB"),
]


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder with the program, under two names, and the object that it opens."""
    folder = tmp_path_factory.mktemp("nursery")
    for line in (
        ["cc", "-g", "-O0", "-o", "opener", str(PROGRAM), "-ldl"],
        ["cc", "-g", "-O0", "-o", "another one", str(PROGRAM), "-ldl"],
        ["cc", "-g", "-O0", "-shared", "-fPIC", "-o", "visit.so", str(LIBRARY)],
    ):
        subprocess.run(line, cwd=folder, check=True, stdin=subprocess.DEVNULL, timeout=120)
    return folder


@contextmanager
def running(*lines: list[str]) -> Iterator[list[int]]:
    """Run programs until they are in their main; give their pids."""
    processes = [subprocess.Popen(line, stdin=subprocess.DEVNULL) for line in lines]
    try:
        for process in processes:
            wait_progress(process.pid)
        yield [process.pid for process in processes]
    finally:
        for process in processes:
            process.kill()
            process.wait()


class Ranks:
    """Processes as ranks of one aggregator."""

    def __init__(self, gdb: str, environment: dict[str, str], expected: str = "") -> None:
        self.notices: list[str] = []
        self.told: dict[int, list[Event]] = {}
        index_cache = IndexCache(environment, self.notices.append)
        self.nurseries = Nurseries(gdb, environment, self.notices.append, index_cache)
        self._gdb_factory = GdbFactory(
            gdb,
            environment,
            (),
            index_cache,
            self.nurseries,
            expected_version=expected,
            notice=self.notices.append,
        )
        self.all: list[GdbDebugger] = []

    async def attach(self, pids: list[int]) -> list[Any]:
        """Attach to all at once; return what each says."""
        first = len(self.all)
        for rank in range(first, first + len(pids)):
            self.told[rank] = []
            self.all.append(
                GdbDebugger(
                    rank,
                    gdb_factory=self._gdb_factory,
                    program="",
                    notify=lambda rank, event: self.told[rank].append(event),
                )
            )
        return await asyncio.gather(
            *(each.attach(pid, 1) for each, pid in zip(self.all[first:], pids, strict=True))
        )

    async def ask(self, operation: Any, number: int = 2) -> list[Any]:
        """Have all carry out an operation."""
        return await asyncio.gather(*(each.perform(operation, number) for each in self.all))

    async def heard(self, kind: type[Event], count: int) -> None:
        """Wait until every rank has reported so many events of a kind."""
        while any(sum(isinstance(e, kind) for e in told) < count for told in self.told.values()):
            await asyncio.sleep(0.01)

    async def nursery(self, pid: int) -> nursery.Nursery:
        """Return the nursery for a process."""
        made = await self.nurseries.find(look_at(pid), pid)
        assert made is not None
        return made

    def parents(self) -> set[int]:
        """Return the parents of all ranks' GDBs."""
        return {int(status(each.gdb_pid, "PPid")) for each in self.all}


@asynccontextmanager
async def ranks(
    gdb: str = "", *, environment: dict[str, str] | None = None, expected: str = ""
) -> AsyncIterator[Ranks]:
    found = Ranks(gdb or shutil.which("gdb") or "gdb", environment or dict(os.environ), expected)
    try:
        yield found
    finally:
        await asyncio.gather(*(each.detach(DEADLINE_S) for each in found.all))
        await found.nurseries.close()


async def told_by(rank: GdbDebugger, *commands: str) -> list[str]:
    """Have one rank's GDB carry out commands; return what the last one printed, by lines."""
    for command in commands:
        said = await rank.perform(Console(command=command), 9)
        assert not isinstance(said, Failure), said
    return said.text.split() if isinstance(said, Text) else []


def run(test: Coroutine[Any, Any, None]) -> None:
    async def bounded() -> None:
        async with asyncio.timeout(DEADLINE_S):
            await test

    asyncio.run(bounded())


def functions(stack: Any) -> list[str]:
    assert isinstance(stack, Stack), stack
    return [frame.function for frame in stack.frames]


def test_all_ranks_are_forked_from_one(built: Path) -> None:
    async def test(pids: list[int]) -> None:
        async with ranks() as found:
            stops = await found.attach(pids)
            for each in stops:
                assert isinstance(each, Stop) and each.reason == "attached"
            assert len(found.parents()) == 1 and os.getpid() not in found.parents()
            for stack in await found.ask(Backtrace()):
                assert functions(stack)[-2:] == ["go_on", "main"]
            # Commands look at the frame that the stop was reported with.
            for stop, said in zip(stops, await found.ask(Console(command="frame")), strict=True):
                assert f"#{stop.frame.level} " in said.text and stop.frame.level > 0
            values = await found.ask(Evaluate(expression="steps"))
            assert all(isinstance(each, Value) and int(each.text) > 0 for each in values)
            # The process that has read the symbols is gone again.
            (inferiors, *_) = await found.ask(Console(command="info inferiors"))
            assert isinstance(inferiors, Text)
            assert [line.split()[:1] for line in inferiors.text.splitlines()[1:]] == [["*"]]
            (printers, *_) = await found.ask(Console(command="info pretty-printer"))
            assert "builtin" in printers.text and "look_up" not in printers.text
            (threads, *_) = await found.ask(Console(command="info threads"))
            assert "* 1 " in threads.text and "1.1" not in threads.text
        assert found.notices == []
        assert not any(is_traced(pid) for pid in pids)

    with running(*([str(built / "opener")] for _ in range(5))) as pids:
        run(test(pids))


@pytest.mark.skipif(not shutil.which("c++"), reason="this machine has no C++ compiler")
def test_values_of_classes_are_printed_as_by_any_gdb(tmp_path: Path) -> None:
    """The stacks are complete also before a GDB has been asked anything else, and afterwards."""
    require_calls()
    (tmp_path / "say.cpp").write_text(SAY)
    line = ["c++", "-g", "-O0", "-o", "say", "say.cpp"]
    subprocess.run(line, cwd=tmp_path, check=True, stdin=subprocess.DEVNULL, timeout=120)

    async def test(pids: list[int]) -> None:
        async with ranks() as found:
            await found.attach(pids)
            for _ in range(2):
                for stack in await found.ask(Backtrace()):
                    assert isinstance(stack, Stack), stack
                    say = next(each for each in stack.frames if each.function == "say")
                    given = {each.name: each.value for each in say.arguments}
                    assert given == {"who": '"the rank"', "times": "1"}
            await found.ask(Console(command="frame function say"))
            (word, *_) = await found.ask(Evaluate(expression="who.size()"))
            assert word == Value(text="8")
            for stack in await found.ask(Backtrace()):
                assert '"the rank"' in str(stack)
        assert found.notices == []

    with running([str(tmp_path / "say")], [str(tmp_path / "say")]) as pids:
        run(test(pids))


def test_they_run_and_stop_apart(built: Path) -> None:
    async def test(pids: list[int]) -> None:
        async with ranks() as found:
            await found.attach(pids)
            set_ = await found.ask(InsertBreakpoint(command="break go_on", first_number=1))
            for each in set_:
                (breakpoint_,) = each.breakpoints
                assert isinstance(breakpoint_, Breakpoint) and breakpoint_.location_count == 1
            for number in range(2, 12):
                await found.ask(Resume(command="continue"), number)
                await found.heard(Stop, number - 1)
            for told in found.told.values():
                stops = [each for each in told if isinstance(each, Stop)]
                assert {each.reason for each in stops} == {"breakpoint-hit"}
                assert {each.breakpoint for each in stops} == {1}
            before = await found.ask(Evaluate(expression="steps"))
            await found.ask(Resume(command="continue"), 20)
            await found.heard(Stop, 11)
            after = await found.ask(Evaluate(expression="steps"))
            assert [int(each.text) + 1 for each in before] == [int(each.text) for each in after]
        for pid in pids:
            wait_progress(pid)

    with running(*([str(built / "opener")] for _ in range(6))) as pids:
        run(test(pids))


def test_each_program_has_a_nursery(built: Path) -> None:
    async def test(pids: list[int]) -> None:
        async with ranks() as found:
            await found.attach(pids)
            assert len(found.parents()) == 2 and os.getpid() not in found.parents()
            names = [each.text for each in await found.ask(Console(command="info inferiors"))]
            assert ["another one" in each for each in names] == [False, True, False, True]

    lines = [[str(built / name)] for name in ("opener", "another one") * 2]
    with running(*lines) as pids:
        run(test(pids))


def test_a_static_program_has_a_nursery(tmp_path: Path) -> None:
    source = tmp_path / "still.c"
    source.write_text("#include <unistd.h>\nint main(void) { for (;;) usleep(1000); }\n")
    line = ["cc", "-g", "-static", "-o", "still", str(source)]
    subprocess.run(line, cwd=tmp_path, check=True, stdin=subprocess.DEVNULL, timeout=120)

    async def test(pids: list[int]) -> None:
        async with ranks() as found:
            await found.attach(pids)
            (parent,) = found.parents()
            assert parent != os.getpid() and found.notices == []
            for stack in await found.ask(Backtrace()):
                assert functions(stack)[-1] == "main"

    with running(*([str(tmp_path / "still")],) * 2) as pids:
        run(test(pids))


def test_what_is_loaded_later_is_found(built: Path, tmp_path: Path) -> None:
    go = tmp_path / "go"

    async def test(pids: list[int]) -> None:
        async with ranks() as found:
            await found.attach(pids)
            for each in await found.ask(Console(command="info line visit")):
                assert isinstance(each, Failure)
            await found.ask(Resume(command="continue"), 3)
            go.touch()
            wait_opened(pids, built / "visit.so")
            await found.ask(Interrupt(), 4)
            await found.heard(Stop, 1)
            await found.ask(InsertBreakpoint(command="break visit", first_number=1))
            await found.ask(Console(command="set variable is_free = 1"))
            await found.ask(Resume(command="continue"), 4)
            await found.heard(Stop, 2)
            for stack in await found.ask(Backtrace()):
                assert functions(stack) == ["visit", "main"]

    with running(*([str(built / "opener"), str(go), str(built / "visit.so")],) * 3) as pids:
        run(test(pids))


@pytest.mark.parametrize("is_first", [True, False])
def test_a_library_that_one_rank_has_opened(built: Path, tmp_path: Path, is_first: bool) -> None:
    """The nursery has the libraries of the first, so that it knows this one as well, or not."""
    go = tmp_path / "go"
    go.touch()

    async def test(pids: list[int], visiting: int) -> None:
        async with ranks() as found:
            await found.attach(pids[:1])
            await found.attach(pids[1:])
            assert len(found.parents()) == 1 and os.getpid() not in found.parents()
            stacks = await found.ask(Backtrace())
            lines = await found.ask(Console(command="info line visit"))
            for pid, stack, line in zip(pids, stacks, lines, strict=True):
                here = [each for each in stack.frames if each.file == str(LIBRARY)]
                if pid == visiting:
                    assert functions(stack)[-3:] == ["stay", "visit", "main"]
                    assert [each.line for each in here] == [
                        library.line("stay"),
                        library.line("visit"),
                    ]
                    assert isinstance(line, Text) and str(LIBRARY) in line.text
                else:
                    assert functions(stack)[-1] == "main" and not here
                    assert isinstance(line, Failure) and "not defined" in line.message
        assert found.notices == []

    program, library = str(built / "opener"), Program(built / "visit.so", LIBRARY)
    with running([program, str(go), str(library.path)], [program], [program]) as pids:
        visiting, *others = pids
        wait_opened([visiting], library.path)
        assert not any(has_opened(pid, library.path) for pid in others)
        run(test([visiting, *others] if is_first else [*others, visiting], visiting))


def test_a_gdb_that_is_killed_costs_its_own_rank(built: Path) -> None:
    async def test(pids: list[int]) -> None:
        async with ranks() as found:
            await found.attach(pids)
            os.kill(found.all[1].gdb_pid, signal.SIGKILL)
            while not any(isinstance(each, Gone) for each in found.told[1]):
                await asyncio.sleep(0.01)
            (gone,) = [each for each in found.told[1] if isinstance(each, Gone)]
            assert gone.why == "GDB was ended by signal 9, which can be for want of memory"
            answers = await found.ask(Backtrace())
            assert isinstance(answers[1], Failure)
            assert isinstance(answers[0], Stack) and isinstance(answers[2], Stack)
            wait_progress(pids[1])

    with running(*([str(built / "opener")] for _ in range(3))) as pids:
        run(test(pids))


def test_a_nursery_that_dies_is_done_without(built: Path) -> None:
    async def test(pids: list[int]) -> None:
        async with ranks() as found:
            await found.attach(pids[:2])
            (parent,) = found.parents()
            os.kill(parent, signal.SIGKILL)
            wait_until(lambda: not is_alive(parent), "the nursery has ended")
            (third,) = await found.attach(pids[2:])
            assert isinstance(third, Stop)
            for stack in await found.ask(Backtrace()):
                assert functions(stack)[-1] == "main"
            assert len(found.notices) == 1 and "without the nursery" in found.notices[0]
            for each in await found.ask(Resume(command="continue"), 3):
                assert isinstance(each, Running)
        assert not any(is_traced(pid) for pid in pids)

    with running(*([str(built / "opener")] for _ in range(3))) as pids:
        run(test(pids))


def test_a_gdb_without_python_is_enough(built: Path, tmp_path: Path) -> None:
    gdb = tmp_path / "gdb"
    gdb.write_text(
        f"#!{sys.executable}\nimport os, sys\n"
        "words = ['no-such-command' if each.startswith('python') else each for each in sys.argv]\n"
        f"os.execv({shutil.which('gdb')!r}, words)\n"
    )
    gdb.chmod(0o755)

    async def test(pids: list[int]) -> None:
        async with ranks(str(gdb)) as found:
            for each in await found.attach(pids):
                assert isinstance(each, Stop)
            assert found.parents() == {os.getpid()}
            for stack in await found.ask(Backtrace()):
                assert functions(stack)[-1] == "main"
        (notice,) = found.notices
        assert "without the nursery" in notice and "as a GDB without Python does" in notice

    with running(*([str(built / "opener")] for _ in range(2))) as pids:
        run(test(pids))


def test_what_a_nursery_says_last_has_no_zeros(built: Path, tmp_path: Path) -> None:
    """As GDB 13.1 says when it has no memory for Python: that, and nothing else."""
    says = 'case "$*" in *forking_in_gdb*) printf "\\0" >&2; exit 1;; esac'
    gdb = write_gdb(tmp_path, says)

    async def test(pids: list[int]) -> None:
        async with ranks(gdb) as found:
            for each in await found.attach(pids):
                assert isinstance(each, Stop)
        (notice,) = found.notices
        assert "without the nursery" in notice and "ended (1)" in notice
        assert notice.isprintable() and "\\0" not in notice and "ended (1):" not in notice

    with running(*([str(built / "opener")] for _ in range(2))) as pids:
        run(test(pids))


def test_a_nursery_that_stalls_is_done_without(
    built: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(nursery, "STALL_S", 0.5)
    gdb = tmp_path / "gdb"
    gdb.write_text(
        "#!/bin/sh\n"
        'case "$*" in *forking_in_gdb*) exec tail -f /dev/null;; esac\n'
        f'exec {shutil.which("gdb")} "$@"\n'
    )
    gdb.chmod(0o755)

    async def test(pids: list[int]) -> None:
        async with ranks(str(gdb)) as found:
            for each in await found.attach(pids):
                assert isinstance(each, Stop)
            assert found.parents() == {os.getpid()}
            (notice,) = found.notices
            assert "without the nursery" in notice and "has not computed for 0.5 s" in notice

    with running(*([str(built / "opener")] for _ in range(2))) as pids:
        run(test(pids))


def test_a_rehearsal_leaves_nothing(built: Path) -> None:
    async def test(pids: list[int]) -> None:
        async with ranks() as found:
            await found.attach(pids[:1])
            made = await found.nursery(pids[0])
            await made.rehearse(pids[1])
            assert not is_traced(pids[1])
            wait_progress(pids[1])
            with pytest.raises(GdbError):
                await made.rehearse(made.pid)  # no debugger of itself
            assert made.is_alive
            # As in a GDB that was started for its rank, which is the first that it knows.
            (stop,) = await found.attach(pids[1:])
            assert isinstance(stop, Stop)
            for each in found.all:
                (number,) = await told_by(each, "python print(gdb.selected_thread().global_num)")
                assert number == "1"
        assert found.notices == []

    with running(*([str(built / "opener")] for _ in range(2))) as pids:
        run(test(pids))


def test_a_nursery_that_dies_in_its_rehearsal_is_done_without(
    built: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def hang(self: nursery.Nursery, pid: int) -> None:
        os.kill(self.pid, signal.SIGSTOP)
        await rehearse(self, pid)

    rehearse = nursery.Nursery.rehearse
    monkeypatch.setattr(nursery.Nursery, "rehearse", hang)
    monkeypatch.setattr(nursery, "STALL_S", 0.5)
    monkeypatch.setattr(nursery, "END_TIMEOUT_S", 0.5)

    async def test(pids: list[int]) -> None:
        async with ranks() as found:
            for each in await found.attach(pids):
                assert isinstance(each, Stop) and not each.detail
            assert found.parents() == {os.getpid()}
            (notice,) = found.notices
            assert "without the nursery" in notice and "has not computed" in notice
        for pid in pids:
            assert not is_traced(pid)
            wait_progress(pid)

    with running(*([str(built / "opener")] for _ in range(2))) as pids:
        run(test(pids))


def test_a_gdb_ends_when_its_last_process_is_free(built: Path) -> None:
    async def test(pids: list[int]) -> None:
        async with ranks() as found:
            await found.attach(pids[:2])
            one, two = found.all
            await told_by(one, "add-inferior", "inferior 3", f"attach {pids[2]}")
            for each in found.all:
                assert await each.perform(Detach(), 3) == Done()
            wait_until(lambda: not is_alive(two.gdb_pid), "its GDB has ended")
            assert not is_traced(pids[1])
            # It has another one, which a GDB that just ends would leave as it is.
            assert is_alive(one.gdb_pid)
            assert sorted(is_traced(pid) for pid in (pids[0], pids[2])) == [False, True]
        for pid in pids:
            assert not is_traced(pid)
            wait_progress(pid)

    with running(*([str(built / "opener")] for _ in range(3))) as pids:
        run(test(pids))


def test_a_damaged_index_cache_is_done_without(built: Path, tmp_path: Path) -> None:
    """A full disk leaves an index that is cut off, of which GDB 13.1 crashes."""
    environment = {**os.environ, "XDG_CACHE_HOME": str(tmp_path)}
    line = [
        "gdb", "-nx", "-q", "-batch", "-iex", "set index-cache enabled on",
        "-iex", "maint set worker-threads 0", "-ex", "info line go_on", str(built / "opener"),
    ]  # fmt: skip

    def look() -> int:
        done = subprocess.run(
            line, env=environment, check=False, capture_output=True, timeout=DEADLINE_S
        )
        return done.returncode

    assert look() == 0
    (index,) = (tmp_path / "gdb").iterdir()
    whole = index.read_bytes()
    crashes = set()
    for size_bytes in range(len(whole)):
        index.write_bytes(whole[:size_bytes])
        if is_whole(index):
            # GDB 18.1 fills it up, and nothing that is referred to is missing.
            assert size_bytes > len(whole) - 8 and look() == 0, size_bytes
            continue
        if size_bytes % 512 == 0 and look() < 0:
            crashes.add(size_bytes)
    if not crashes:
        pytest.skip("this GDB survives an index that is cut off")
    index.write_bytes(whole)
    assert is_whole(index)
    index.write_bytes(whole[: min(crashes)])

    async def test(pids: list[int]) -> None:
        async with ranks(environment=environment) as found:
            for each in await found.attach(pids):
                assert isinstance(each, Stop)
            assert len(found.parents()) == 1 and os.getpid() not in found.parents()
            for each in await found.ask(Console(command="info line go_on")):
                assert isinstance(each, Text) and "opener.c" in each.text
        assert found.notices == [f"removed a damaged index of GDB's: {index}"]
        assert is_whole(index)

    with running(*([str(built / "opener")] for _ in range(2))) as pids:
        run(test(pids))


@pytest.mark.parametrize("expected", ["", "12.9"])
def test_another_version_is_told_once(built: Path, expected: str) -> None:
    async def test(pids: list[int]) -> None:
        async with ranks(expected=expected or check_gdb("gdb")) as found:
            await found.attach(pids)
            assert len(found.notices) == bool(expected)
            assert all("12.9 at the front end" in each for each in found.notices)

    with running(*([str(built / "opener")] for _ in range(2))) as pids:
        run(test(pids))


def test_one_that_is_too_old_is_named(built: Path, tmp_path: Path) -> None:
    """It is looked at on each host: the front end knows its own only."""
    version = (
        'class V(gdb.Command):\n def __init__(s): super().__init__("show version", 0)\n'
        ' def invoke(s, *_): print("GNU gdb (GDB) 9.2\\n")\nV()\n'
    )
    (tmp_path / "version.py").write_text(version)
    gdb = tmp_path / "gdb"
    source = f"source {tmp_path}/version.py"
    gdb.write_text(f'#!/bin/sh\nexec {shutil.which("gdb")} -iex "{source}" "$@"\n')
    gdb.chmod(0o755)

    async def test(pids: list[int]) -> None:
        async with ranks(str(gdb), expected="13.1") as found:
            for pid in pids:
                with pytest.raises(GdbError, match=f"{gdb} is GDB 9.2 on this host; at least 12.1"):
                    await found.attach([pid])
            assert len([each for each in found.notices if "13.1 at the front end" in each]) == 1

    with running(*([str(built / "opener")] for _ in range(2))) as pids:
        run(test(pids))


def test_gdbs_let_go_when_nobody_listens(built: Path) -> None:
    """Their sockets are closed when the aggregator is killed."""

    async def test(pids: list[int]) -> None:
        async with ranks() as found:
            await found.attach(pids)
            await found.ask(InsertBreakpoint(command="break go_on if steps < 0", first_number=1))
            await found.ask(Resume(command="continue"), 3)
            gdbs = [each.gdb_pid for each in found.all]
            for each in found.all:
                vars(each)["on_end"] = lambda why: None  # nobody repairs the rank
                each._gdb._process._transport.abort()  # type: ignore[union-attr]
            for gdb in gdbs:
                while is_alive(gdb):
                    await asyncio.sleep(0.01)
        for pid in pids:
            assert not is_traced(pid)
            wait_progress(pid)

    with running(*([str(built / "opener")] for _ in range(3))) as pids:
        run(test(pids))


def test_what_the_linker_has_loaded(built: Path) -> None:
    with running([str(built / "opener")]) as (pid,):
        names = linked(pid)
        assert any("libc.so" in Path(name).name for name in names)
        assert all(Path(name).exists() for name in names)
    with pytest.raises(OSError):
        linked(pid)
