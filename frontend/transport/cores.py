"""The transport over aggregators whose ranks are core files."""

from __future__ import annotations

from collections.abc import Callable

from pgdb.errors import CommandError
from pgdb.frontend.transport.overlay_transport import Aggregators, Calls, OverlayTransport
from pgdb.overlay.messages import AnyOperation


class CoreTransport(OverlayTransport):
    """Core files as a session sees them: they answer questions, and refuse all else."""

    when_closed = "the session has ended; there are no core files to ask"

    def __init__(self, make_overlay: Callable[[Calls], Aggregators]) -> None:
        super().__init__(make_overlay)
        self._root.check = check


def check(operation: AnyOperation, command: str) -> None:
    """Check that an operation needs no process.

    :raises CommandError: if it needs one.
    """
    if operation.needs_process:
        raise CommandError(
            f"'{command}' needs a process, and the ranks of this session are core files, which "
            "can be looked at only"
        )
