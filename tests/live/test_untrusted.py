"""Programs of somebody who wants the debugger to run something: attached to, without MPI."""

from __future__ import annotations

import asyncio
import os
import shutil
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from pgdb.backend.gdb import process
from pgdb.backend.gdb.debugger import GdbDebugger
from pgdb.backend.zygote.gdb_factory import GdbFactory
from pgdb.backend.zygote.index_cache import IndexCache
from pgdb.backend.zygote.nursery import Nurseries
from pgdb.overlay.messages import Console
from pgdb.records import Event, Stop, Text
from tests.support.processes import wait_progress
from tests.support.real_gdb import NEEDS_CC_AND_GDB

DEADLINE_S = 120.0

pytestmark = NEEDS_CC_AND_GDB

# Scripts in a program (GDB manual, "The .debug_gdb_scripts section"): one that stands there, and a
# file whose name looks like a further line of what GDB lists, of a script that it has loaded.
SECTION = r"""
asm(".pushsection \".debug_gdb_scripts\",\"MS\",@progbits,1\n"
    ".byte 4\n.ascii \"inlined\\n\"\n.ascii \"open('{folder}/ran-inlined', 'w')\\n\"\n.byte 0\n"
    ".byte 1\n.asciz \"{long}\\nYes     {folder}/listed.py\"\n"
    ".popsection\n");
"""
PROGRAM = """
#include <dlfcn.h>
#include <stdio.h>
#include <unistd.h>

int steps;

int main(int argc, char **argv)
{
    if (argc > 1 && !dlopen(argv[1], RTLD_NOW)) {
        fprintf(stderr, "%s\\n", dlerror());
        return 1;
    }
    for (;;) {
        usleep(1000);
        steps++;
    }
}
"""
# Wherever a name is put into a command of GDB's, its second line would be one of its own.
ODD_PROGRAM = "program\nshell touch ran-program\n"
ODD_LIBRARY = "library\nshell touch ran-library\n"


@dataclass(frozen=True)
class Trap:
    """A folder in which whatever is run by GDB leaves a file ``ran-…``."""

    folder: Path
    environment: dict[str, str]
    program: str = "program"
    library: str = "library"

    @property
    def ran(self) -> list[str]:
        return sorted(each.name for each in self.folder.glob("ran-*"))

    def start(self) -> subprocess.Popen[bytes]:
        line = [str(self.folder / self.program), str(self.folder / self.library)]
        started = subprocess.Popen(line, stdin=subprocess.DEVNULL, cwd=self.folder)
        wait_progress(started.pid)
        return started


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("untrusted")
    section = SECTION.replace("{folder}", str(folder)).replace("{long}", "x" * 400)
    (folder / "program.c").write_text(section + PROGRAM)
    (folder / "library.c").write_text(section + "int in_library;\n")
    for line in (
        ["cc", "-g", "-o", "program", "program.c", "-ldl"],
        ["cc", "-g", "-shared", "-fPIC", "-o", "library", "library.c"],
    ):
        subprocess.run(line, cwd=folder, check=True, stdin=subprocess.DEVNULL, timeout=120)
    for name, odd in (("program", ODD_PROGRAM), ("library", ODD_LIBRARY)):
        shutil.copy(folder / name, folder / odd)
    for name in ("program", ODD_PROGRAM, "library", ODD_LIBRARY):
        mark = f"{folder}/ran-{name.split()[0]}-gdb"
        (folder / f"{name}-gdb.py").write_text(f"open('{mark}-py', 'w')\n")
        (folder / f"{name}-gdb.gdb").write_text(f"shell touch '{mark}'\n")
    (folder / "listed.py").write_text(f"open('{folder}/ran-listed', 'w')\n")
    init = f"shell touch '{folder}/ran-gdbinit'\n"
    (folder / ".config" / "gdb").mkdir(parents=True)
    for name in (".gdbinit", ".gdbearlyinit", ".config/gdb/gdbinit", ".config/gdb/gdbearlyinit"):
        (folder / name).write_text(init)
    return folder


@pytest.fixture
def trap(built: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Trap:
    for each in built.glob("ran-*"):
        each.unlink()
    monkeypatch.chdir(built)
    environment = {**os.environ, "HOME": str(built), "XDG_CACHE_HOME": str(tmp_path)}
    environment.pop("XDG_CONFIG_HOME", None)
    return Trap(built, environment)


async def attached(
    trap: Trap,
    pids: Sequence[int],
    *,
    in_nursery: bool,
    commands: Sequence[str] = (),
    asked: str = "info auto-load",
) -> tuple[list[Any], list[Any], list[str]]:
    """Attach to processes; return what they said, then on being *asked*, and the notices."""
    notices: list[str] = []
    gdb = shutil.which("gdb") or "gdb"
    index_cache = IndexCache(trap.environment, notices.append)
    nurseries = Nurseries(gdb, trap.environment, notices.append, index_cache)
    gdb_factory = GdbFactory(
        gdb,
        trap.environment,
        commands,
        index_cache,
        nurseries if in_nursery else None,
        notice=notices.append,
    )

    def ignore(rank: int, event: Event) -> None:
        del rank, event

    made = [
        GdbDebugger(rank, gdb_factory=gdb_factory, program="", notify=ignore)
        for rank in range(len(pids))
    ]
    try:
        said = await asyncio.gather(
            *(each.attach(pid, 1) for each, pid in zip(made, pids, strict=True))
        )
        listed = await asyncio.gather(*(each.perform(Console(command=asked), 2) for each in made))
        return said, listed, notices
    finally:
        await asyncio.gather(*(each.detach(DEADLINE_S) for each in made))
        await nurseries.close()


def attach(
    trap: Trap, *, in_nursery: bool, commands: Sequence[str] = ()
) -> tuple[list[Any], list[Any], list[str]]:
    async def bounded() -> tuple[list[Any], list[Any], list[str]]:
        async with asyncio.timeout(DEADLINE_S):
            pids = [each.pid for each in processes]
            return await attached(trap, pids, in_nursery=in_nursery, commands=commands)

    processes = [trap.start() for _ in range(2 if in_nursery else 1)]
    try:
        return asyncio.run(bounded())
    finally:
        for each in processes:
            each.kill()
            each.wait()


@pytest.mark.parametrize("in_nursery", [True, False], ids=["nursery", "own GDB"])
@pytest.mark.parametrize(
    ("program", "library"),
    [("program", "library"), ("program", ODD_LIBRARY), (ODD_PROGRAM, "library")],
    ids=["scripts", "library's name", "program's name"],
)
def test_nothing_of_an_untrusted_program_is_run(
    trap: Trap, program: str, library: str, in_nursery: bool
) -> None:
    trap = replace(trap, program=program, library=library)
    said, listed, notices = attach(trap, in_nursery=in_nursery)
    assert all(isinstance(each, Stop) and each.reason == "attached" for each in said), said
    assert trap.ran == []
    if not in_nursery or program == ODD_PROGRAM:
        for each in listed:
            assert isinstance(each, Text) and "inlined" in each.text, "GDB has seen the scripts"
    has_nursery = in_nursery and program != ODD_PROGRAM
    assert any("without the nursery" in each for each in notices) == (
        in_nursery and not has_nursery
    )


def test_what_the_user_asks_for_is_run(trap: Trap) -> None:
    attach(trap, in_nursery=False, commands=[f"add-auto-load-safe-path {trap.folder}"])
    assert {"ran-inlined", "ran-library-gdb-py", "ran-program-gdb-py"} <= set(trap.ran)


def test_a_script_counts_as_loaded_only_where_gdb_would_load_it(tmp_path: Path) -> None:
    code = Path(process.__file__).parent
    shipped = subprocess.run(
        ["gdb", "-nx", "-batch", "-ex", "python print(gdb.parameter('data-directory'))"],
        check=True,
        capture_output=True,
        text=True,
        timeout=DEADLINE_S,
    ).stdout.strip()
    (tmp_path / "safe").mkdir()
    (tmp_path / "safe" / "link.py").symlink_to(tmp_path / "other.py")
    asked = {
        f"{shipped}/auto-load/usr/lib/libx-gdb.py": "True",
        f"{shipped}/auto-load/../../evil.py": "False",
        f"{tmp_path}/safe/x.py": "False",
        "/x.py": "False",
    }
    later = {f"{tmp_path}/safe/x.py": "True", f"{tmp_path}/safe/link.py": "False"}
    lines = [f"import sys; sys.path.insert(0, {str(code)!r}); import forking_in_gdb as f"]
    lines += [f"print(f.is_trusted({each!r}))" for each in asked]
    lines += [f"gdb.execute('add-auto-load-safe-path {tmp_path}/safe')"]
    lines += [f"print(f.is_trusted({each!r}))" for each in later]
    options = [word for line in lines for word in ("-ex", f"python {line}")]
    done = subprocess.run(
        ["gdb", "-nx", "-batch", *options],
        check=True,
        capture_output=True,
        text=True,
        timeout=DEADLINE_S,
    )
    assert done.stdout.split() == [*asked.values(), *later.values()], done.stderr


VECTOR = """
#include <unistd.h>
#include <vector>
std::vector<int> numbers{1, 2, 3};
int main() { for (;;) usleep(1000); }
"""


@pytest.mark.skipif(not shutil.which("c++"), reason="this machine has no C++ compiler")
@pytest.mark.parametrize("in_nursery", [True, False], ids=["nursery", "own GDB"])
def test_printers_of_the_system_stay_on(tmp_path: Path, in_nursery: bool) -> None:
    (tmp_path / "vector.cpp").write_text(VECTOR)
    line = ["c++", "-g", "-o", "vector", "vector.cpp"]
    subprocess.run(line, cwd=tmp_path, check=True, stdin=subprocess.DEVNULL, timeout=120)
    listed = subprocess.run(
        ["gdb", "-nx", "-batch", "-ex", "start", "-ex", "print numbers", "vector"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=DEADLINE_S,
    ).stdout
    if "std::vector of length" not in listed:
        pytest.skip("this machine's GDB has no printers for its C++ library")
    processes = [
        subprocess.Popen([tmp_path / "vector"], stdin=subprocess.DEVNULL) for _ in range(2)
    ]
    trap = Trap(tmp_path, {**os.environ, "XDG_CACHE_HOME": str(tmp_path)})

    async def bounded() -> tuple[list[Any], list[Any], list[str]]:
        async with asyncio.timeout(DEADLINE_S):
            return await attached(
                trap,
                [each.pid for each in processes],
                in_nursery=in_nursery,
                asked="print numbers",
            )

    try:
        for each in processes:
            wait_progress(each.pid)
        _, said, notices = asyncio.run(bounded())
    finally:
        for each in processes:
            each.kill()
            each.wait()
    assert not any("without the nursery" in each for each in notices)
    for answer in said:
        assert isinstance(answer, Text)
        assert "std::vector of length 3, capacity 3 = {1, 2, 3}" in answer.text
