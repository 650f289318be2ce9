"""``info proc mappings`` of many ranks as one table."""

from __future__ import annotations

from pgdb.records import SLOT, Text
from tests.support.rendered import by_rank, shown

BEFORE = f"process {SLOT}\nMapped address spaces:\n\n"
COLUMNS = "          Start Addr           End Addr       Size     Offset  Perms  objfile\n"
# GDB 18 sets its columns by what is in them.
NEWER_COLUMNS = "Start Addr         End Addr           Size     Offset   Perms File \n"
ADDRESSES = "(addresses differ: 'proc N info proc mappings' shows those of a rank)"


def _row(size: int, permissions: str, file: str = "") -> str:
    return f"   {SLOT}     {SLOT}  {hex(size):>9}        0x0  {permissions}   {file}\n"


def test_areas_of_some_ranks_have_their_ranks() -> None:
    said = [
        Text(
            BEFORE
            + NEWER_COLUMNS
            + _row(0x21000, "rw-p")
            + (_row(0x21000, "rw-p") if rank == 2 else "")
            + _row(0x5000 if rank == 1 else 0x1000, "rw-p", "[heap]")
            + _row(0x1000, "r--s", f"/dev/shm/my segment.{rank}")
        )
        for rank in range(3)
    ]
    assert shown(by_rank("info proc mappings", said)) == [
        "[0-2]",
        "process …",
        "Mapped address spaces:",
        "         Size  Offset  Perms  File",
        "[0,2]  0x1000     0x0  rw-p   [heap]",
        "[1]    0x5000     0x0  rw-p   [heap]  @2",
        "[0]    0x1000     0x0  r--s   /dev/shm/my segment.0  @1",
        "[1]    0x1000     0x0  r--s   /dev/shm/my segment.1  @2",
        "[2]    0x1000     0x0  r--s   /dev/shm/my segment.2  @3",
        "[0-1] 0x21000     0x0  rw-p   (no file)",
        "[2]   0x21000     0x0  rw-p   (no file) (2 times)  @3",
        ADDRESSES,
    ]


def test_texts_around_the_table_are_merged_apart() -> None:
    said = [
        Text(
            f"process {SLOT}\nexe = '/bin/{program}'\nMapped address spaces:\n\n{COLUMNS}"
            f"{''.join(_row(0x1000, 'r--p', file) for file in files)}Name:\t{program}\nThreads:\t1"
        )
        for program, files in (("a", ("/a.so", "/b.so")), ("b", ("/b.so", "/a.so")))
    ]
    lines = shown(by_rank("info proc all", said))
    assert lines[:2] == ["[0-1]", "process …"]
    assert [line for line in lines if ".so" in line] == [
        "0x1000     0x0  r--p   /a.so",
        "0x1000     0x0  r--p   /b.so",
    ]
    assert lines.count("Threads:\t1") == 1
    assert lines.count(ADDRESSES) == 1


def test_the_map_of_a_single_rank_stays_as_gdb_prints_it() -> None:
    text = f"process {SLOT}\nMapped address spaces:\n\n{COLUMNS}{_row(0x1000, 'r--p', '/a.so')}"
    assert any("Start Addr" in line for line in shown(by_rank("info proc mappings", [Text(text)])))
