"""The table of commands: the one declaration of words, options, help and completion.

A command is a decorated coroutine; its docstring is its help. A command without declared options
gets its argument raw, as in GDB, since expressions and locations have a grammar of their own.
"""

from __future__ import annotations

import contextlib
import enum
import inspect
import textwrap
from collections.abc import Awaitable, Callable, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, TypeVar

import msgspec

from pgdb.errors import PgdbError, UsageError
from pgdb.frontend.analysis.answers import Answer
from pgdb.frontend.commands.options import WIDTH, Option, Parsed, Rest, Syntax
from pgdb.frontend.show.shown import Shown as Shown
from pgdb.patterns import pattern
from pgdb.ranks import RankSet

if TYPE_CHECKING:
    from pgdb.frontend.api.rank_view import RankView
    from pgdb.frontend.api.session import Session
    from pgdb.frontend.commands.dispatch import Dispatcher
    from pgdb.frontend.commands.workspace import Workspace


_USAGE_WIDTH = 30
_LISTED_WIDTH = 60
# The first column of a line with two, as in "--by KEY     the property of two frames".
_ENTRY = pattern(r"\s*\S(?:\S| (?! ))*? {2,}(?=\S)")


class Group(enum.Enum):
    """Headings of the command list."""

    RANKS = "Ranks and sets"
    RUNNING = "Running the program"
    BREAKPOINTS = "Breakpoints"
    STACK = "Stack and source"
    DATA = "Data"
    SESSION = "Session"


class Completes(enum.Enum):
    """The kind of a command's argument, for completion."""

    NOTHING = "nothing"
    RANKS = "a rank set"
    RANKS_THEN_COMMAND = "a rank set, then a command"
    BREAKPOINTS = "breakpoint numbers"
    COMMAND = "a command"
    INFO = "a topic of info"
    SETTING = "a setting and its value"
    FILES = "a file of this host"


_PREFIXES = frozenset("info show maintenance catch tcatch unset macro overlay tui".split())
"""Commands of GDB whose next word is always a command again."""


class Call(msgspec.Struct, frozen=True):
    """One command as it was typed, its abbreviations resolved."""

    dispatcher: Dispatcher
    ranks: RankSet
    """The ranks that the command acts on: the focus, or the set of ``proc``."""
    word: str
    letters: str
    """The letters behind a slash: ``x`` of ``print/x``."""
    argument: str
    line: str
    """The whole line with its word in full, as GDB accepts it."""
    background: bool = False
    """Whether the line ended in ``&``."""
    command: Command | None = None
    """The entry of the table; None for a command of GDB."""

    @property
    def session(self) -> Session:
        """The session that the command acts on."""
        return self.dispatcher.session

    @property
    def hooked(self) -> str:
        """The command whose hooks run; empty for a subcommand, which has its own hooks in GDB."""
        return "" if self.argument and self.word in _PREFIXES else self.word

    @property
    def workspace(self) -> Workspace:
        """The workspace of the user interface in which the command was typed."""
        return self.dispatcher.workspace

    @property
    def view(self) -> RankView:
        """The view on the ranks of the command."""
        return self.session.ranks(self.ranks)


Outcome = Answer | Shown | str | None
Handler = Callable[[Call], Awaitable[Outcome]]
Function = TypeVar("Function", bound=Callable[..., Awaitable[Outcome]])


class Command(msgspec.Struct, frozen=True):
    """A command of PGDB's."""

    word: str
    aliases: tuple[str, ...]
    group: Group
    usage: str
    summary: str
    completes: Completes
    description: str
    handler: Handler
    syntax: Syntax | None = None
    """The declared options; None for a command that gets its argument raw."""
    is_raw: bool = False
    """Whether a slash and a last ``&`` belong to the argument: it is for another program."""

    @property
    def help(self) -> str:
        """The whole help text."""
        also = f"\nAliases: {', '.join(self.aliases)}" if self.aliases else ""
        options = f"\n\n{self.syntax.help()}" if self.syntax is not None else ""
        text = f"{_refilled(self.description)}{options}"
        return f"{self.usage}\n    {self.summary}{also}\n\n{text}".rstrip()

    def parse(self, argument: str) -> Parsed:
        """Read the options in *argument*.

        :raises UsageError: if they cannot be understood.
        """
        if self.syntax is None:
            return Parsed(argument, {})
        return self.syntax.parse(self.word, argument)


class CommandTable:
    """All commands, by word and alias."""

    def __init__(self) -> None:
        self._commands: dict[str, Command] = {}
        self._aliases: dict[str, str] = {}

    def command(
        self,
        word: str,
        *,
        group: Group,
        summary: str,
        usage: str = "",
        aliases: tuple[str, ...] = (),
        completes: Completes = Completes.NOTHING,
        description: str = "",
        options: tuple[Option, ...] = (),
        rest: Rest | None = None,
        needs: str = "",
        passes: tuple[str, ...] = (),
        advice: Mapping[str, str] = MappingProxyType({}),
        is_parsed: bool = True,
        is_raw: bool = False,
    ) -> Callable[[Function], Function]:
        """Declare a command.

        The handler of a command with *options* is called with the call, the text without options
        (unless *rest* is ``Rest.NOTHING``) and one keyword argument for each option. The text must
        be there where the command *needs* something. A command with *rest* and no options refuses
        all options; the error has the *advice* on an option of other commands. A handler that is
        not *is_parsed* gets the call only, and calls :meth:`Command.parse` itself.

        :raises ValueError: if its word or an alias is taken, or the handler's keyword arguments
            are not those of the options.
        """
        syntax = None
        if options or rest is not None:
            syntax = Syntax(options, rest or Rest.EXPRESSION, passes, advice=advice)

        def declare(function: Function) -> Function:
            for name in (word, *aliases):
                if name in self._commands or name in self._aliases:
                    raise ValueError(f"two commands claim {name!r}")
            handler: Handler = function
            if syntax is not None and is_parsed:
                handler = _parsing(word, syntax, function, needs)
            self._commands[word] = Command(
                word,
                aliases,
                group,
                _usage(word, usage, syntax),
                summary,
                completes,
                description or inspect.getdoc(function) or "",
                handler,
                syntax,
                is_raw,
            )
            self._aliases.update(dict.fromkeys(aliases, word))
            return function

        return declare

    def find(self, word: str) -> Command | None:
        """Return the command of a word or alias, or None."""
        return self._commands.get(self._aliases.get(word, word))

    def starting_with(self, prefix: str) -> list[str]:
        """Return the words (not aliases) that begin with *prefix*."""
        return sorted(word for word in self._commands if word.startswith(prefix))

    @property
    def commands(self) -> tuple[Command, ...]:
        """All commands, in the order of their groups."""
        groups = list(Group)
        return tuple(
            sorted(self._commands.values(), key=lambda each: (groups.index(each.group), each.word))
        )

    def overview(self) -> str:
        """Return the list of all commands, by group."""
        lines: list[str] = []
        group = None
        for each in self.commands:
            if each.group is not group:
                group = each.group
                lines += ["", f"{group.value}:"] if lines else [f"{group.value}:"]
            line = f"  {each.usage:<{_USAGE_WIDTH}} {each.summary}"
            if len(each.usage) > _USAGE_WIDTH or len(line) > WIDTH:
                lines += textwrap.wrap(f"  {each.usage}", WIDTH, subsequent_indent=" " * 6)
                line = f"{'':<{_USAGE_WIDTH + 2}} {each.summary}"
                indent = " " * (_USAGE_WIDTH + 3)
                lines += textwrap.wrap(line, WIDTH, subsequent_indent=indent)
            else:
                lines.append(line)
        return "\n".join(lines)


def _usage(word: str, usage: str, syntax: Syntax | None) -> str:
    """Return the usage line: *usage* and the options, each by name unless they are many."""
    if syntax is None:
        return usage or word
    listed = [each.usage for each in syntax.options]
    if len(" ".join((usage, *listed))) > _LISTED_WIDTH:
        listed = [each.usage for each in syntax.options if each.is_required] + ["[OPTION]..."]
    first, _, rest = (usage or word).partition(" ")
    if syntax.rest in (Rest.BEHIND, Rest.GDB):
        return " ".join(part for part in (first, *listed, rest) if part)
    return " ".join((usage or word, *listed))


def _parsing(word: str, syntax: Syntax, function: Function, needs: str) -> Handler:
    """Return the handler that reads the argument and calls *function* with the result."""
    keywords = {
        name
        for name, each in inspect.signature(function).parameters.items()
        if each.kind is inspect.Parameter.KEYWORD_ONLY
    }
    declared = {each.keyword for each in syntax.options}
    if keywords != declared:
        raise ValueError(f"{word}: options {sorted(declared)}, but arguments {sorted(keywords)}")

    async def handler(call: Call) -> Outcome:
        parsed = syntax.parse(word, call.argument)
        if needs and not parsed.rest:
            raise UsageError(f"'{word}' needs {needs}")
        rest = () if syntax.rest is Rest.NOTHING else (parsed.rest,)
        for each in syntax.options:
            if each.is_required and parsed.values[each.keyword] is None:
                raise UsageError(f"{word}: {each.name} is missing: {each.help}")
        return await function(call, *rest, **parsed.values)

    return handler


def _refilled(text: str) -> str:
    """Return a help text; paragraphs wider than a terminal are filled again.

    A second column (two spaces before it) stays where it is.
    """
    parts: list[list[str]] = []
    hang = -1
    for line in text.split("\n"):
        entry = _ENTRY.match(line)
        indent = len(line) - len(line.lstrip())
        if not line or entry is not None or indent != hang:
            parts.append([])
            hang = entry.end() if entry is not None else indent if line else -1
        parts[-1].append(line)
    return "\n".join(line for part in parts for line in _refilled_part(part))


def _refilled_part(lines: list[str]) -> list[str]:
    if max(map(len, lines)) <= WIDTH:
        return lines
    first, rest = lines[0], lines[1:]
    entry = _ENTRY.match(first)
    start = entry[0] if entry is not None else " " * (len(first) - len(first.lstrip()))
    words = " ".join([first[len(start) :], *(line.strip() for line in rest)])
    return textwrap.wrap(
        words,
        WIDTH,
        initial_indent=start,
        subsequent_indent=" " * len(start),
        break_long_words=False,
        break_on_hyphens=False,
    )


COMMANDS = CommandTable()


def need_argument(call: Call, what: str) -> str:
    """Return the argument of a command that needs one.

    :raises UsageError: if there is none.
    """
    if not call.argument:
        raise UsageError(f"'{call.word}' needs {what}")
    return call.argument


def no_argument(call: Call, *, has_ranks: bool = False) -> None:
    """Check that a command got no argument.

    :raises UsageError: if it got one. With *has_ranks*, an argument that is a rank set gets the
        advice to use ``proc``.
    """
    if not call.argument:
        return
    text = f"'{call.word}' takes no argument, not {call.argument!r}"
    if has_ranks:
        with contextlib.suppress(PgdbError):
            call.workspace.parse_ranks(call.argument)
            text += f"; 'proc {call.argument} {call.word}' is for these ranks"
    raise UsageError(text)
