"""Lines typed at a session of four ranks that answer alike, and all that is shown."""

from __future__ import annotations

import asyncio
import io
from collections.abc import Callable

from pgdb.frontend.analysis.answers import Answer
from pgdb.frontend.commands.dispatch import Dispatcher
from pgdb.frontend.commands.workspace import Workspace
from pgdb.frontend.show.display import TextDisplay
from pgdb.merge.classes import EquivalenceClass
from pgdb.ranks import RankSet
from pgdb.records import Failure, Frame, Stack, Stop, Text
from tests.fakes.bare_session import BareSession

ALL = RankSet.parse("0-3")


class CapturingDisplay(TextDisplay):
    """A display whose standard output belongs to it, as that of JSON does."""

    @property
    def owns_output(self) -> bool:
        return True


class TypedSession(BareSession):
    """Four stopped ranks that note commands; two of them differ in what they print."""

    def __init__(self) -> None:
        super().__init__(ALL)
        self.lines: list[str] = []
        self.on_command: Callable[[], None] = lambda: None
        self.asked = RankSet()
        self.apply(ALL, Stop(reason="breakpoint-hit"))
        self.frame = Frame(level=0, function="main")
        self.text = ""
        self.has_some = True

    def ranks(self, which: RankSet) -> TypedSession:
        return self

    def has_breakpoints(self, ranks: RankSet, number: int = 0) -> bool:
        return self.has_some

    async def execute_plain(self, line: str, timeout_s: float | None = None) -> Answer:
        self.lines.append(line)
        self.on_command()
        if not self.text:
            return Answer(line, ALL, (EquivalenceClass(ranks=ALL, record=Failure("No symbol.")),))
        return Answer(line, ALL, (EquivalenceClass(ranks=ALL, record=Text(self.text)),))

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
        self.session = TypedSession()
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
