"""Outcomes by kind of step, lateness, and the output of the session meanwhile."""

from __future__ import annotations

import contextlib
import logging
import os
import sys
import time
import traceback
from collections import defaultdict, deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from pgdb.frontend.api.notifications import Notification
from tests.support.processes import wait_until

DEADLINE_S = 60.0
LATE = 5
"""Multiple of the allowed time after which something will never happen."""
HEARD = 300
"""Number of lines of a session's output that --verbose shows when something is wrong."""


class Wrong(AssertionError):
    """Wrong finding."""


class Impossible(Exception):
    """Fault without a target at the moment."""


@dataclass
class Outcome:
    """The outcomes of one kind of fault."""

    tries: int = 0
    named: int = 0
    """Number of times that all concerned ranks were named, all others answered, and the states
    agreed."""
    restored: int = 0
    restores: int = 0
    worst_s: float = 0.0
    """Longest time in seconds until PGDB showed all effects."""
    wrong: list[str] = field(default_factory=list)


class Notes:
    """The outcomes of the steps so far."""

    def __init__(self, *, is_verbose: bool) -> None:
        self.outcomes: dict[str, Outcome] = defaultdict(Outcome)
        self.steps = 0
        self.late: list[str] = []
        self._is_verbose = is_verbose
        self._noted_error: Exception | None = None
        self._heard: deque[str] = deque(maxlen=HEARD)
        if is_verbose:
            self._listen()

    def _wait(self, holds: Callable[[], object], what: str, deadline_s: float = DEADLINE_S) -> None:
        """Wait until a condition holds; a late one is noted, and one that never holds is wrong.

        The machine may be so busy that the process under test gets no turn.
        """
        begun = time.monotonic()
        try:
            wait_until(holds, what, deadline_s)
        except AssertionError:
            self._say(f"  late: {what}")
            try:
                wait_until(holds, what, (LATE - 1) * deadline_s)
            except AssertionError as error:
                raise Wrong(str(error)) from None
            self._in_time(begun, what, deadline_s)

    def _in_time(self, begun: float, what: str, deadline_s: float) -> None:
        """Note work that began at a time and has ended late."""
        if (took_s := time.monotonic() - begun) > LATE * deadline_s:
            raise Wrong(f"{what}, after {took_s:.1f} s")
        if took_s > deadline_s:
            self.late.append(
                f"step {self.steps}: {what}, after {took_s:.1f} s, not {deadline_s:g}, "
                f"with {os.getloadavg()[0]:.1f} processes for {os.cpu_count()} CPUs"
            )

    @contextlib.contextmanager
    def _noted(self, name: str) -> Iterator[Outcome]:
        outcome = self.outcomes[name]
        outcome.tries += 1
        begun = time.monotonic()
        try:
            yield outcome
        except (Impossible, KeyboardInterrupt):
            outcome.tries -= 1
            raise
        except Exception as error:
            self._noted_error = error
            words = str(error) if isinstance(error, Wrong) else traceback.format_exc()
            outcome.wrong.append(f"step {self.steps}: {words}")
            self._say(f"step {self.steps} {name}: WRONG {words}")
            self._say_all()
            raise
        else:
            outcome.named += 1
            took_s = time.monotonic() - begun
            outcome.worst_s = max(outcome.worst_s, took_s)
            self._say(f"step {self.steps} {name}: {took_s:.1f} s")

    def _say(self, text: str) -> None:
        if self._is_verbose:
            sys.stderr.write(f"{time.monotonic():.3f} {text}\n")
            sys.stderr.flush()

    def _listen(self) -> None:
        """Keep the log of PGDB."""
        handler = logging.Handler()
        handler.emit = lambda record: self._hear(record.getMessage())  # type: ignore[method-assign]
        logger = logging.getLogger("pgdb")
        logger.setLevel(logging.DEBUG)
        logger.addHandler(handler)
        logger.propagate = False

    def _notify(self, notification: Notification) -> None:
        self._hear(notification)

    def _hear(self, what: object) -> None:
        self._heard.append(f"{time.monotonic():.3f} {what}"[:1000])

    def _say_all(self) -> None:
        """Print the session's output."""
        for line in list(self._heard):
            self._say(f"    {line}")
