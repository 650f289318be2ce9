"""The interface between a session with one GDB and the receiver of its events."""

from __future__ import annotations

from typing import Any, Protocol


class Listener(Protocol):
    """Receiver of GDB's events."""

    def on_stopped(self, payload: dict[str, Any]) -> None:
        """Receive the report that the inferior has stopped or ended."""

    def on_running(self) -> None:
        """Receive the report that the inferior runs."""

    def on_run_failed(self, message: str) -> None:
        """Receive the report that the inferior does not run after all."""

    def on_unreported_stop(self) -> None:
        """Receive the finding that the inferior is stopped, without a report of the stop."""

    def on_partly_stopped(self, thread: str) -> None:
        """Receive the finding that *thread*, and not all others, is stopped, without a report."""

    def on_notice(self, name: str, payload: dict[str, Any]) -> None:
        """Take a change: of breakpoints, threads, libraries."""

    def on_output(self, text: str) -> None:
        """Take output of GDB that belongs to no command."""

    def on_end(self, why: str) -> None:
        """Receive the end of GDB; no further calls follow."""
