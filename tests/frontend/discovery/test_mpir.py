"""mpir reads the memory of stand-in launchers: small C programs with a table and children.

The stand-ins need a C compiler but neither MPI nor a debugger.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from pgdb import elf, elf_symbols, process_maps
from pgdb.errors import DiscoveryError
from pgdb.frontend.discovery import mpir
from tests.support.mpir_launchers import (
    CAT,
    COMPILER,
    compile_launcher,
    launcher_with_library,
    running,
)

needs_compiler = pytest.mark.skipif(
    COMPILER is None or CAT is None, reason="no C compiler to make a stand-in launcher with"
)


@pytest.fixture(scope="module")
def symbols(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return compile_launcher(tmp_path_factory.mktemp("symbols") / "mpiexec", "-DTABLE")


@pytest.fixture(scope="module")
def stripped(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return compile_launcher(tmp_path_factory.mktemp("stripped") / "mpiexec", "-DTABLE", "-s")


@needs_compiler
@pytest.mark.parametrize("flags", [("-pie", "-fPIE"), ("-no-pie",), ("-rdynamic", "-s")])
def test_a_table_is_read_by_symbol(tmp_path: Path, flags: tuple[str, ...]) -> None:
    launcher = compile_launcher(tmp_path / "mpiexec", "-DTABLE", *flags)
    with running(launcher, 3) as pid:
        table = mpir.read_proctable(pid)
        children = [int(word) for word in _children_file(pid)]
    assert table.size == 3
    assert [each.rank for each in table.processes] == [0, 1, 2]
    assert [each.pid for each in table.processes] == children
    assert {each.host for each in table.processes} == {os.uname().nodename}
    assert {each.executable for each in table.processes} == {"./solver"}


def _children_file(pid: int) -> list[str]:
    return Path(f"/proc/{pid}/task/{pid}/children").read_text().split()


@needs_compiler
@pytest.mark.parametrize("position", [("-fPIE", "-pie"), ("-fno-pie", "-no-pie")])
def test_a_table_in_a_shared_object_is_read(tmp_path: Path, position: tuple[str, ...]) -> None:
    # Without PIE the linker copies the variables into the executable, and those of the object stay
    # zero: a copy relocation, which must not count as an empty table.
    launcher, _ = launcher_with_library(tmp_path, *position)
    with running(launcher, 2) as pid:
        assert mpir.read_proctable(pid).size == 2


@needs_compiler
def test_what_has_the_name_of_a_deleted_library_is_left_alone(tmp_path: Path) -> None:
    """Any user may have created it, and opening a named pipe would wait for a writer."""
    launcher, library = launcher_with_library(tmp_path, "-fPIE", "-pie")
    with running(launcher, 2) as pid:
        library.unlink()
        os.mkfifo(library)
        # By its structure, as for a launcher without symbols.
        assert mpir.read_proctable(pid).size == 2


def test_what_is_no_file_has_no_symbols(tmp_path: Path) -> None:
    names = ("MPIR_proctable", "MPIR_proctable_size")
    os.mkfifo(tmp_path / "libopen-rte.so")
    for path in (tmp_path / "libopen-rte.so", tmp_path, tmp_path / "none", Path("/dev/zero")):
        mapping = process_maps.Mapping(0x400000, 0x500000, "r--p", 0, str(path))
        assert elf_symbols.symbol_values(path, mapping, names) is None


@needs_compiler
def test_a_deleted_launcher_can_still_be_read(tmp_path: Path) -> None:
    launcher = compile_launcher(tmp_path / "mpiexec", "-DTABLE")
    with running(launcher, 2) as pid:
        launcher.unlink()
        assert len(mpir.read_proctable(pid).processes) == 2


@needs_compiler
def test_a_stopped_launcher_is_read_and_stays_stopped(symbols: Path) -> None:
    with running(symbols, 2) as pid:
        os.kill(pid, signal.SIGSTOP)
        os.waitid(os.P_PID, pid, os.WSTOPPED)
        assert mpir.read_proctable(pid).size == 2
        assert "(stopped)" in Path(f"/proc/{pid}/status").read_text()


@needs_compiler
@pytest.mark.parametrize("size", [1, 3, 200])
def test_a_stripped_table_is_found_by_its_structure(stripped: Path, size: int) -> None:
    with running(stripped, size) as pid:
        with pytest.raises(mpir.NoProctableError, match="has the symbol MPIR_proctable"):
            mpir.read_proctable(pid)
        table = mpir.search_proctable(pid)
        children = [int(word) for word in _children_file(pid)]
    assert table.size == size
    assert [each.pid for each in table.processes] == children


@needs_compiler
@pytest.mark.parametrize(
    "mode", ["empty", "garbage", "wild", "negative", "huge", "partial", "strangers"]
)
def test_nothing_is_found_where_the_structure_is_wrong(stripped: Path, mode: str) -> None:
    # "partial" and "strangers" (pids that are not below the launcher) pass with a symbol;
    # without one they prove nothing.
    with running(stripped, 3, mode) as pid, pytest.raises(mpir.NoProctableError):
        mpir.search_proctable(pid)


@needs_compiler
def test_a_table_of_other_hosts_needs_no_children(stripped: Path) -> None:
    with running(stripped, 2, "remote") as pid:
        assert {each.host for each in mpir.search_proctable(pid).processes} == {"far-away-node"}


@needs_compiler
def test_an_empty_table_says_when_it_will_be_filled(symbols: Path) -> None:
    with (
        running(symbols, 2, "empty") as pid,
        pytest.raises(mpir.EmptyProctableError, match=f"mpiexec {pid} is empty.*MPI_Init"),
    ):
        mpir.read_proctable(pid)


@needs_compiler
@pytest.mark.parametrize(
    ("mode", "words"),
    [
        ("negative", "is -4, which is no number of ranks"),
        ("huge", "is 1073741824, which is no number of ranks"),
        ("garbage", "cannot be read as a table of 3 ranks"),
        ("wild", "cannot be read as a table of 3 ranks"),
    ],
)
def test_what_cannot_be_a_table_is_refused(symbols: Path, mode: str, words: str) -> None:
    with running(symbols, 3, mode) as pid, pytest.raises(DiscoveryError, match=words):
        mpir.read_proctable(pid)


@needs_compiler
def test_entries_that_are_not_filled_in_yet_are_left_out(symbols: Path) -> None:
    with running(symbols, 3, "partial") as pid:
        table = mpir.read_proctable(pid)
    assert table.size == 3
    assert [each.rank for each in table.processes] == [0, 2]


@needs_compiler
@pytest.mark.parametrize(
    ("name", "flags", "step"),
    [
        ("srun", ('-DSLURM_STEP="3"',), "17.3"),
        ("srun-wlm", ("-DTABLE", '-DSLURM_STEP="3"'), "17.3"),
        ("srun", ("-DSLURM_STEP=NULL",), ""),
        ("srun", ('-DSLURM_STEP="\\001"',), ""),
        ("srun", (), ""),
        ("mpiexec", ('-DSLURM_STEP="3"',), ""),
    ],
)
def test_srun_has_its_step_in_memory(
    tmp_path: Path, name: str, flags: tuple[str, ...], step: str
) -> None:
    with running(compile_launcher(tmp_path / name, *flags), 1) as pid:
        assert mpir.read_slurm_step(pid) == step


def test_a_process_that_is_gone_has_no_step() -> None:
    assert mpir.read_slurm_step(2**22 + 1) == ""


def test_a_process_without_a_table_says_so() -> None:
    with pytest.raises(mpir.NoProctableError, match=f"{os.getpid()} has the symbol"):
        mpir.read_proctable(os.getpid())


def test_a_process_that_has_ended_says_so() -> None:
    process = subprocess.Popen([sys.executable, "-c", ""], stdin=subprocess.DEVNULL)
    process.wait()
    with pytest.raises(DiscoveryError, match=f"process {process.pid} has ended"):
        mpir.read_proctable(process.pid)


def test_the_name_of_this_host_may_be_short_or_full(monkeypatch: pytest.MonkeyPatch) -> None:
    def name_it(nodename: str) -> None:
        result = os.uname_result(("Linux", nodename, "6", "1", "x86_64"))
        monkeypatch.setattr(os, "uname", lambda: result)

    name_it("node1")
    assert mpir.is_this_host("node1") and mpir.is_this_host("node1.example.org")
    assert not mpir.is_this_host("node10") and not mpir.is_this_host("node2.example.org")
    name_it("node1.east.org")
    assert mpir.is_this_host("node1") and mpir.is_this_host("node1.east.org")
    assert not mpir.is_this_host("node1.west.org")
    assert mpir.is_this_host("localhost")


def test_a_torn_list_of_mappings_is_read_up_to_there() -> None:
    whole = b"7f00a000-7f00b000 rw-s 00001000 00:05 99   /tmp/a b (deleted)\n"
    [found] = process_maps.parse_mappings(whole + b"x-y rw-p 0 0 0\n\n" + whole[:30])
    assert (found.start, found.end, found.offset) == (0x7F00A000, 0x7F00B000, 0x1000)
    assert found.path == "/tmp/a b (deleted)" and found.is_writable


def test_a_torn_object_has_no_symbols(tmp_path: Path, symbols: Path) -> None:
    names = ("MPIR_proctable", "MPIR_proctable_size")
    data = symbols.read_bytes()
    mapping = process_maps.Mapping(0x400000, 0x500000, "r--p", 0, str(symbols))
    assert elf_symbols.symbol_values(symbols, mapping, names) is not None
    head = elf.header(lambda at, size: data[at : at + size])
    torn = tmp_path / "torn"
    for change in range(20, len(data), max(1, len(data) // 40)):
        torn.write_bytes(data[:change])
        elf_symbols.symbol_values(torn, mapping, names)
    # The sections claim to be larger than any file.
    broken = bytearray(data)
    for section in range(head.section_count):
        at = head.sections_at + section * head.section_size + 32
        broken[at : at + 8] = (2**63 + 5).to_bytes(8, "little")
    torn.write_bytes(broken)
    elf_symbols.symbol_values(torn, mapping, names)
