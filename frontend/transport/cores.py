"""The transport over aggregators whose ranks are core files."""

from __future__ import annotations

from collections.abc import Callable

from pgdb.errors import CommandError
from pgdb.frontend.transport.overlay_transport import Aggregators, Calls, OverlayTransport
from pgdb.overlay.breakpoint_operations import StartTrace, StopTrace
from pgdb.overlay.messages import (
    AnyOperation,
    BreakpointCommands,
    ChangeBreakpoints,
    Detach,
    InsertBreakpoint,
    Interrupt,
    Kill,
    ListBreakpoints,
)
from pgdb.overlay.router import Gathered
from pgdb.ranks import RankSet

_NEED_A_PROCESS = (
    BreakpointCommands,
    ChangeBreakpoints,
    Detach,
    InsertBreakpoint,
    Interrupt,
    Kill,
    ListBreakpoints,
    StartTrace,
    StopTrace,
)


class CoreTransport(OverlayTransport):
    """Core files as a session sees them: they answer questions, and refuse all else."""

    when_closed = "the session has ended; there are no core files to ask"

    def __init__(self, make_overlay: Callable[[Calls], Aggregators]) -> None:
        super().__init__(make_overlay)
        self.ask = self._ask

    def check(self, operation: AnyOperation, command: str) -> None:
        """Check that an operation needs no process.

        :raises CommandError: if it needs one.
        """
        if isinstance(operation, _NEED_A_PROCESS) or operation.sets_running:
            raise CommandError(
                f"'{command}' needs a process, and the ranks of this session are core files, which "
                "can be looked at only"
            )

    async def _ask(
        self,
        request_id: int,
        ranks: RankSet,
        operation: AnyOperation,
        timeout_s: float,
        command: str = "",
        *,
        of_ended: bool = False,
    ) -> Gathered:
        self.check(operation, command)
        return await self._root.ask(
            request_id, ranks, operation, timeout_s, command, of_ended=of_ended
        )
