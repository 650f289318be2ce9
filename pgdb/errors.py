"""Every error that PGDB raises on purpose.

All derive from :class:`PgdbError`; a class says what state things are in, the message names
the faulty part and the way out. Whatever else is raised is a bug and keeps its traceback.
"""

from __future__ import annotations


class PgdbError(Exception):
    """Root of PGDB's own errors; its text is one line, fit to be shown to the user."""


class UsageError(PgdbError):
    """What the user typed cannot be understood. Nothing has been done."""


class RankSetError(UsageError):
    """A rank set is malformed, or names ranks that the job does not have."""


class StartError(PgdbError):
    """The session could not start. The job, if there was one already, runs on."""


class DiscoveryError(StartError):
    """The ranks of a job could not be found; the text says what was tried."""


class PermissionToTraceError(StartError):
    """The kernel does not let this user trace the ranks; the text says the remedy."""


class LinkError(PgdbError):
    """A link of the overlay is gone, or never came up."""


class ProtocolError(LinkError):
    """A peer sent bytes that are no valid message. The link is closed."""


class GdbError(PgdbError):
    """A GDB process cannot be used any longer (it ended, or stopped answering)."""


class CommandError(PgdbError):
    """A command was understood and could not be carried out."""


class InternalError(PgdbError):
    """A command met a bug of PGDB's, whose traceback is in the log. The session goes on."""


class NotRecordedError(CommandError):
    """A recording has no answer to what a command asks.

    *has* says in words what there is; the text names *command*, or what :meth:`of` is told.
    """

    def __init__(self, command: str, has: str, *, is_typed: bool = False) -> None:
        super().__init__(f"'{command}' {has}")
        self.has = has
        self.is_typed = is_typed
        """Whether it names what the user has typed."""

    def of(self, typed: str) -> NotRecordedError:
        """Return the error for what the user has typed, which may ask for other words."""
        return self if self.is_typed else NotRecordedError(typed, self.has, is_typed=True)


class NoAnswerError(CommandError):
    """No rank answered in time, or none of the ranks asked for is left."""


class SessionEndedError(PgdbError):
    """The session is over: detached, killed, or the job has ended."""
