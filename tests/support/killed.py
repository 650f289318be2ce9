"""Writers that are killed: ``python -m tests.support.killed KIND HOW FOLDER``.

Each write runs in a process of its own, a fork of this one. After each kill this module checks that
the file is the one before or the new one, whole, and that at most one unfinished file is left. It
prints the number of killed processes.
"""

from __future__ import annotations

import itertools
import os
import random
import signal
import sys
import threading
import zlib
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

import msgspec
import numpy

from pgdb.frontend.analysis.answers import Answer
from pgdb.frontend.analysis.saved import Saved
from pgdb.frontend.store import array_files, recording_file, saved_files
from pgdb.frontend.store.history import CommandHistory
from pgdb.frontend.store.settings import Settings, keep_settings, read_settings
from pgdb.frontend.system import user_files
from pgdb.ranks import RankSet
from tests.support.programs import ROOT

WRITERS = 4
WRITES = 25
ROUNDS = 40
SIZE = 50_000
"""More than a buffer holds."""
LINE = "x" * 5000


class Settled:
    """The settings of ``set -keep``."""

    def write(self, path: Path, number: int) -> None:
        keep_settings(path, Settings(settle_s=1.0 + number))

    def read(self, path: Path) -> int:
        return int(read_settings(path).values["settle_s"]) - 1


class Typed:
    """The history of the prompt; what it has last says which write it was."""

    def write(self, path: Path, number: int) -> None:
        reported: list[str] = []
        history = CommandHistory(path, reported.append)
        history.store_string(f"{number} {LINE}")
        history.close()
        assert not reported, reported

    def read(self, path: Path) -> int:
        reported: list[str] = []
        history = CommandHistory(path, reported.append)
        entries = list(history.load_history_strings())
        assert not reported and all(each.endswith(f" {LINE}") for each in entries), reported
        return int(entries[0].split()[0])


class Recorded:
    """Recordings, as ``session save`` and ``--record`` write them."""

    def __init__(self) -> None:
        packed = zlib.compress((ROOT / "fuzz/corpus/recording/asked").read_bytes())
        head = b"%s%d\n" % (recording_file.MAGIC, recording_file.VERSION)
        self._file = recording_file.decode(head + packed).file

    def write(self, path: Path, number: int) -> None:
        file = msgspec.structs.replace(self._file, forgotten=number)
        recording_file.write(msgspec.structs.replace(file, description=f"{number}" * SIZE), path)

    def read(self, path: Path) -> int:
        return recording_file.read(path).file.forgotten


class Answered:
    """Answers, as ``save -o`` writes them."""

    def write(self, path: Path, number: int) -> None:
        answer = Answer("print " + "x" * SIZE, RankSet(), ())
        saved_files.write(Saved("a", answer, float(number)), path)

    def read(self, path: Path) -> int:
        return int(saved_files.read(path).time_s)


class Dumped:
    """Arrays, as ``dump`` writes them."""

    def write(self, path: Path, number: int) -> None:
        array_files.write_array(numpy.full(SIZE, number), path)

    def read(self, path: Path) -> int:
        values = numpy.load(path, allow_pickle=False)
        assert values.shape == (SIZE,)
        assert (values == values[0]).all()
        return int(values[0])


Kind = Settled | Typed | Recorded | Answered | Dumped
KINDS: dict[str, Callable[[], Kind]] = {
    "settings": Settled,
    "history": Typed,
    "recording": Recorded,
    "answer": Answered,
    "array": Dumped,
}
_WATCHED = (user_files.__file__, array_files.__file__)
"""Calls of these are the moments at which a writer is killed."""


def forked(work: Callable[[], None]) -> int:
    """Run *work* in a new process; return its id."""
    pid = os.fork()
    if pid:
        return pid
    status = 1
    try:
        work()
        status = 0
    except Exception:  # noqa: BLE001  # reported, and a status of its own
        sys.excepthook(*sys.exc_info())
    finally:
        os._exit(status)


def was_killed(pid: int) -> bool:
    status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    assert status in (0, -signal.SIGKILL), status
    return status != 0


def unfinished(path: Path) -> list[Path]:
    """Return what is left of writers; the lock is not."""
    others = {path, Path(f"{path}.lock")}
    return [each for each in path.parent.iterdir() if each not in others]


def kill_me_at(moment: int) -> None:
    """Have this process killed at the so many-th call, or return of one, that writes files."""
    left = moment

    def count(frame: FrameType, event: str, argument: Any) -> None:
        nonlocal left
        if frame.f_code.co_filename in _WATCHED:
            left -= 1
            if not left:
                os.kill(os.getpid(), signal.SIGKILL)

    threading.setprofile(count)
    sys.setprofile(count)


def at_each_moment(kind: Kind, path: Path) -> int:
    """Kill a writer at its first moment, then one at its second, until one is done before that."""
    kind.write(path, 0)
    latest = 0
    found: set[bool] = set()
    for moment in itertools.count(1):
        number = moment

        def work(moment: int = moment) -> None:
            kill_me_at(moment)
            kind.write(path, moment)

        if not was_killed(forked(work)):
            assert kind.read(path) == number
            assert not unfinished(path), unfinished(path)
            # Some were killed before the new file was there, and some after.
            assert found == {False, True}, found
            return moment - 1
        got = kind.read(path)
        assert got in (latest, number), (got, latest, number)
        found.add(got == number)
        latest = got
        assert len(unfinished(path)) <= 1, unfinished(path)
    raise AssertionError


def at_any_moment(kind: Kind, path: Path) -> int:
    """Kill writers that write all the time, after so many writes."""
    kind.write(path, 0)
    rng = random.Random(5)
    for _ in range(ROUNDS):
        reading, writing = os.pipe()
        begin = kind.read(path)

        def work(writing: int = writing, begin: int = begin) -> None:
            for number in itertools.count(begin + 1):
                kind.write(path, number)
                os.write(writing, b"w")

        pid = forked(work)
        os.close(writing)
        done = 0
        for _ in range(rng.randint(1, 5)):
            done += len(os.read(reading, 1))
        os.kill(pid, signal.SIGKILL)
        assert was_killed(pid)
        while more := os.read(reading, 4096):
            done += len(more)
        os.close(reading)
        # It may have been killed between a write and word of it.
        assert kind.read(path) - begin in (done, done + 1), (kind.read(path), begin, done)
        assert len(unfinished(path)) <= 1, unfinished(path)
    kind.write(path, 0)
    assert kind.read(path) == 0
    assert not unfinished(path), unfinished(path)
    return ROUNDS


def together(kind: Kind, path: Path) -> int:
    """Have several write at once: none takes what another one writes for something left."""

    def work() -> None:
        for number in range(WRITES):
            kind.write(path, number)

    pids = [forked(work) for _ in range(WRITERS)]
    assert not any(was_killed(pid) for pid in pids)
    assert kind.read(path) == WRITES - 1
    assert not unfinished(path), unfinished(path)
    return 0


HOW = {"each": at_each_moment, "any": at_any_moment, "together": together}


if __name__ == "__main__":
    print(HOW[sys.argv[2]](KINDS[sys.argv[1]](), Path(sys.argv[3]) / "it.npy"))
