"""Delivery down a tree: files are read once, resumed, refused, and passed on where there is no
room.

The nodes and their caches are real. Messages between nodes are encoded and decoded, one at a
time, in the order in which they were sent.
"""

from __future__ import annotations

import asyncio
import errno
import os
from collections.abc import Coroutine
from pathlib import Path
from typing import Any

import msgspec
import pytest

from pgdb.files import delivery, file_cache, file_sources
from pgdb.files.delivery import PARTS_AHEAD
from pgdb.files.delivery_state import PART_BYTES
from pgdb.files.file_cache import FileCache, Version
from pgdb.overlay.messages import (
    FRONT_END,
    AnyMessage,
    FileKey,
    FilePart,
    WantFiles,
    WantPart,
)
from tests.support.delivery_tree import BODY, DEADLINE_S, ID, KEY, Tree
from tests.support.elves import elf, write_elf

DEBUG = FileKey(build_id=ID, kind="debug")


@pytest.fixture(autouse=True)
def _alone(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(file_cache, "LEAST_FREE_SHARE", 0.0)
    monkeypatch.setattr(file_sources, "DEBUG_DIRECTORY", str(tmp_path / "debug"))


def run(work: Coroutine[Any, Any, None]) -> None:
    asyncio.run(work)


def test_a_file_is_read_once_and_comes_once_over_each_link(tmp_path: Path) -> None:
    async def check() -> None:
        source = write_elf(tmp_path / "app", ID, BODY)
        tree = Tree(tmp_path, 7)
        found = await asyncio.gather(*(tree.want(node, source) for node in range(7)))
        for node, path in enumerate(found):
            assert path is not None and path.read_bytes() == source.read_bytes()
            assert path.is_relative_to(tree.cache_of(node))
            assert set(tree.parts(to=node).values()) == {1}
        root = tree.nodes[FRONT_END].own
        assert (root.read_files, root.read_bytes) == (1, source.stat().st_size)
        assert sum(tree.nodes[node].own.read_files for node in range(7)) == 0
        for node in range(7):
            own = tree.nodes[node].own
            assert (own.wanted_files, own.received_files, own.cached_files) == (1, 1, 0)
        await tree.close()

    run(check())


def test_a_second_session_has_it_in_its_caches(tmp_path: Path) -> None:
    async def check() -> None:
        source = write_elf(tmp_path / "app", ID, BODY)
        first = Tree(tmp_path, 3)
        await asyncio.gather(*(first.want(node, source) for node in range(3)))
        await first.close()
        second = Tree(tmp_path, 3)
        await asyncio.gather(*(second.want(node, source) for node in range(3)))
        assert not second.parts()
        assert second.nodes[FRONT_END].own.read_files == 0
        assert [second.nodes[node].own.cached_files for node in range(3)] == [1, 1, 1]
        await second.close()

    run(check())


def test_another_version_with_the_same_build_id_is_fetched_again(tmp_path: Path) -> None:
    async def check() -> None:
        source = write_elf(tmp_path / "app", ID, b"stripped")
        first = Tree(tmp_path, 1)
        await first.want(0, source)
        await first.close()
        write_elf(source, ID, BODY)
        second = Tree(tmp_path, 1)
        found = await second.want(0, source)
        assert found is not None and found.read_bytes() == source.read_bytes()
        await second.close()

    run(check())


def test_the_first_that_asks_is_the_source_where_the_front_end_has_none(tmp_path: Path) -> None:
    async def check() -> None:
        source = write_elf(tmp_path / "only_there", ID, BODY)
        tree = Tree(tmp_path, 7)
        # Node 5, below 2 and 0, asks first; only its host has the file, by another name.
        name = tmp_path / "app"
        first = asyncio.create_task(tree.want(5, name, own=str(source)))
        while (0, FRONT_END) not in {(sender, receiver) for sender, receiver, _ in tree.sent}:
            await asyncio.sleep(0)
        others = [asyncio.create_task(tree.want(node, name)) for node in range(7) if node != 5]
        for path in await asyncio.gather(first, *others):
            assert path is not None and path.read_bytes() == source.read_bytes()
        read = {node: each.own.read_files for node, each in tree.nodes.items()}
        assert {node for node, count in read.items() if count} == {5}
        assert read[5] == 1
        await tree.close()

    run(check())


def test_another_one_is_the_source_where_the_first_that_asks_has_none(tmp_path: Path) -> None:
    async def check() -> None:
        source = write_elf(tmp_path / "only_there", ID, BODY)
        tree = Tree(tmp_path, 3)
        name = tmp_path / "app"
        found = await asyncio.gather(
            tree.want(0, name), tree.want(1, name), tree.want(2, name, own=str(source))
        )
        for path in found:
            assert path is not None and path.read_bytes() == source.read_bytes()
        await tree.close()

    run(check())


def test_a_file_that_nobody_has_is_done_without(tmp_path: Path) -> None:
    async def check() -> None:
        tree = Tree(tmp_path, 3)
        found = await asyncio.gather(*(tree.want(node, tmp_path / "gone") for node in range(3)))
        assert found == [None, None, None]
        assert [tree.nodes[node].own.missing_files for node in range(3)] == [1, 1, 1]
        # A later asker gets the same answer at once.
        assert await tree.want(2, tmp_path / "gone") is None
        await tree.close()

    run(check())


def test_what_gdbs_could_not_wait_for_is_theirs_though_it_comes(tmp_path: Path) -> None:
    async def check() -> None:
        source = write_elf(tmp_path / "app", ID, BODY)
        tree = Tree(tmp_path, 2)
        key = FileKey(build_id=ID)
        tree.nodes[0].leave([key, key])  # before it comes
        assert all(await asyncio.gather(tree.want(0, source), tree.want(1, source)))
        tree.nodes[1].leave([key])  # after it has come
        for node in range(2):
            own = tree.nodes[node].own
            assert (own.wanted_files, own.received_files, own.missing_files) == (1, 1, 1)
        await tree.close()

    run(check())


def test_a_file_with_another_build_id_is_refused(tmp_path: Path) -> None:
    async def check() -> None:
        source = write_elf(tmp_path / "app", "cd" * 20, BODY)
        tree = Tree(tmp_path, 1)
        assert await tree.want(0, source) is None
        assert not tree.parts()
        await tree.close()

    run(check())


def test_a_cached_file_serves_when_its_source_is_gone(tmp_path: Path) -> None:
    async def check() -> None:
        source = write_elf(tmp_path / "app", ID, BODY)
        first = Tree(tmp_path, 1)
        await first.want(0, source)
        await first.close()
        source.unlink()
        second = Tree(tmp_path, 2)
        for node in range(2):
            assert await second.want(node, source) is not None
        await second.close()

    run(check())


def test_a_transfer_that_was_interrupted_goes_on(tmp_path: Path) -> None:
    async def check() -> None:
        source = write_elf(tmp_path / "app", ID, BODY)
        first = Tree(tmp_path, 1)
        # The last part never arrives.
        last = source.stat().st_size // PART_BYTES * PART_BYTES
        first.spoil = lambda message: (
            None if isinstance(message, FilePart) and message.offset == last else message
        )
        asking = asyncio.create_task(first.want(0, source))
        cache = FileCache(first.cache_of(0))
        folder = cache.path(KEY).parent
        async with asyncio.timeout(DEADLINE_S):
            while not any(each.stat().st_size == last for each in folder.glob("*.part")):
                await asyncio.sleep(0.001)
        await first.close()
        await asyncio.gather(asking, return_exceptions=True)
        second = Tree(tmp_path, 1)
        found = await second.want(0, source)
        assert found is not None and found.read_bytes() == source.read_bytes()
        assert list(second.parts()) == [last]
        assert second.nodes[0].own.resumed_bytes == last
        await second.close()

    run(check())


def test_a_damaged_beginning_is_thrown_away_and_fetched_again(tmp_path: Path) -> None:
    async def check() -> None:
        source = write_elf(tmp_path / "app", ID, BODY)
        tree = Tree(tmp_path, 1)
        partial = FileCache(tree.cache_of(0)).begin(KEY, Version.of(source.stat()))
        partial.append(elf(ID, b"not what is there" * PART_BYTES)[: PART_BYTES + 5])
        partial.close()
        found = await tree.want(0, source)
        assert found is not None and found.read_bytes() == source.read_bytes()
        await tree.close()

    run(check())


@pytest.mark.parametrize("damage", [b"", b"no zlib"])
def test_a_damaged_part_ends_the_transfer(tmp_path: Path, damage: bytes) -> None:
    async def check() -> None:
        source = write_elf(tmp_path / "app", ID, BODY)
        tree = Tree(tmp_path, 1)
        tree.spoil = lambda message: (
            msgspec.structs.replace(message, data=damage)
            if isinstance(message, FilePart)
            else message
        )
        assert await tree.want(0, source) is None
        await tree.close()

    run(check())


def test_a_source_that_changes_under_way_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def check() -> None:
        source = write_elf(tmp_path / "app", ID, BODY)
        # The file has changed by the time it is copied.
        look = file_sources.look_for
        monkeypatch.setattr(
            delivery,
            "look_for",
            lambda *words: (look(*words), write_elf(source, "cd" * 20, BODY))[0],
        )
        tree = Tree(tmp_path, 2)
        assert await asyncio.gather(tree.want(0, source), tree.want(1, source)) == [None, None]
        await tree.close()

    run(check())


NO_ROOM = {"max_bytes": 1}
NO_PLACE = PermissionError(errno.EACCES, os.strerror(errno.EACCES), "/cache")


@pytest.mark.parametrize("how", [NO_ROOM, NO_PLACE], ids=["no room", "no place"])
def test_a_node_without_room_hands_on_what_others_keep(tmp_path: Path, how: Any) -> None:
    async def check() -> None:
        source = write_elf(tmp_path / "app", ID, BODY)
        tree = Tree(tmp_path, 3, fan_out=1, node1=how)
        found = await asyncio.gather(*(tree.want(node, source) for node in range(3)))
        assert found[1] is None
        for path in (found[0], found[2]):
            assert path is not None and path.read_bytes() == source.read_bytes()
        (reported,) = tree.notices[1]
        rest = "files" if how is NO_PLACE else "rest"
        assert f"GDBs read the {rest} by themselves" in reported
        assert not tree.notices[0] and not tree.notices[2]
        await tree.close()

    run(check())


def test_a_front_end_without_room_reads_for_each_part(tmp_path: Path) -> None:
    async def check() -> None:
        source = write_elf(tmp_path / "app", ID, BODY)
        tree = Tree(tmp_path, 1, **{f"node{FRONT_END}": NO_ROOM})
        found = await tree.want(0, source)
        assert found is not None and found.read_bytes() == source.read_bytes()
        assert tree.nodes[FRONT_END].own.read_bytes == source.stat().st_size
        await tree.close()

    run(check())


def test_a_full_disk_on_the_way_ends_in_the_slower_way(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def check() -> None:
        source = write_elf(tmp_path / "app", ID, BODY)
        tree = Tree(tmp_path, 2, fan_out=1)
        append = file_cache.Partial.append

        def fails(self: file_cache.Partial, data: bytes) -> None:
            if self.size_bytes and "cache0" in str(self._path):
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            append(self, data)

        monkeypatch.setattr(file_cache.Partial, "append", fails)
        found = await asyncio.gather(tree.want(0, source), tree.want(1, source))
        assert found[0] is None
        assert found[1] is not None and found[1].read_bytes() == source.read_bytes()
        assert len(tree.notices[0]) == 1
        # The begun copy does not take room any longer.
        assert not list(tree.cache_of(0).rglob("*.part"))
        await tree.close()

    run(check())


def test_only_a_few_parts_are_in_flight(tmp_path: Path) -> None:
    async def check() -> None:
        source = write_elf(tmp_path / "app", ID, BODY * 6)
        tree = Tree(tmp_path, 1)
        on_the_way = most = 0

        def count(message: AnyMessage) -> AnyMessage:
            nonlocal on_the_way, most
            on_the_way += isinstance(message, WantPart) - isinstance(message, FilePart)
            most = max(most, on_the_way)
            return message

        tree.spoil = count
        assert await tree.want(0, source) is not None
        assert most == PARTS_AHEAD
        await tree.close()

    run(check())


def test_a_new_parent_brings_what_the_old_one_has_not(tmp_path: Path) -> None:
    async def check() -> None:
        source = write_elf(tmp_path / "app", ID, BODY)
        tree = Tree(tmp_path, 2, fan_out=1)
        # Node 0 sends nothing of the second half to node 1, which then moves to the front end.
        half = source.stat().st_size // 2 // PART_BYTES * PART_BYTES
        tree.spoil = lambda message: (
            None
            if tree.parents[1] == 0 and isinstance(message, FilePart) and message.offset > half
            else message
        )
        asking = asyncio.create_task(tree.want(1, source))
        async with asyncio.timeout(DEADLINE_S):
            while (FRONT_END, 0) not in {
                (sender, receiver)
                for sender, receiver, message in tree.sent
                if isinstance(message, FilePart)
            }:
                await asyncio.sleep(0)
        tree.nodes[0].lose_child(1)
        tree.parents[1] = FRONT_END
        tree.nodes[1].new_parent()
        found = await asking
        assert found is not None and found.read_bytes() == source.read_bytes()
        await tree.close()

    run(check())


def test_a_source_that_is_lost_is_reported(tmp_path: Path) -> None:
    async def check() -> None:
        tree = Tree(tmp_path, 3)
        # Node 1 is asked to be the source, never answers, and is lost.
        silent = {"is": True}
        tree.spoil = lambda message: message
        from_above = tree.nodes[1].from_above
        asked = asyncio.Event()

        def deaf(message: AnyMessage) -> None:
            if isinstance(message, WantFiles) and silent["is"]:
                asked.set()
            else:
                from_above(message)

        tree.nodes[1].from_above = deaf  # type: ignore[method-assign]
        first = asyncio.create_task(tree.want(1, tmp_path / "gone"))
        async with asyncio.timeout(DEADLINE_S):
            await asked.wait()
        second = asyncio.create_task(tree.want(2, tmp_path / "gone"))
        third = asyncio.create_task(tree.want(0, tmp_path / "gone"))
        await asyncio.sleep(0)
        tree.nodes[0].lose_child(1)
        assert await second is None
        assert await third is None
        first.cancel()
        await tree.close()

    run(check())


def test_a_debug_file_is_found_by_build_id_and_by_link(tmp_path: Path) -> None:
    async def check() -> None:
        source = write_elf(tmp_path / "app", ID, b"stripped")
        tree = Tree(tmp_path, 1)
        assert await tree.want(0, source, DEBUG) is None
        assert tree.nodes[0].own.missing_files == 0, "GDB would not find one either"
        await tree.close()
        write_elf(tmp_path / "debug/.build-id" / ID[:2] / f"{ID[2:]}.debug", ID, BODY)
        tree = Tree(tmp_path, 1)
        found = await tree.want(0, source, DEBUG)
        assert found is not None and found.name.endswith(".debug")
        await tree.close()

    run(check())


def test_a_key_that_is_no_build_id_is_refused(tmp_path: Path) -> None:
    async def check() -> None:
        tree = Tree(tmp_path, 1)
        outside = write_elf(tmp_path / "outside", ID, BODY)
        key = FileKey(build_id=f"../{outside}")
        assert await tree.want(0, outside, key) is None
        assert outside.exists()
        await tree.close()

    run(check())


def test_the_front_end_hears_what_every_node_has_done(tmp_path: Path) -> None:
    async def check() -> None:
        source = write_elf(tmp_path / "app", ID, BODY)
        tree = Tree(tmp_path, 3, fan_out=1)
        await asyncio.gather(*(tree.want(node, source) for node in range(3)))
        for node in (2, 1, 0):
            tree.nodes[node].flush_reports()
            await asyncio.sleep(0)
        reports = tree.nodes[FRONT_END].reports
        assert {node: each.received_files for node, each in reports.items()} == {0: 1, 1: 1, 2: 1}
        await tree.close()

    run(check())
