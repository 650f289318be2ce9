"""Lines typed at a session of four ranks that answer alike, and all that is shown."""

from __future__ import annotations

import asyncio
import io
from collections.abc import Callable

from pgdb.frontend.analysis.answers import Answer
from pgdb.frontend.api.interfaces import Interfaces
from pgdb.frontend.api.job_state import JobState
from pgdb.frontend.api.notifications import (
    Notification,
)
from pgdb.frontend.api.options import SessionOptions
from pgdb.frontend.commands.dispatch import Dispatcher
from pgdb.frontend.commands.workspace import Workspace
from pgdb.frontend.show.display import TextDisplay
from pgdb.merge.classes import EquivalenceClass
from pgdb.ranks import RankSet
from pgdb.records import Failure, Frame, Stack, Stop, Text

ALL = RankSet.parse("0-3")


class CapturingDisplay(TextDisplay):
    """A display whose standard output belongs to it, as that of JSON does."""

    @property
    def owns_output(self) -> bool:
        return True


class FakeSession:
    """Four stopped ranks that note commands; two of them differ in what they print."""

    is_recorded = False
    has_ended = False

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.listeners: list[Callable[[Notification], None]] = []
        self.on_command: Callable[[], None] = lambda: None
        self.set = ALL
        self.asked = RankSet()
        self.interfaces = Interfaces()
        self.options = SessionOptions()
        self.state = JobState(ALL)
        self.state.apply((EquivalenceClass(ranks=ALL, record=Stop(reason="breakpoint-hit")),))
        self.frame = Frame(level=0, function="main")
        self.text = ""
        self.has_some = True
        self.notes: list[str] = []

    def ranks(self, which: RankSet) -> FakeSession:
        return self

    def subscribe(self, listener: Callable[[Notification], None]) -> Callable[[], None]:
        self.listeners.append(listener)
        return lambda: self.listeners.remove(listener)

    def has_breakpoints(self, ranks: RankSet, number: int = 0) -> bool:
        return self.has_some

    async def execute_plain(self, line: str, timeout_s: float | None = None) -> Answer:
        self.lines.append(line)
        self.on_command()
        if not self.text:
            return Answer(line, ALL, (EquivalenceClass(ranks=ALL, record=Failure("No symbol.")),))
        return Answer(line, ALL, (EquivalenceClass(ranks=ALL, record=Text(self.text)),))

    def note(self, text: str) -> None:
        self.notes.append(text)

    async def select_frame(self, line: str) -> Answer:
        return Answer(line, ALL, (EquivalenceClass(ranks=ALL, record=Stack((self.frame,))),))

    async def change_breakpoints(self, command: str, numbers: list[str], argument: str) -> Answer:
        self.lines.append(f"{command} {numbers}")
        return Answer(command, ALL, ())


class Typed:
    """Lines typed one after the other, and what is shown of them."""

    def __init__(
        self, *, reply: bool | None = None, display: type[TextDisplay] = CapturingDisplay
    ) -> None:
        async def never(_: str) -> str | None:
            raise AssertionError("nothing is to be read")

        async def ask(question: str) -> bool:
            self.questions.append(question)
            return bool(reply)

        self.out = io.StringIO()
        self.questions: list[str] = []
        self.session = FakeSession()
        self.dispatcher = Dispatcher(
            Workspace(self.session),  # type: ignore[arg-type]
            display(self.out),
            read_line=never,
            ask=None if reply is None else ask,
        )

    def __call__(self, *lines: str) -> str:
        """Carry out lines; return all that they show."""
        begin = len(self.out.getvalue())

        async def work() -> None:
            for line in lines:
                await self.dispatcher.run_line(line)

        asyncio.run(work())
        return self.out.getvalue()[begin:]
