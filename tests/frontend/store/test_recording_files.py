"""Files of recordings: damaged ones, very big ones, other files in their place."""

from __future__ import annotations

import asyncio
import os
import random
import subprocess
import sys
import zlib
from pathlib import Path

import msgspec
import pytest

from pgdb.errors import CommandError, ProtocolError
from pgdb.frontend.store import recording_file
from pgdb.frontend.system import user_files
from tests.fakes.recorded import ALL, Job, User, asked_of, begin, recorded


@pytest.fixture(autouse=True)
def _runtime_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))


def test_file_is_checked_strictly(tmp_path: Path) -> None:
    path = tmp_path / "job.pgdb"
    recorded(path)
    whole = path.read_bytes()
    head, packed = whole[:17], whole[17:]
    assert head == b"pgdb-recording 1\n"
    inside = zlib.decompress(packed)
    tree = msgspec.msgpack.decode(inside)

    def refusal(data: bytes) -> str:
        with pytest.raises(ProtocolError) as caught:
            recording_file.decode(data)
        assert "\n" not in str(caught.value)
        return str(caught.value)

    def changed(**parts: object) -> bytes:
        return head + zlib.compress(msgspec.msgpack.encode({**tree, **parts}))

    assert recording_file.decode(changed()).ranks == ALL
    assert refusal(b"") == refusal(b"\x7fELF" + whole) == "it is no recording of PGDB's"
    assert "version 2, and this PGDB reads version 1" in refusal(b"pgdb-recording 2\n" + packed)
    for cut in (len(whole) - 1, len(whole) // 2, 20):
        assert "it is damaged" in refusal(whole[:cut])
    assert "goes on behind its end" in refusal(whole + b"x")
    assert "no valid recording" in refusal(changed(more=1))
    assert "no valid recording" in refusal(changed(begun_s="then"))
    assert "a rank is at two places" in refusal(changed(table=[*tree["table"], tree["table"][0]]))
    assert "not every rank does one thing" in refusal(
        changed(states={**tree["states"], "running": "0"})
    )
    assert "there is no answer 99" in refusal(changed(history=[{"number": 1, "answer": 99}]))
    assert "numbered" in refusal(changed(history=[{"number": 0, "answer": 0}]))
    assert "are in no table" in refusal(changed(focus="7"))
    assert "as many" in refusal(changed(table=[{**tree["table"][0], "packed_pids": b"123"}]))


def test_file_that_unpacks_to_very_much_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recording_file, "MAX_DATA_BYTES", 1 << 20)
    bomb = b"pgdb-recording 1\n" + zlib.compress(b"\0" * (1 << 26))
    with pytest.raises(ProtocolError, match="holds more than 1 MiB"):
        recording_file.decode(bomb)


def test_sets_that_take_very_much_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "job.pgdb"
    recorded(path, ["defset odd 1,3"])
    monkeypatch.setattr(recording_file, "MAX_SETS_BYTES", 10)
    with pytest.raises(CommandError, match="its rank sets are too large"):
        recording_file.read(path)


def test_empty_sets_take_room_as_well(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # With the real limit the recording has 100 times as many sets, and takes as much longer.
    monkeypatch.setattr(recording_file, "MAX_SETS_BYTES", recording_file.MAX_SETS_BYTES // 100)
    path = tmp_path / "job.pgdb"
    recorded(path)
    tree = msgspec.msgpack.decode(zlib.decompress(path.read_bytes()[17:]))
    change = {"sequence": 1, "command": "", "ranks": tree["table"][0]["ranks"]}
    tree["moves"] = [change] * 30_000
    bomb = b"pgdb-recording 1\n" + zlib.compress(msgspec.msgpack.encode(tree), 1)
    with pytest.raises(ProtocolError, match="its rank sets are too large"):
        recording_file.decode(bomb)


@pytest.mark.slow
def test_a_file_that_would_take_very_much_memory_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "job.pgdb"
    recorded(path)
    tree = msgspec.msgpack.decode(zlib.decompress(path.read_bytes()[17:]))
    tree["history"] = [{"number": 1, "answer": 0}] * 6_000_000
    path.write_bytes(b"pgdb-recording 1\n" + zlib.compress(msgspec.msgpack.encode(tree), 1))
    assert path.stat().st_size < 2 << 20
    # Not in this process, where other tests may have left any amount of free memory.
    line = [sys.executable, "-c", READ_WITH_LITTLE_MEMORY, str(path)]
    printed = subprocess.run(line, capture_output=True, text=True, timeout=60, check=True).stdout
    assert "job.pgdb: it would take more than 160 MiB of memory" in printed


@pytest.mark.slow
def test_no_change_of_a_file_leads_to_anything_but_an_answer_or_an_error(tmp_path: Path) -> None:
    path = tmp_path / "job.pgdb"
    recorded(path)
    whole = path.read_bytes()
    inside = bytearray(zlib.decompress(whole[17:]))
    rng = random.Random(4)
    refused = 0
    for _ in range(1500):
        data = bytearray(inside)
        for _ in range(rng.randint(1, 4)):
            data[rng.randrange(len(data))] = rng.randrange(256)
        try:
            recording_file.decode(whole[:17] + zlib.compress(bytes(data), 1))
        except ProtocolError:
            refused += 1
    assert refused > 100


def test_other_files_are_never_replaced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "job.pgdb"
    recorded(path, ["bt"])
    recorded(path, ["p x"])  # a recording is
    assert "  print x\n" in asked_of(path, "session")[0]
    source = tmp_path / "main.c"
    source.write_text("int main;")
    link = tmp_path / "link.pgdb"
    link.symlink_to(source)

    async def work() -> None:
        session = begin(Job())
        user = User(session)
        for name, why in (
            (source, "is there already, and is no recording"),
            (link, "is there already, and is no recording"),
            (tmp_path, "is there already, and is no recording"),
            (tmp_path / "no" / "job.pgdb", "there is no such directory"),
        ):
            assert why in await user.type(f"session save {name}")
        assert "'session save FILE'" in await user.type("session save")
        for name in ('""', "''", 'a"b c" d', "'open"):
            assert f"session save {name}: " in await user.type(f"session save {name}")
        monkeypatch.chdir(tmp_path)
        assert "pgdb replay ./-x\n" in await user.type("session save -x")
        assert "pgdb replay 'a job'\n" in await user.type("session save 'a job'")
        assert "pgdb replay 'two words'" in await user.type("session save two words")
        written = {"job.pgdb", "link.pgdb", "main.c", "-x", "a job", "two words"}
        names = {each for each in os.listdir(tmp_path) if not each.startswith("pgdb-")}
        assert names == written
        assert "pgdb replay FILE" in await user.type("session replay job.pgdb")
        await session.close()

    asyncio.run(work())
    assert source.read_text() == "int main;"
    for name, why in (
        (tmp_path / "none", "there is no such file"),
        (tmp_path, "is no file"),
        (source, "it is no recording"),
    ):
        with pytest.raises(CommandError, match=why):
            recording_file.read(name)


def test_write_that_fails_leaves_the_file_before(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "job.pgdb"
    path.write_bytes(b"before")

    def full(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(user_files.os, "fsync", full)
    with pytest.raises(OSError, match="No space left"):
        user_files.write_atomically(path, b"after")
    assert path.read_bytes() == b"before"
    assert list(tmp_path.iterdir()) == [path]


READ_WITH_LITTLE_MEMORY = """
import resource, sys
from pathlib import Path
from pgdb.errors import CommandError
from pgdb.frontend.store import recording_file
recording_file.MAX_MEMORY_BYTES = 160 << 20
before = resource.getrlimit(resource.RLIMIT_AS)
try:
    recording_file.read(Path(sys.argv[1]))
except CommandError as error:
    print(error)
assert resource.getrlimit(resource.RLIMIT_AS) == before
"""
