"""The memory maps of many ranks as one list."""

from __future__ import annotations

from pgdb.frontend.analysis.mapping_lists import merge_mapping_lists
from tests.support.merged_texts import said

HEAD = "Mapped address spaces:\n\n"
COLUMNS = "          Start Addr           End Addr       Size     Offset  Perms  objfile\n"


def row(rank: int, start: int, size: int, file: str, offset: int = 0) -> str:
    begin = 0x7F0000000000 + rank * 0x100000000 + start
    return f"  0x{begin:x}  0x{begin + size:x}  {hex(size):>9} {hex(offset):>9}  r--p   {file}\n"


def of_rank(rank: int, *rows: str) -> str:
    return f"process {4000 + rank}\n{HEAD}{COLUMNS}{''.join(rows)}"


def test_libraries_are_in_another_order_on_each_rank() -> None:
    texts = []
    for rank in range(3):
        places = (0x10000, 0x90000) if rank != 1 else (0x90000, 0x10000)
        rows = [(places[0], "/lib/a.so"), (places[1], "/lib/b.so")]
        texts.append(
            of_rank(
                rank,
                *(
                    row(rank, at + offset, 0x1000, file, offset)
                    for at, file in sorted(rows)
                    for offset in (0, 0x1000)
                ),
            )
        )
    found = merge_mapping_lists(said(*texts))
    assert found is not None
    shown = [(str(each.ranks), each.mapping.file, each.mapping.offset) for each in found.rows]
    assert shown == [
        ("0-2", "/lib/a.so", "0x0"),
        ("0-2", "/lib/a.so", "0x1000"),
        ("0-2", "/lib/b.so", "0x0"),
        ("0-2", "/lib/b.so", "0x1000"),
    ]
