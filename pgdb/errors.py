"""All errors that PGDB raises on purpose.

Their root is :class:`PgdbError`. The class says in which state PGDB is; the message names the
faulty part and what to do. Any other exception is a bug and keeps its traceback.
"""

from __future__ import annotations


class PgdbError(Exception):
    """Root of PGDB's own errors; its text is one line for the user."""


class UsageError(PgdbError):
    """Input of the user that cannot be understood. Nothing was done."""


class RankSetError(UsageError):
    """Rank set that is malformed, or names ranks that the job does not have."""


class StartError(PgdbError):
    """Failure to start the session. If there was a job already, it runs on."""


class DiscoveryError(StartError):
    """The ranks of a job could not be found; the text lists the attempts."""


class PermissionToTraceError(StartError):
    """Refusal of the kernel to let this user trace the ranks; the text names the remedy."""


class LinkError(PgdbError):
    """Link of the overlay that was lost, or could not be made."""


class ProtocolError(LinkError):
    """Bytes of a peer that are not a valid message. The link is closed."""


class DebuggerError(PgdbError):
    """Debugger of a rank that cannot be used any longer, of whatever kind it is."""


class GdbError(DebuggerError):
    """GDB process that cannot be used any longer: it ended, or stopped answering."""


class CommandError(PgdbError):
    """Failure of a command that was understood, but could not be carried out."""


class InternalError(PgdbError):
    """Bug of PGDB's that a command met; the log has its traceback. The session continues."""


class NotRecordedError(CommandError):
    """Command for which a recording has no answer.

    *has* lists the commands that it has. The text names *command*, or the command given to
    :meth:`of`.
    """

    def __init__(self, command: str, has: str, *, is_typed: bool = False) -> None:
        super().__init__(f"'{command}' {has}")
        self.has = has
        self.is_typed = is_typed
        """Whether the text names the command that the user typed."""

    def of(self, typed: str) -> NotRecordedError:
        """Return the error for the command that the user typed."""
        return self if self.is_typed else NotRecordedError(typed, self.has, is_typed=True)


class NoAnswerError(CommandError):
    """Lack of an answer: no rank answered in time, or none of the requested ranks is left."""


NO_JOB = "the session has ended; there is no job to ask"
"""The message of a call after the end of its session."""


class SessionEndedError(PgdbError):
    """End of the session: detached, killed, or the job has ended."""


def one_line(error: Exception) -> str:
    """Return the text of an error in one line; decoders quote what they got, line ends and all."""
    return " ".join(str(error).split())
