"""The state of one user interface: focus, rank sets, numbered and saved answers, waiting times.

A session can have several user interfaces; each has a workspace of its own.
"""

from __future__ import annotations

import contextlib
from collections import OrderedDict
from collections.abc import Callable
from typing import TYPE_CHECKING

from pgdb.errors import CommandError, PgdbError
from pgdb.frontend.analysis.answers import Answer
from pgdb.frontend.analysis.saved import SavedAnswers
from pgdb.frontend.api.interface_options import InterfaceOptions
from pgdb.frontend.commands.traced_rows import TracedRows
from pgdb.frontend.commands.user_commands import UserCommands
from pgdb.frontend.commands.visibility import Visibility
from pgdb.frontend.store.recorder import WorkspaceState
from pgdb.ranks import RankSet

if TYPE_CHECKING:
    from pgdb.frontend.api.session import Session

HISTORY = 100
"""Number of earlier answers that ``expand`` can show."""
HISTORY_BYTES = 256 * 1024 * 1024
"""Limit for the size of all kept answers together; the last one is kept whatever its size."""


SETS = ("all", "@running", "@stopped", "@exited", "@lost", "@held", "@error")
"""Sets that every session has."""
PANES = ("src", "asm", "split", "regs")
"""The contents of the pane above the prompt."""


class PaneSettings:
    """The pane above the prompt, as the user wants it."""

    def __init__(self) -> None:
        self.kind = ""
        """One of :data:`PANES`; empty for no pane."""
        self.last = PANES[0]
        """The kind that the next 'tui enable' shows."""
        self.height = 15
        """Rows of the content."""
        self.down = self.right = 0
        """Rows and columns by which the content is scrolled, until another place is selected."""
        self.is_possible = False
        """Whether the user interface can draw a pane."""

    def show(self, kind: str) -> None:
        """Show a kind of content."""
        self.kind = self.last = kind
        self.down = self.right = 0

    def scroll(self, down: int = 0, right: int = 0) -> None:
        """Scroll the content; the left edge is the first column."""
        self.down += down
        self.right = max(0, self.right + right)

    def hide(self) -> None:
        """Remove the pane."""
        self.kind = ""


class Workspace:
    """Focus, rank sets, answers and waiting times of one user interface."""

    def __init__(
        self,
        session: Session,
        *,
        settle_s: float | None = None,
        run_timeout_s: float | None = None,
    ) -> None:
        self.session = session
        session.interfaces.add(self)
        self._focus: RankSet | None = None  # all
        self.sets: dict[str, RankSet] = {}
        """The sets that ``defset`` has defined, by name."""
        self.numbered_sets: tuple[RankSet, ...] = ()
        """The sets ``@1``, ``@2`` …: the classes of the last output."""
        self.saved = SavedAnswers()
        """The answers that ``save`` has kept, by name."""
        self.traced_rows = TracedRows()
        """The rows of traces that have been shown."""
        self.without_answer = ""
        """The last command, if its output is not an answer that ``expand`` can unfold."""
        self.next_arguments: tuple[str, ...] | None = None
        """The arguments that ``set args`` has given for the next launch; None to keep those."""
        self.visibility = Visibility()
        """The ranks and notifications that are not shown."""
        self.user = UserCommands()
        """The commands and aliases that the user has made."""
        self.interface = InterfaceOptions()
        """The settings of this user interface, without the settle time."""
        self.pane = PaneSettings()
        self.settle_s = settle_s
        """A run command returns when no further rank has stopped for this long after the first."""
        self.run_timeout_s = run_timeout_s
        """Longest time that a run command waits; None for no limit."""
        self.limit_s: float | None = None
        """Longest time for all answers to one command, where the user has set one."""
        self.history_shown = 0
        """Number of the line of the history after which ``show commands +`` goes on."""
        self.shell_status = ""
        """The status that the last command of the shell had: ``exitcode`` or ``exitsignal``."""
        self._answers: OrderedDict[int, Answer] = OrderedDict()
        self._sizes_bytes: dict[int, int] = {}
        self._last_number = 0
        self._most_answers = HISTORY

    def move_to(self, session: Session) -> None:
        """Continue with the session of the job's next launch: focus, sets and answers stay."""
        focus = self.focus & session.set
        self.session = session
        session.interfaces.add(self)
        self.traced_rows.clear()
        self.user.known.clear()  # the new GDBs have not carried out the Python code
        if self._focus is not None:
            self.focus = focus or session.set

    @property
    def focus(self) -> RankSet:
        """The ranks that commands act on. A focus on all ranks grows with the session."""
        return self.session.set if self._focus is None else self._focus

    @focus.setter
    def focus(self, ranks: RankSet) -> None:
        self._focus = None if ranks == self.session.set else ranks

    # -- rank sets ---------------------------------------------------------------------------

    def parse_ranks(self, text: str) -> RankSet:
        """Read a rank set; names are looked up in this workspace first, then in the session.

        :raises RankSetError: if it is malformed, empty, or names ranks the job does not have.
        """
        text = self.session.numbered_on(text)
        ranks = RankSet.parse(text, everything=self.session.set, named=self.named_set)
        self.session.ranks(ranks)  # raises for ranks that the job does not have
        return ranks

    def named_set(self, name: str) -> RankSet | None:
        """Return a numbered class, a set that ``defset`` has made, or a set of the session."""
        if name.isdecimal():
            number = int(name) - 1
            return self.numbered_sets[number] if 0 <= number < len(self.numbered_sets) else None
        found = self.sets.get(name)
        return found if found is not None else self.session.named_set(name)

    def set_read_later(self, text: str) -> Callable[[], RankSet]:
        """Return the function that reads a rank set when it is called; ``@1`` stays what it is now.

        The function raises :class:`~pgdb.errors.RankSetError` for a set that is forgotten by then.
        """
        numbered = self.numbered_sets

        def named(name: str) -> RankSet | None:
            if name.isdecimal():
                return numbered[int(name) - 1]
            return self.named_set(name)

        def read() -> RankSet:
            session = self.session
            text_now = session.numbered_on(text)
            return RankSet.parse(text_now, everything=session.set, named=named)

        return read

    @property
    def set_names(self) -> list[str]:
        """The names of the sets, for completion."""
        return [*SETS, *(f"@{name}" for name in self.all_sets)]

    @property
    def all_sets(self) -> dict[str, RankSet]:
        """The named sets that commands can use: those of the session and of this workspace."""
        return {**self.session.sets, **self.sets}

    def forget_set(self, name: str) -> bool:
        """Forget a named set; return whether there was one."""
        names = self.all_sets
        self.sets.pop(name, None)
        self.session.sets.pop(name, None)
        return name in names

    # -- answers -----------------------------------------------------------------------------

    @property
    def answers(self) -> tuple[tuple[int, Answer], ...]:
        """The kept answers by number, the oldest first."""
        return tuple(self._answers.items())

    def remember(self, answer: Answer, numbered_sets: tuple[RankSet, ...]) -> int:
        """Keep an answer for ``expand``, and its classes as ``@1``, ``@2`` …; return its number."""
        self.without_answer = ""
        self._last_number += 1
        self._keep(self._last_number, answer)
        if answer.classes:
            self.numbered_sets = numbered_sets
        return self._last_number

    def recall(self, number: int) -> Answer:
        """Return an earlier answer, the last one for 0.

        :raises CommandError: if no answer of that number is kept.
        """
        if not self._answers:
            raise CommandError("there is no earlier answer")
        if not number:
            return next(reversed(self._answers.values()))
        if number not in self._answers:
            raise CommandError(
                f"there is no answer {number}; the kept ones are "
                f"{next(iter(self._answers))} to {self._last_number}"
            )
        return self._answers[number]

    def _keep(self, number: int, answer: Answer) -> None:
        self._answers[number] = answer
        self._sizes_bytes[number] = answer.size_bytes
        while len(self._answers) > self._most_answers or (
            len(self._answers) > 1 and sum(self._sizes_bytes.values()) > HISTORY_BYTES
        ):
            oldest, _ = self._answers.popitem(last=False)
            del self._sizes_bytes[oldest]

    # -- recordings --------------------------------------------------------------------------

    @property
    def state(self) -> WorkspaceState:
        """The part of this workspace that a recording holds."""
        return WorkspaceState(
            focus=self.focus,
            history=self.answers,
            saved=tuple(self.saved),
            sets=dict(self.sets),
            numbered_sets=self.numbered_sets,
        )

    def restore(self, state: WorkspaceState) -> None:
        """Continue from the workspace of a recording."""
        self.focus = state.focus or self.focus
        self.sets.update(state.sets)
        self.numbered_sets = state.numbered_sets
        for each in state.saved:
            with contextlib.suppress(PgdbError):  # a file can hold invalid names
                self.saved.put(each)
        for number, answer in state.history:
            self._last_number = number
            self._keep(number, answer)
        # New answers do not push out the restored ones.
        self._most_answers = HISTORY + len(self._answers)
