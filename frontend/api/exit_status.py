"""The end of a user interface, and the exit status from answers and events. No I/O."""

from __future__ import annotations

from pgdb.frontend.analysis.answers import Answer
from pgdb.frontend.api import gdb_commands
from pgdb.merge.classes import EquivalenceClass
from pgdb.ranks import RankSet
from pgdb.records import Event, Exit, Stop, is_error

EXIT_OK, EXIT_FAILED, EXIT_USAGE, EXIT_START, EXIT_NO_ANSWER, EXIT_SIGNAL = range(6)
_SEVERITY = (EXIT_OK, EXIT_FAILED, EXIT_USAGE, EXIT_NO_ANSWER, EXIT_SIGNAL, EXIT_START)


class Quit(Exception):
    """Signal of a command that the session's user interface is to end."""

    def __init__(self, *, kill: bool, why: str = "") -> None:
        super().__init__("quit")
        self.kill = kill
        self.why = why
        """The reason why the session is over; empty if the user has asked to leave."""


def worse(first: int, second: int) -> int:
    """Return the worse one of two statuses."""
    return max(first, second, key=_SEVERITY.index)


def of_answer(
    answer: Answer, *, ended_well: RankSet, ended_counts: bool = False, may_run: bool = False
) -> int:
    """Return the status for an answer.

    With *ended_counts*, and for a run command, it is an answer of a rank that it has ended with
    status 0, so that it is among *ended_well*. Ranks *may_run* on where there is a settle time, if
    not all do.
    """
    missing, lost = answer.missing, answer.missing.lost
    failed = RankSet.union(each.ranks for each in answer.errors)
    if (lost or failed) and (ended_counts or _is_run(answer.command)):
        lost, failed = lost - ended_well, failed - ended_well
    status = EXIT_FAILED if failed else EXIT_OK
    if missing.late or lost:
        status = worse(status, EXIT_NO_ANSWER)
    if missing.running and not (answer.may_run or (may_run and answer.classes)):
        status = worse(status, EXIT_NO_ANSWER)
    return status


def of_events(classes: tuple[EquivalenceClass[Event], ...], killed: RankSet) -> int:
    """Return the status for events: a fatal signal of a rank that the user has not *killed*."""
    for each in classes:
        if each.ranks <= killed:
            continue
        match each.record:
            case Stop() as stop if is_error(stop):
                return EXIT_SIGNAL
            case Exit(signal=name) if name:
                return EXIT_SIGNAL
    return EXIT_OK


def _is_run(line: str) -> bool:
    """Return whether a command sets ranks running."""
    return gdb_commands.kind_of(gdb_commands.resolve(line), line) is gdb_commands.Kind.RUN
