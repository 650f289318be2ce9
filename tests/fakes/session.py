"""A session of four ranks that notes the lines for the GDBs, and has no answer for them."""

from __future__ import annotations

import asyncio
import io
from collections.abc import Sequence
from typing import Any

import msgspec

from pgdb.frontend.analysis.answers import Answer
from pgdb.frontend.api.breakpoint_numbers import BreakpointNumbers
from pgdb.frontend.api.settings_journal import SettingsJournal
from pgdb.frontend.commands.dispatch import Dispatcher
from pgdb.frontend.commands.table import Outcome
from pgdb.frontend.commands.workspace import Workspace
from pgdb.frontend.show.display import TextDisplay
from pgdb.merge.classes import EquivalenceClass
from pgdb.merge.normalize import DIFFERENT_SLOT
from pgdb.overlay.messages import Console
from pgdb.overlay.operation import Operation
from pgdb.overlay.query_options import QueryOptions
from pgdb.ranks import RankSet
from pgdb.records import SLOT, Failure, Record, Text, Value
from tests.fakes.bare_session import BareSession

ALL = RankSet.parse("0-3")


class FakeStopModes:
    """Breakpoints without a stop mode or a set of ranks."""

    def set_of(self, number: int) -> str:
        return ""


class FakeSession(BareSession):
    """Session that notes the texts for the GDBs."""

    def __init__(self) -> None:
        super().__init__(ALL)
        self.lines: list[str] = []
        """The lines, each with the ranks that get it, unless these are all."""
        self.values: dict[str, list[dict[str, str]]] = {}
        """Values for an expression at its evaluations: the value of each rank set."""
        self.texts: dict[str, str] = {}
        """The text that the GDBs answer to a line."""
        self.full_texts: dict[str, dict[str, str]] = {}
        """The texts that differ by address only, of a line: that of each rank set."""
        self.failing: dict[str, RankSet] = {}
        """The ranks on which a line fails."""
        self.messages: dict[str, str] = {}
        """The message with which a line fails."""
        self.kills_at_close = False
        self.settings = SettingsJournal()
        self.stop_modes = FakeStopModes()
        self.breakpoint_numbers = BreakpointNumbers()
        self.breakpoint_numbers.reached(1, ALL)
        self._asked = ALL

    def has_breakpoints(self, ranks: RankSet, number: int = 0) -> bool:
        return True

    async def ask(
        self, command: str, operation: Operation, ranks: RankSet, *, of_ended: bool = False
    ) -> Answer:
        assert isinstance(operation, Console) and operation.command == command
        return await self.ranks(ranks).execute_plain(command)

    async def machine_query(
        self, command: str, arguments: Sequence[str] = (), *, options: QueryOptions | None = None
    ) -> Answer:
        # Back ends are sent the options, and decode them strictly.
        options = msgspec.convert(msgspec.to_builtins(options or QueryOptions()), QueryOptions)
        given = options.words
        return await self.execute_plain(f"MI {' '.join((command, *given, *arguments))}")

    def ranks(self, which: RankSet) -> FakeSession:
        self._asked = which
        return self

    def __getitem__(self, rank: int) -> FakeSession:
        return self.ranks(RankSet([rank]))

    async def evaluate(self, expression: str, **how: Any) -> Answer:
        return await self.evaluate_in_full(expression, **how)

    def named_set(self, name: str) -> RankSet | None:
        return RankSet()

    def _note(self, line: str) -> Answer:
        which = "" if self._asked == ALL else f"[{self._asked}] "
        self.lines.append(which + line)
        return Answer(line, self._asked, ())

    async def execute_plain(self, line: str) -> Answer:
        answer = self._note(line)
        if failed := self.failing.get(line, RankSet()) & answer.ranks:
            message = self.messages.get(line, "it fails")
            failure = EquivalenceClass[Record](failed, Failure(message=message))
            return Answer(line, answer.ranks, (failure,))
        if line in self.full_texts:
            record = Text(text=f"{SLOT} …")
            same_but_for_addresses = EquivalenceClass[Record](
                answer.ranks, record, (DIFFERENT_SLOT,)
            )
            return Answer(line, answer.ranks, (same_but_for_addresses,))
        if line not in self.texts:
            return answer
        text = EquivalenceClass[Record](answer.ranks, Text(text=self.texts[line]))
        return Answer(line, answer.ranks, (text,))

    async def recall(self, answer: Answer, ranks: RankSet) -> Answer:
        classes = tuple(
            EquivalenceClass[Record](part, Text(text=text))
            for each, text in self.full_texts[answer.command].items()
            if (part := RankSet.parse(each) & ranks)
        )
        return Answer(answer.command, ranks, classes)

    async def script(self, lines: Sequence[str]) -> Answer:
        return await self.execute_plain(" | ".join(lines))

    async def backtrace(self, limit: int, **options: Any) -> Answer:
        return self._note(f"backtrace {limit} {sorted(name for name in options if options[name])}")

    async def evaluate_in_full(self, expression: str, **_: Any) -> Answer:
        answer = self._note(f"= {expression}")
        found = self.values.get(expression)
        if not found:
            return answer
        values = found.pop(0) if len(found) > 1 else found[0]
        classes: list[EquivalenceClass[Record]] = []
        for text, value in values.items():
            if part := RankSet.parse(text) & answer.ranks:
                classes.append(EquivalenceClass(part, Value(text=value)))
        return Answer(answer.command, answer.ranks, tuple(classes))


def dispatch(line: str, session: FakeSession | None = None) -> Outcome:
    async def never(_: str) -> str | None:
        raise AssertionError("nothing is to be read")

    workspace = Workspace(session or FakeSession())  # type: ignore[arg-type]
    dispatcher = Dispatcher(workspace, TextDisplay(io.StringIO()), read_line=never)
    return asyncio.run(dispatcher.dispatch(line, ALL))
