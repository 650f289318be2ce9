"""Facts about mapped files, found once."""

from __future__ import annotations

import os
from pathlib import Path

from pgdb.backend.gdb.mapped_file_cache import MappedFileCache
from pgdb.backend.sbd.rank_files import mapped


def test_a_file_is_searched_once_and_a_damaged_one_has_no_fact() -> None:
    searched: list[str] = []

    def search(file: int) -> int:
        path = os.readlink(f"/proc/self/fd/{file}")
        searched.append(path)
        if Path(path).name.startswith("libc."):
            raise ValueError("damaged")
        return os.fstat(file).st_size

    mappings = [each for each in mapped(os.getpid()) if os.path.exists(each.path)]
    libc = next(each for each in mappings if Path(each.path).name.startswith("libc."))
    other = next(each for each in mappings if each.path != libc.path)
    cache = MappedFileCache(search, -1)
    for _ in range(2):
        assert cache.find(os.getpid(), libc) == -1
        assert cache.find(os.getpid(), other) == os.path.getsize(other.path)
    assert len(searched) == 2
