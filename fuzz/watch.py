"""The loop that tries inputs, and watches errors, time and memory."""

from __future__ import annotations

import contextlib
import hashlib
import mmap
import os
import random
import signal
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType

from fuzz.mutation import repeated
from fuzz.targets import Target
from pgdb.errors import PgdbError

STUCK_S = 30.0
"""Seconds after which an input counts as a hang."""
_LEAST_SLOW_S = 0.2
_WARM_UP = 0.2
_SLOT_BYTES = 1 << 20


class StuckError(BaseException):
    """Input that takes too long."""


@dataclass(slots=True)
class Outcome:
    """The outcome of a run."""

    inputs: int = 0
    seconds: float = 0.0
    accepted: int = 0
    """Number of inputs that raised nothing."""
    errors: Counter[str] = field(default_factory=Counter)
    """Count of each documented error."""
    crashes: dict[str, bytes] = field(default_factory=dict)
    """The first input for each kind of crash."""
    slowest_s: float = 0.0
    slowest: bytes = b""
    rss_begin_bytes: int = 0
    """Resident memory in bytes after a fifth of the inputs, when caches were filled."""
    rss_end_bytes: int = 0

    def text(self) -> str:
        """Return the outcome in words."""
        each = 1e6 * self.seconds / max(1, self.inputs)
        lines = [
            f"{self.inputs} inputs in {self.seconds:.1f} s ({each:.1f} us each), "
            f"{self.accepted} accepted, {sum(self.errors.values())} refused "
            f"({', '.join(f'{name} {count}' for name, count in self.errors.most_common())})",
            f"slowest {1e3 * self.slowest_s:.1f} ms ({len(self.slowest)} bytes); "
            f"memory {self.rss_begin_bytes / 2**20:.1f} MiB after a fifth, "
            f"{self.rss_end_bytes / 2**20:.1f} MiB at the end",
        ]
        lines += [f"CRASH {what}" for what in self.crashes]
        return "\n".join(lines)


def rss_bytes() -> int:
    """Return the resident memory of this process."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * mmap.PAGESIZE


class Watch:
    """Watch over one target, on which it tries inputs."""

    def __init__(self, target: Target) -> None:
        self.target = target
        self.outcome = Outcome()

    def run(self, inputs: int, seed: int, seconds: float = float("inf")) -> Outcome:
        """Try up to *count* inputs made from the target's corpus, until the time is up."""
        rng = random.Random(seed)
        mutate = self.target.mutate()
        begin = time.monotonic()
        outcome = self.outcome
        with self._guarded() as keep:
            for _ in range(inputs):
                data = mutate(rng)
                keep(data)
                self._try(data)
                if outcome.inputs & 255:
                    continue
                took_s = time.monotonic() - begin
                share = max(outcome.inputs / inputs, took_s / seconds)
                if not outcome.rss_begin_bytes and share >= _WARM_UP:
                    outcome.rss_begin_bytes = rss_bytes()
                if took_s > seconds:
                    break
        outcome.seconds += time.monotonic() - begin
        outcome.rss_end_bytes = rss_bytes()
        outcome.rss_begin_bytes = outcome.rss_begin_bytes or outcome.rss_end_bytes
        return outcome

    def replay(self, inputs: Iterable[bytes]) -> Outcome:
        """Try these inputs."""
        with self._guarded() as keep:
            for data in inputs:
                keep(data)
                self._try(data)
        return self.outcome

    def grow(self, size: int) -> Outcome:
        """Try inputs of repeated words, some of them twice as long as others."""
        with self._guarded() as keep:
            for whole, half in repeated(self.target.words, size):
                keep(whole)
                # The ratio of very short times means nothing.
                if self._try(whole) < 0.02:
                    continue
                long_s = min(self._time(whole) for _ in range(3))
                short_s = min(self._time(half) for _ in range(3))
                if long_s > 3.2 * short_s and long_s > 0.02:
                    self._crash(
                        f"not linear: {short_s:.3f} s, twice the input {long_s:.3f} s", whole
                    )
        return self.outcome

    def _try(self, data: bytes) -> float:
        outcome = self.outcome
        outcome.inputs += 1
        begin = time.perf_counter()
        try:
            self.target.run(data)
            outcome.accepted += 1
        except self.target.errors as error:
            outcome.errors[type(error).__name__] += 1
            if isinstance(error, PgdbError) and "\n" in str(error):
                self._crash(f"an error of several lines: {type(error).__name__}", data)
        except StuckError:
            self._crash(f"no end within {STUCK_S:.0f} s: {_place()}", data)
        except Exception as error:  # noqa: BLE001  # to find these is what all is for
            self._crash(f"{type(error).__name__}: {str(error)[:60]} {_place()}", data)
        took_s = time.perf_counter() - begin
        if took_s > outcome.slowest_s:
            outcome.slowest_s, outcome.slowest = took_s, data
        limit_s = _LEAST_SLOW_S + self.target.slow_s_per_byte * len(data)
        # Other processes may have delayed a single run; a hang was noted already.
        if limit_s < took_s < STUCK_S / 2 and min(self._time(data) for _ in range(3)) > limit_s:
            self._crash("slow", data)
        return took_s

    def _time(self, data: bytes) -> float:
        begin = time.process_time()
        with contextlib.suppress(Exception, StuckError):
            self.target.run(data)
        return time.process_time() - begin

    def _crash(self, what: str, data: bytes) -> None:
        self.outcome.crashes.setdefault(what, data)

    @contextlib.contextmanager
    def _guarded(self) -> Iterator[object]:
        """Save the input in case the process dies of it, and interrupt an input that hangs."""
        path = Path(tempfile.gettempdir(), f"pgdb-fuzz-{self.target.name}-{os.getpid()}.input")
        last = -1

        def look(number: int, frame: FrameType | None) -> None:
            nonlocal last
            if self.outcome.inputs == last:
                raise StuckError
            last = self.outcome.inputs

        with path.open("w+b") as file:
            file.truncate(_SLOT_BYTES)
            slot = mmap.mmap(file.fileno(), _SLOT_BYTES)

        def keep(data: bytes) -> None:
            size = min(len(data), _SLOT_BYTES - 4)
            slot[: 4 + size] = size.to_bytes(4, "big") + data[:size]

        before = signal.signal(signal.SIGALRM, look)
        signal.setitimer(signal.ITIMER_REAL, STUCK_S, STUCK_S)
        try:
            yield keep
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
            signal.signal(signal.SIGALRM, before)
            slot.close()
            path.unlink()


def _place() -> str:
    """Return the place in our sources that raised the current error."""
    import sys

    frames = traceback.extract_tb(sys.exc_info()[2])
    ours = [each for each in frames if "/fuzz/" not in each.filename]
    at = ours[-1] if ours else frames[-1]
    return f"in {Path(at.filename).name}:{at.name}"


def name_of(data: bytes) -> str:
    """Return a file name for an input."""
    return hashlib.sha256(data).hexdigest()[:12]
