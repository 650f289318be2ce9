"""Conditions under which GDB's index cache is not used."""

from __future__ import annotations

import asyncio
import os
import struct
from pathlib import Path
from types import SimpleNamespace

import pytest

from pgdb.backend.zygote import index_cache


def test_where_it_is() -> None:
    assert index_cache.directory({"HOME": "/h", "XDG_CACHE_HOME": "/x"}) == "/x/gdb"
    assert index_cache.directory({"HOME": "/h"}) == "/h/.cache/gdb"
    assert index_cache.directory({}) == ""


def test_a_place_with_room_will_do_though_it_is_not_there_yet(tmp_path: Path) -> None:
    environment = {"XDG_CACHE_HOME": str(tmp_path / "not" / "yet")}
    assert index_cache.why_not(environment) == ""
    assert not (tmp_path / "not").exists()


def test_no_place() -> None:
    assert index_cache.why_not({}) == "neither HOME nor XDG_CACHE_HOME is set"


@pytest.mark.parametrize("name", ["HOME", "XDG_CACHE_HOME"])
def test_a_place_that_depends_on_where_one_is(name: str) -> None:
    assert "here" in (why := index_cache.why_not({name: "here"}))
    assert why.endswith("does not begin with /")


def test_a_full_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    full = SimpleNamespace(f_bavail=1, f_frsize=4096)
    monkeypatch.setattr(os, "statvfs", lambda path: full)
    assert index_cache.why_not({"HOME": str(tmp_path)}) == (
        f"less than 256 MiB are free in {tmp_path}"
    )


def test_a_place_that_is_no_directory(tmp_path: Path) -> None:
    (tmp_path / "gdb").write_text("no directory")
    found = index_cache.why_not({"XDG_CACHE_HOME": str(tmp_path)})
    assert found == f"{tmp_path}/gdb is no directory"


async def no_process(tmp_path: Path, notices: list[str]) -> bool:
    cache = index_cache.IndexCache({"XDG_CACHE_HOME": str(tmp_path)}, notices.append)
    return await cache.is_sound_for(2**22 + 1)


def test_of_a_process_that_has_ended_nothing_is_known(tmp_path: Path) -> None:
    notices: list[str] = []
    assert not asyncio.run(no_process(tmp_path, notices))
    assert notices == []


def index(
    *, version: int = 8, name_at: int = 4, units_at: int = 0, pool: bytes = b"\0" * 8
) -> bytes:
    """Return an index with one symbol."""
    count = 6 if version == 9 else 5
    begin = 4 + 4 * count
    parts = [begin] * 4 + [begin + 8] * (count - 4)
    return struct.pack(f"<{count + 3}I", version, *parts, name_at, units_at) + pool


@pytest.mark.parametrize(
    ("data", "whole"),
    [
        (index(pool=b"\1\0\0\0main\0"), True),
        (index(pool=b"\1\0\0\0main\0", version=9), True),
        (index(pool=b"\1\0\0\0main"), False),
        (index(pool=b"\1\0\0\0"), False),
        (index(name_at=0), True),
        (index(units_at=5), False),
        (index()[:20], False),
        (b"", False),
        (b"\x63\0\0\0", True),
    ],
)
def test_what_is_cut_off(tmp_path: Path, data: bytes, whole: bool) -> None:
    path = tmp_path / "x.gdb-index"
    path.write_bytes(data)
    assert index_cache.is_whole(path) is whole
