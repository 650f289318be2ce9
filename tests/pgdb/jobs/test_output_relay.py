"""The relay of a job's output: every byte passes, and the last ones can be read meanwhile."""

from __future__ import annotations

import mmap
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from pgdb.jobs import output_relay
from pgdb.jobs.output_relay import FOUND_BYTES, RING_BYTES, Ring


def relay(tmp_path: Path, data: bytes, target: str | None = None) -> tuple[bytes, Ring]:
    """Pass *data* on; return what has come to the file, and the ring."""
    out = tmp_path / "out"
    memory = output_relay.new_memory(1)
    read, write = os.pipe()
    with open(target or out, "wb") as file:
        process = subprocess.Popen(
            [
                sys.executable,
                "-I",
                "-S",
                output_relay.__file__,
                str(memory),
                f"{read}:{file.fileno()}",
            ],
            pass_fds=(memory, read, file.fileno()),
        )
    os.close(read)
    with open(write, "wb") as pipe:
        pipe.write(data)
    assert process.wait(60) == 0
    shared = mmap.mmap(memory, 0)
    os.close(memory)
    return out.read_bytes() if target is None else b"", output_relay.rings(shared)[0]


@pytest.mark.parametrize(
    "data",
    [
        b"",
        bytes(range(256)) * 10,
        b"no line end",
        b"a" * RING_BYTES,
        bytes(range(251)) * (RING_BYTES // 100),
    ],
)
def test_every_byte_passes_and_the_tail_is_kept(tmp_path: Path, data: bytes) -> None:
    found, ring = relay(tmp_path, data)
    assert found == data
    assert ring.total == len(data)
    assert ring.tail == data[-RING_BYTES:]
    assert (ring.last_s > 0) == bool(data)


def test_message_is_kept_although_more_output_follows(tmp_path: Path) -> None:
    message = b"At line 3 of file a.f90\nFortran runtime error: no grid\n"
    data = b"x\n" * 1000 + message + b"y\n" * RING_BYTES
    found, ring = relay(tmp_path, data)
    assert found == data
    assert message in ring.messages and ring.earlier_messages == ring.messages
    assert message not in ring.tail


def test_message_at_the_begin_of_the_output_keeps_the_line_before_it(tmp_path: Path) -> None:
    message = b"At line 3 of file a.f90\nFortran runtime error: no grid\n"
    _, ring = relay(tmp_path, message)
    assert ring.messages == message


def test_messages_are_not_moved_before_what_explains_them(tmp_path: Path) -> None:
    data = b"Traceback\n" + b"x\n" * 400 + b"Fatal\nMPI_ABORT was invoked\n"
    _, ring = relay(tmp_path, data)
    assert ring.messages and ring.tail == data
    assert ring.earlier_messages == b""


def test_room_for_messages_is_limited(tmp_path: Path) -> None:
    _, ring = relay(tmp_path, b"Assertion `x' failed\n" * 100_000)
    assert len(ring.messages) <= FOUND_BYTES
    assert ring.messages.startswith(b"Assertion")


def test_full_disk_loses_output_and_ends_nothing(tmp_path: Path) -> None:
    _, ring = relay(tmp_path, b"x" * 100_000, "/dev/full")
    assert ring.lost == 100_000
    assert os.strerror(ring.error) == "No space left on device"
    assert ring.tail == b"x" * 100_000


@pytest.fixture
def closed_pipe() -> Iterator[int]:
    read, write = os.pipe()
    os.close(read)
    yield write
    os.close(write)


def test_reader_that_leaves_is_reported_to_the_job(tmp_path: Path, closed_pipe: int) -> None:
    memory = output_relay.new_memory(1)
    read, write = os.pipe()
    line = [sys.executable, "-I", "-S", output_relay.__file__, str(memory)]
    process = subprocess.Popen(
        [*line, f"{read}:{closed_pipe}"], pass_fds=(memory, read, closed_pipe)
    )
    os.close(read)
    shared = mmap.mmap(memory, 0)
    os.close(memory)
    os.write(write, b"x")
    assert process.wait(60) == 0
    assert output_relay.rings(shared)[0].has_lost_reader
    with pytest.raises(BrokenPipeError):
        os.write(write, b"y")
    os.close(write)
