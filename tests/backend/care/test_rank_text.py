"""Original text of a process whose files are gone, as an ordinary user sees it."""

from __future__ import annotations

import ctypes
import mmap
import os
import pickle
import shutil
import subprocess
import tempfile
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from msgspec.structs import replace

from pgdb.backend.care.breakpoint_repair import RankText, Repair, replaced
from pgdb.backend.sbd.rank_files import mapped, open_mapped
from tests.support.processes import status, wait_until

NOBODY = 65534
LIBRARY = "int step(int value) { return value + 1; }\n"
PROGRAM = """
#include <stdio.h>
#include <unistd.h>
int step(int value);
int main(void) {
    printf("%d\\n", step(1));
    fflush(stdout);
    for (;;) pause();
}
"""


def as_ordinary_user(check: Callable[[], object]) -> None:
    """Call *check* in a process without capabilities; raise what it raises."""
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(read)
        said = ""
        try:
            if os.geteuid() == 0:
                os.setgroups([])
                os.setgid(NOBODY)
                os.setuid(NOBODY)
                # A change of user makes /proc/self/mem root's; prctl(PR_SET_DUMPABLE) undoes it.
                ctypes.CDLL(None).prctl(4, 1, 0, 0, 0)
            check()
        except BaseException:  # noqa: BLE001 - reported to the parent
            said = traceback.format_exc()
        os.write(write, pickle.dumps(said))
        os._exit(0)
    os.close(write)
    with open(read, "rb") as pipe:
        said = pickle.load(pipe)
    os.waitpid(child, 0)
    assert not said, said


class Built:
    """A program and its library in a folder that everybody can read and write."""

    def __init__(self, folder: Path) -> None:
        self.program = folder / "program"
        self.library = folder / "libstep.so"

    def start(self) -> subprocess.Popen[str]:
        process = subprocess.Popen([self.program], stdout=subprocess.PIPE, text=True)
        assert process.stdout is not None and process.stdout.readline() == "2\n"
        # A breakpoint in the way to pause() would end it.
        wait_until(lambda: status(process.pid, "State")[:1] == "S", "it waits")
        return process


@pytest.fixture
def built() -> Iterator[Built]:
    compiler = shutil.which("cc") or pytest.skip("this machine has no C compiler")
    folder = Path(tempfile.mkdtemp(prefix="pgdb-test-"))
    try:
        folder.chmod(0o777)
        (folder / "step.c").write_text(LIBRARY)
        (folder / "program.c").write_text(PROGRAM)
        made = Built(folder)
        shared = [compiler, "-shared", "-fPIC", "-o", made.library, folder / "step.c"]
        subprocess.run(shared, check=True)
        search = f"-Wl,-rpath,{folder}"
        linked = [compiler, "-o", made.program, folder / "program.c", made.library, search]
        subprocess.run(linked, check=True)
        for path in folder.iterdir():
            path.chmod(0o755)
        yield made
    finally:
        shutil.rmtree(folder)


def put_breakpoint(pid: int, path: Path, at: int = 64) -> bytes:
    """Insert a breakpoint instruction into the text of a file; return the original byte."""
    (start,) = (each.start for each in mapped(pid) if each.path == str(path))
    with open(f"/proc/{pid}/mem", "r+b", buffering=0) as memory:
        memory.seek(start + at)
        original = memory.read(1)
        memory.seek(start + at)
        memory.write(b"\xcc")
    assert original != b"\xcc"
    return original


def byte_of(pid: int, path: Path, at: int = 64) -> bytes:
    (start,) = (each.start for each in mapped(pid) if each.path == str(path))
    with open(f"/proc/{pid}/mem", "rb", buffering=0) as memory:
        memory.seek(start + at)
        return memory.read(1)


def remove(path: Path) -> None:
    path.unlink()


def rebuild(path: Path) -> None:
    """Put another file in the place of *path*, as a compiler does."""
    other = path.with_suffix(".new")
    shutil.copy("/bin/true", other)
    other.rename(path)


@pytest.mark.slow
@pytest.mark.parametrize("change", [remove, rebuild])
@pytest.mark.parametrize("part", ["program", "library"])
@pytest.mark.parametrize("when", ["before it is acquired", "afterwards"])
def test_text_of_a_file_that_is_gone_is_restored(
    built: Built, part: str, change: Callable[[Path], None], when: str
) -> None:
    path: Path = getattr(built, part)

    def check() -> None:
        with built.start() as process:
            text = RankText()
            try:
                if when == "afterwards":
                    assert text.keep(process.pid) == ()
                    change(path)
                else:
                    change(path)
                    assert text.keep(process.pid) == ()
                original = put_breakpoint(process.pid, path)
                assert text.repair(process.pid) == Repair(restored=1)
                assert byte_of(process.pid, path) == original
                assert text.repair(process.pid) == Repair()
            finally:
                text.close()
                process.kill()

    as_ordinary_user(check)


def test_an_ordinary_users_aggregator_must_keep_text(built: Built) -> None:
    def check() -> None:
        with built.start() as process:
            text = RankText()
            try:
                first = next(mapped(process.pid))
                assert text.must_keep(process.pid, first)
                assert text.keep(process.pid) == ()
                assert text.must_keep(process.pid, first)
            finally:
                text.close()
                process.kill()

    as_ordinary_user(check)


def test_text_of_files_that_can_be_opened_at_any_time_is_not_kept(built: Built) -> None:
    if os.geteuid():
        pytest.skip("only root opens the files of any mapping")
    with built.start() as process:
        try:
            text = RankText()
            text.outdate()
            assert not text.must_keep(process.pid, next(mapped(process.pid)))
            # The rest need not look again before a run.
            text.keep = pytest.fail  # type: ignore[method-assign]
            text.refresh(process.pid)
        finally:
            process.kill()


def test_text_that_cannot_be_compared_is_reported(built: Built) -> None:
    def check() -> None:
        with built.start() as process:
            try:
                remove(built.library)
                put_breakpoint(process.pid, built.library)
                assert RankText().repair(process.pid) == Repair(unknown=(str(built.library),))
            finally:
                process.kill()

    as_ordinary_user(check)


def test_a_process_of_another_user_is_reported() -> None:
    if os.geteuid():
        pytest.skip("only root has processes of other users")
    pid = os.getpid()

    def check() -> None:
        found = RankText().repair(pid)
        assert found.restored == 0 and found.unknown

    as_ordinary_user(check)


def test_an_ended_process_has_nothing_to_repair() -> None:
    with subprocess.Popen(["/bin/true"]) as process:
        process.wait()
    assert RankText().repair(process.pid) == Repair()


def test_ranks_of_a_host_share_what_is_held(built: Built) -> None:
    def check() -> None:
        with built.start() as one, built.start() as other:
            try:
                texts = RankText(), RankText()
                texts[0].keep(one.pid)
                held = len(os.listdir("/proc/self/fd"))
                texts[1].keep(other.pid)
                assert len(os.listdir("/proc/self/fd")) == held
                remove(built.library)
                texts[0].close()
                put_breakpoint(other.pid, built.library)
                assert texts[1].repair(other.pid) == Repair(restored=1)
                texts[1].close()
                assert len(os.listdir("/proc/self/fd")) < held
            finally:
                one.kill()
                other.kill()

    as_ordinary_user(check)


def test_a_library_that_is_loaded_later_is_held(built: Built) -> None:
    """This very process is the tracer here, and reads its own memory."""

    def check() -> None:
        text = RankText()
        text.keep(os.getpid())
        ctypes.CDLL(str(built.library))
        text.keep(os.getpid())
        remove(built.library)
        put_breakpoint(os.getpid(), built.library)
        assert text.repair(os.getpid()) == Repair(restored=1)

    as_ordinary_user(check)


def test_a_library_is_held_while_the_process_runs(built: Built) -> None:
    """The memory of such a file is not copied: a breakpoint may be in it already."""

    def check() -> None:
        with built.start() as process:
            text, late = RankText(), RankText()
            try:
                assert text.keep(process.pid, runs=True) == ()
                remove(built.library)
                put_breakpoint(process.pid, built.library)
                assert text.repair(process.pid) == Repair(restored=1)
                text.close()
                assert late.keep(process.pid, runs=True) == (str(built.library),)
                assert late.keep(process.pid) == ()
            finally:
                late.close()
                process.kill()

    as_ordinary_user(check)


class Page:
    """A page of this process with code that no file has."""

    def __init__(self) -> None:
        flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS
        protection = mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC
        self.code = mmap.mmap(-1, mmap.PAGESIZE, flags=flags, prot=protection)
        self.code[:] = bytes(range(128)) * (mmap.PAGESIZE // 128)
        self.address = ctypes.addressof(ctypes.c_char.from_buffer(self.code))


def test_code_that_no_file_has_is_restored() -> None:
    def check() -> None:
        page, text, pid = Page(), RankText(), os.getpid()
        text.keep(pid)
        before = page.code[:]
        places = [0, 60, 62, mmap.PAGESIZE - 1]
        text.refresh(pid, frozenset(page.address + at for at in places))
        for at in places:
            page.code[at] = 0xCC
        assert text.repair(pid) == Repair(restored=len(places))
        assert page.code[:] == before
        # Further changes are the program's own.
        page.code[200] = 0xCC
        assert text.repair(pid) == Repair() and page.code[200] == 0xCC
        # It may change its code between two runs.
        page.code[60] = 7
        text.refresh(pid, frozenset([page.address + 60]))
        page.code[60] = 0xCC
        assert text.repair(pid) == Repair(restored=1) and page.code[60] == 7

    as_ordinary_user(check)


def test_known_places_are_restored_at_once() -> None:
    def check() -> None:
        page, text, pid = Page(), RankText(), os.getpid()
        before = page.code[:]
        places = [0, 60, 62, mmap.PAGESIZE - 1]
        assert text.restore_places(pid) == 0
        text.refresh(pid, frozenset(page.address + at for at in places))
        for at in (*places, 200):
            page.code[at] = 0xCC
        assert text.restore_places(pid) == len(places)
        assert page.code[200] == 0xCC, "no breakpoint of the user's"
        assert text.restore_places(pid) == 0
        page.code[200:201] = before[200:201]
        assert page.code[:] == before
        # The code is no longer that of the copy: its file decides, or it is reported.
        page.code[58:61] = b"\xe8\x01\xcc"
        assert text.restore_places(pid) == 0 and page.code[60] == 0xCC

    as_ordinary_user(check)


def test_code_that_the_program_has_changed_is_reported() -> None:
    def check() -> None:
        page, text, pid = Page(), RankText(), os.getpid()
        text.keep(pid)
        text.refresh(pid, frozenset([page.address + 60]))
        page.code[58:61] = b"\xe8\x01\xcc"
        where = f"the program's own code at {page.address + 60:#x}"
        assert text.repair(pid) == Repair(unknown=(where,))

    as_ordinary_user(check)


def test_another_file_of_the_same_name_is_not_taken_for_the_mapped_one(built: Built) -> None:
    """The mapping of a file on an unmounted file system shows no sign of that."""

    def check() -> None:
        with built.start() as process:
            try:
                mappings = mapped(process.pid)
                (library,) = (each for each in mappings if each.path == str(built.library))
                os.close(open_mapped(process.pid, library))
                device, inode = library.file
                with pytest.raises(FileNotFoundError):
                    open_mapped(process.pid, replace(library, file=(device, inode + 1)))
            finally:
                process.kill()

    as_ordinary_user(check)


@pytest.mark.parametrize(
    ("there", "wanted", "found"),
    [
        (b"abcd", b"abcd", []),
        (b"\xccbcd", b"abcd", [0]),
        (b"abc\xcc", b"abcd", [3]),
        (b"a\xcc\xccd", b"abcd", [1, 2]),
        (b"a\xcc\xe9d", b"abcd", []),
        (b"a\xe9\xccd", b"abcd", []),
        (b"\xccbc\xcc", b"abcd", [0, 3]),
        (b"a\xccc", b"a\xcccd", []),
    ],
)
def test_breakpoints_are_distinguished_from_patches(
    there: bytes, wanted: bytes, found: list[int]
) -> None:
    assert [*replaced(there, wanted, b"\xcc")] == found


def test_instructions_of_four_bytes_are_compared_whole() -> None:
    instruction = b"\x00\x00\x20\xd4"
    wanted = b"\x01\x00\x20\xd4" * 3  # differs from the instruction in one byte only
    there = wanted[:4] + instruction + wanted[8:]
    assert [*replaced(there, wanted, instruction)] == [4]


def test_a_process_that_has_ended_has_nothing_to_repair() -> None:
    """Until its parent asks for the status, an ended process is there, without memory."""
    with subprocess.Popen(["true"]) as process:
        wait_until(lambda: status(process.pid, "State")[0] == "Z", "it is a zombie")
        assert RankText().repair(process.pid) == Repair()
