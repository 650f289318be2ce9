"""Looks at the recorder of a rank that runs."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from pathlib import Path

from pgdb.backend.mpi_calls.recorded_progress import NO_RECORDER, RecordedCalls, recent_calls
from pgdb.backend.mpi_calls.recorder import Read
from pgdb.mpi_calls import MpiCallStatus
from pgdb.mpi_recorder import layout
from pgdb.process_maps import Mapping
from pgdb.records import Failure
from tests.support.recorder_memory import BEGIN, fill, memory, reader

PID = 77


class Image:
    """A process with the recorder's memory at BEGIN."""

    def __init__(self, made: layout.Memory) -> None:
        self.made = made
        self.library = f"/cache/{layout.LIBRARY}"

    def mappings(self) -> Sequence[Mapping]:
        end = BEGIN + 0x200000
        return [Mapping(BEGIN, end, "rw-p", 0, self.library)]

    @contextlib.contextmanager
    def opened(self) -> Iterator[Read]:
        yield reader(self.made)


def process(folder: Path, state: str = "R", wchan: str = "0") -> Path:
    """Make the files of a process with one thread in /proc; return the folder of processes."""
    own = folder / str(PID)
    (own / "task" / str(PID)).mkdir(parents=True, exist_ok=True)
    own.joinpath("stat").write_text(f"{PID} (app) {state} 1" + " 0" * 48)
    own.joinpath("status").write_text("Uid:\t0\t0\t0\t0\nTracerPid:\t0\n")
    own.joinpath("wchan").write_text(wchan)
    return folder


def test_a_rank_moves_if_it_has_begun_a_call_since_the_last_look(tmp_path: Path) -> None:
    calls, image = RecordedCalls(process(tmp_path)), Image(memory())
    first, second = calls.look(image, PID), calls.look(image, PID)
    assert isinstance(first, MpiCallStatus) and isinstance(second, MpiCallStatus)
    assert (first.moved, second.moved) == (None, False)
    assert second.call is not None and second.call.function == "MPI_Wait"
    image.made.thread[0].calls += 1
    fill(image.made.thread[0].ring[3], "MPI_Barrier", group=4)
    third = calls.look(image, PID)
    assert isinstance(third, MpiCallStatus) and third.call is not None
    assert third.moved and third.call.function == "MPI_Barrier"
    assert third.call.communicator is None


def test_the_activity_of_a_rank_outside_mpi_is_the_kernels(tmp_path: Path) -> None:
    image = Image(memory())
    image.made.thread[0].frame = 0
    for state, wchan, activity in (
        ("R", "0", "computing"),
        ("S", "hrtimer_nanosleep", "sleeping"),
        ("S", "futex_wait_queue", "lock"),
        ("D", "0", "io"),
        ("S", "0", ""),
    ):
        found = RecordedCalls(process(tmp_path, state, wchan)).look(image, PID)
        assert isinstance(found, MpiCallStatus) and found.state == "outside"
        assert found.activity == activity and not found.calls


def test_a_forked_child_is_in_no_call_of_its_parent(tmp_path: Path) -> None:
    image = Image(memory())
    image.made.thread[0].tid = PID + 1
    found = RecordedCalls(process(tmp_path)).look(image, PID)
    assert isinstance(found, MpiCallStatus) and not found.calls


def test_a_rank_without_a_recorder(tmp_path: Path) -> None:
    image = Image(memory())
    image.library = "/lib/libother.so"
    assert RecordedCalls(process(tmp_path)).look(image, PID) == Failure(message=NO_RECORDER)
    image = Image(memory())
    image.made.version += 1
    assert RecordedCalls(process(tmp_path)).look(image, PID) == Failure(message=NO_RECORDER)


def test_the_last_calls_of_a_rank() -> None:
    image = Image(memory())
    image.made.thread[0].number = 1
    fill(image.made.thread[0].ring[1], "MPI_Barrier", group=4)
    found = recent_calls(image, 2)
    assert isinstance(found, MpiCallStatus) and found.state == "in_call"
    assert [each.call.function for each in found.recent] == ["MPI_Barrier", "MPI_Wait"]
    image.library = "/lib/libother.so"
    assert recent_calls(image, 2) == Failure(message=NO_RECORDER)
