"""The mappings of a process are read, whatever the names of its files."""

from __future__ import annotations

import mmap
import os
from pathlib import Path

import pytest

from pgdb.backend.sbd import mapped_objects, rank_files
from pgdb.jobs import procfs


@pytest.mark.parametrize("end", ["\n", "\r", "\x0b", "\x0c", "\x1c", "\x85", "\u2028"])
def test_a_name_cannot_stand_for_another_mapping(end: str, tmp_path: Path) -> None:
    # The kernel shows the name as it is, except a newline.
    folder = tmp_path / f"x{end}7f0000000000-7f0000001000 r-xp 00000000 00:00 1 "
    folder.mkdir()
    file = folder / "forged.so"
    file.write_bytes(b"\0" * mmap.PAGESIZE)
    descriptor = os.open(file, os.O_RDONLY)
    with mmap.mmap(descriptor, 0, prot=mmap.PROT_READ | mmap.PROT_EXEC):
        os.close(descriptor)
        seen = {each.path for each in rank_files.mapped(os.getpid())}
        seen |= {each.path for each in mapped_objects._mappings(os.getpid())}
        seen |= procfs.mapped_files(os.getpid())
    named = [each for each in seen if each.endswith("/forged.so")]
    assert named and all(each.startswith(str(tmp_path)) for each in named)
