"""The work and the sleeps of ranks that block outside MPI."""

from __future__ import annotations

import contextlib
import os
import platform
import socket
import struct
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from pgdb.backend.mpi_calls.blocking import Blocking
from pgdb.elf import Read
from pgdb.mpi_calls import Activity, MpiCallStatus
from pgdb.process_maps import Mapping

PID, CHILD, THREAD = 77, 78, 79
PLACE = 0x7FFD0000


class Image:
    """A process with a time in its memory."""

    executable = ""

    def __init__(self, seconds: float) -> None:
        self._data = struct.pack("<qq", int(seconds), round(seconds % 1 * 1e9))

    def mappings(self) -> Sequence[Mapping]:
        return ()

    @contextlib.contextmanager
    def opened(self) -> Iterator[Read]:
        yield lambda address, size_bytes: self._data if address == PLACE else b""


def process(folder: Path, pid: int, ticks: int, *, children: str = "", syscall: str = "") -> None:
    """Make the files of a process in /proc."""
    own = folder / str(pid)
    (own / "task" / str(pid)).mkdir(parents=True, exist_ok=True)
    fields = ["S", "1", *["0"] * 48]
    fields[11] = str(ticks)
    own.joinpath("stat").write_text(f"{pid} (app) {' '.join(fields)}")
    own.joinpath("task", str(pid), "children").write_text(children)
    own.joinpath("syscall").write_text(syscall or "running")


def outside(activity: Activity) -> MpiCallStatus:
    return MpiCallStatus(state="outside", activity=activity)


def test_a_rank_that_used_the_processor_between_two_looks_has_worked(tmp_path: Path) -> None:
    blocking, image = Blocking(tmp_path), Image(0)
    process(tmp_path, PID, 100)
    assert blocking.looked(outside("lock"), image, PID).worked is None
    process(tmp_path, PID, 101)
    assert blocking.looked(outside("lock"), image, PID).worked is False
    process(tmp_path, PID, 200)
    assert blocking.looked(outside("lock"), image, PID).worked is True


@pytest.mark.parametrize("activity", ["dying", "exiting"])
def test_a_rank_that_ends_may_block_too(tmp_path: Path, activity: Activity) -> None:
    blocking, image = Blocking(tmp_path), Image(0)
    process(tmp_path, PID, 100)
    blocking.looked(outside(activity), image, PID)
    assert blocking.looked(outside(activity), image, PID).worked is False


def test_the_work_of_a_child_is_work(tmp_path: Path) -> None:
    blocking, image = Blocking(tmp_path), Image(0)
    process(tmp_path, PID, 100, children=f"{CHILD} ")
    process(tmp_path, CHILD, 0)
    blocking.looked(outside("io"), image, PID)
    process(tmp_path, CHILD, 50)
    assert blocking.looked(outside("io"), image, PID).worked is True


def test_nothing_is_said_of_another_process_or_of_one_that_does_not_block(tmp_path: Path) -> None:
    blocking, image = Blocking(tmp_path), Image(0)
    process(tmp_path, PID, 100)
    process(tmp_path, CHILD, 200)
    blocking.looked(outside("lock"), image, PID)
    assert blocking.looked(outside("lock"), image, CHILD).worked is None
    assert blocking.looked(outside("computing"), image, CHILD).worked is None
    in_call = MpiCallStatus(state="in_call")
    assert blocking.looked(in_call, image, CHILD) == in_call


@pytest.mark.skipif(platform.machine() != "x86_64", reason="system calls have other numbers")
@pytest.mark.parametrize(
    ("syscall", "seconds"),
    [
        (f"230 0x0 0x0 {PLACE:#x} 0x0 0x0 0x0 0x1 0x2", 1),
        (f"219 0x0 0x0 {PLACE:#x} 0x0 0x0 0x0 0x1 0x2", 1),
        (f"35 {PLACE:#x} 0x0 0x0 0x0 0x0 0x0 0x1 0x2", 1),
        (f"230 0x1 0x1 {PLACE:#x} 0x0 0x0 0x0 0x1 0x2", 0),
        (f"230 0x2 0x1 {PLACE:#x} 0x0 0x0 0x0 0x1 0x2", None),
        ("230 0x0 0x0 0x10 0x0 0x0 0x0 0x1 0x2", None),
        ("34 0x0 0x0 0x0 0x0 0x0 0x0 0x1 0x2", None),
        ("-1 0x1 0x2", None),
        ("running", None),
    ],
)
def test_length_of_a_sleep(tmp_path: Path, syscall: str, seconds: int | None) -> None:
    process(tmp_path, PID, 1, syscall=syscall)
    found = Blocking(tmp_path).looked(outside("sleeping"), Image(1), PID)
    assert found.sleeps_s == seconds


@pytest.mark.skipif(platform.machine() != "x86_64", reason="system calls have other numbers")
@pytest.mark.parametrize(("asked_s", "least_s"), [(0.5, 0), (9.9, 1), (99989.9, 86400)])
def test_lengths_of_sleeps_are_few(tmp_path: Path, asked_s: float, least_s: int) -> None:
    process(tmp_path, PID, 1, syscall=f"230 0x0 0x0 {PLACE:#x} 0x0 0x0 0x0 0x1 0x2")
    assert Blocking(tmp_path).looked(outside("sleeping"), Image(asked_s), PID).sleeps_s == least_s


@pytest.mark.skipif(platform.machine() != "x86_64", reason="system calls have other numbers")
@pytest.mark.parametrize(
    ("syscall", "activity"),
    [
        ("202 0x1 0x80 0x2 0x0 0x0 0x0 0x1 0x2", "lock"),
        ("0 0x3 0x80 0x2 0x0 0x0 0x0 0x1 0x2", "io"),
        ("-1 0x1 0x2", "computing"),
        ("running", "computing"),
        ("39 0x1 0x80 0x2 0x0 0x0 0x0 0x1 0x2", "computing"),
    ],
)
def test_a_system_call_names_the_work_of_a_function_without_a_name(
    tmp_path: Path, syscall: str, activity: Activity
) -> None:
    process(tmp_path, PID, 1, syscall=syscall)
    found = Blocking(tmp_path).looked(outside("computing"), Image(0), PID)
    assert found.activity == activity
    assert Blocking(tmp_path).looked(outside("python"), Image(0), PID).activity == "python"


@pytest.mark.skipif(platform.machine() != "x86_64", reason="system calls have other numbers")
def test_the_system_call_is_that_of_the_thread_of_the_status(tmp_path: Path) -> None:
    process(tmp_path, PID, 1, syscall="202 0x1 0x80 0x2 0x0 0x0 0x0 0x1 0x2")  # it joins a thread
    process(tmp_path, THREAD, 1)
    blocking = Blocking(tmp_path)
    assert blocking.looked(outside("computing"), Image(0), PID, THREAD).activity == "computing"
    process(tmp_path, THREAD, 1, syscall="0 0x3 0x80 0x2 0x0 0x0 0x0 0x1 0x2")
    assert blocking.looked(outside("computing"), Image(0), PID, THREAD).activity == "io"


def test_a_process_that_has_ended_says_nothing(tmp_path: Path) -> None:
    found = Blocking(tmp_path).looked(outside("sleeping"), Image(0), PID)
    assert (found.worked, found.sleeps_s) == (None, None)


@pytest.mark.skipif(platform.machine() != "x86_64", reason="system calls have other numbers")
def test_the_object_on_which_input_or_output_waits(tmp_path: Path) -> None:
    blocking = Blocking(tmp_path)

    def waits_on(syscall: str) -> str:
        process(tmp_path, PID, 1, syscall=f"{syscall} 0x10 0x1 0x0 0x0 0x0 0x1 0x2")
        return blocking.looked(outside("io"), Image(0), PID).waits_on

    descriptors = tmp_path / str(PID) / "fd"
    descriptors.mkdir(parents=True)
    ends = os.pipe()
    os.mkfifo(tmp_path / "fifo")
    socket_pair = socket.socketpair()
    targets = [f"/proc/self/fd/{ends[0]}", os.devnull, "/gone", __file__, tmp_path / "fifo"]
    for number, target in enumerate([*targets, f"/proc/self/fd/{socket_pair[0].fileno()}"]):
        descriptors.joinpath(str(number)).symlink_to(target)
    assert waits_on("0 0x0").startswith("its standard input")
    assert waits_on("1 0x1") == "its standard output, a device"
    assert waits_on("1 0x2") == "its standard error"
    assert waits_on("0 0x3") == "a file"
    assert waits_on("0 0x4") == "a FIFO"
    assert waits_on("45 0x5") == "a socket"
    assert waits_on("0 0x9") == ""
    # The first argument of poll is an address.
    assert waits_on("7 0x0") == ""
    for each in ends:
        os.close(each)
    for other in socket_pair:
        other.close()


def test_a_rank_under_strict_seccomp_is_called_so(tmp_path: Path) -> None:
    process(tmp_path, PID, 1)
    status = tmp_path / str(PID) / "status"
    for number, expected in (("1", True), ("0", False), ("2", False)):
        status.write_text(f"Name:\tapp\nSeccomp:\t{number}\nSeccomp_filters:\t1\n")
        found = Blocking(tmp_path).looked(outside("computing"), Image(0), PID)
        assert found.is_confined == expected
