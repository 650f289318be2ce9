"""Completion at the prompt: PGDB's own words, files of this host, and what one GDB knows.

:class:`LineCompleter` says how a line can go on; a candidate is a whole line up to the cursor.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable, Iterable, Sequence

import msgspec

from pgdb.errors import PgdbError
from pgdb.frontend.api import gdb_commands
from pgdb.frontend.api.line_completion import Completed, complete_line
from pgdb.frontend.api.options import CHANGEABLE
from pgdb.frontend.commands.breakpoints import breakpoint_kind
from pgdb.frontend.commands.options import Option
from pgdb.frontend.commands.table import COMMANDS, Command, CommandTable, Completes
from pgdb.frontend.commands.transcripts import LOGGING_WORDS
from pgdb.frontend.commands.workspace import Workspace
from pgdb.frontend.system.typed_names import typed_path
from pgdb.frontend.system.workers import beside
from pgdb.gdb_carriers import abbreviations
from pgdb.patterns import pattern
from pgdb.ranks import RankSet

LIMIT_S = 0.2
"""Time after which the candidates of PGDB's own are all there is, in seconds."""
ANSWER_LIMIT_S = 20.0
"""Time after which a GDB's answer is not waited for any longer, in seconds."""
_MOST_FILES = 10_000
_TOPICS = (
    "args breakpoints display files frame functions line locals proc registers sharedlibrary "
    "signals source sources symbol threads types variables".split()
)
_FILE_VALUES = ("FILE", "DIR", "PATH", "LOG")
_FILES_BEHIND = {("save", "breakpoints"), ("session", "save"), ("set", "logging", "file")}
_SWITCHES = ("on", "off")
_CHOICES = pattern(r"[a-z]+(?:\|[a-z]+)+")
# Behind these words and their arguments begins a command of its own: how many arguments.
_CARRIERS = {"proc": 1, "timeout": 1, "gather": 1, "pipe": 0, "help": 0}

_NUMBERED = ("commands", "condition", "ignore")
"""Words whose first argument is a number of a breakpoint; GDB completes names of functions."""
_NUMBER_LISTS = ("delete", "disable", "enable")
"""Words whose arguments are numbers of breakpoints, behind words such as ``once``."""
_BEFORE_NUMBERS = pattern(rf"(?:{abbreviations('breakpoints', 1)}|once|delete|count)\Z")
_NUMBERS = pattern(r"[\d$][\w.-]*")
_AT_FILES = ("list", "clear", "info line", "info scope")
"""Commands with a location for which GDB 13 does not complete FILE:FUNCTION, as it does for
``break``."""

Ask = Callable[[str, RankSet], Awaitable[Completed]]
"""Function that returns the candidates of one GDB of a rank set for a line."""


class Plan(msgspec.Struct):
    """The sources of the candidates for a line."""

    words: Iterable[str] = ()
    """Candidates for the last word."""
    is_file: bool = False
    """Whether the last word is the name of a file of this host."""
    gdb_line: str = ""
    """The line that GDB completes; empty for none."""
    replaced: str = ""
    """The part of that line that the user has not typed: ``print `` before an expression."""
    ranks: RankSet = RankSet()
    """The ranks whose GDBs can be asked."""
    is_whole: bool = False
    """Whether GDB has no candidates that are right."""


class Candidates(msgspec.Struct, frozen=True):
    """Continuations of a line: whole lines up to the cursor, sorted."""

    lines: tuple[str, ...]
    is_cut: bool = False
    """Whether there are more that are not known."""

    def common(self, text: str) -> str:
        """Return the longest line that all candidates begin with, at least *text*."""
        if self.is_cut or not self.lines:
            return text
        first, last = self.lines[0], self.lines[-1]  # they are sorted
        end = next((at for at, each in enumerate(first) if not last.startswith(each, at)), None)
        return first[:end]


class LineCompleter:
    """Completer of command lines."""

    def __init__(
        self,
        workspace: Workspace,
        table: CommandTable = COMMANDS,
        ask: Ask | None = None,
        *,
        limit_s: float | None = None,
    ) -> None:
        self._limit_s = limit_s
        """Time for a GDB's answer; None for :data:`LIMIT_S`."""
        self._workspace = workspace
        self._table = table
        self._ask = ask or self._ask_gdb
        self._late: dict[tuple[str, RankSet], asyncio.Future[Completed]] = {}
        """The last question that a GDB has not answered in time: at most one."""

    def forget(self) -> None:
        """Drop an answer that comes late: a command may change what is right."""
        self._late.clear()

    async def __call__(self, text: str) -> Candidates:
        """Return the candidates for *text*, within :data:`LIMIT_S`.

        A GDB that reads symbols for the first time can need longer. Its answer is kept for the next
        call with the same text.
        """
        typed, text = text, self._expanded(text)
        found = await self._continued(text)
        if typed == text:
            return found
        lines = (typed + each[len(text) :] for each in found.lines)
        return Candidates(tuple(sorted(lines)), found.is_cut)

    async def own(self, text: str) -> list[str]:
        """Return the candidates that no GDB has: PGDB's own, the user's, and files of this host."""
        plan = self.plan(text)
        word = _last_word(text)
        start = text[: len(text) - len(word)]
        is_first = not start.strip()
        words = {each for each in plan.words if not (is_first and _is_gdbs(each))}
        found = [start + each for each in words if each.startswith(word)]
        return sorted({*found, *(await _files(word, start)).lines} if plan.is_file else found)

    def is_gdbs(self, text: str) -> bool:
        """Return whether GDB has candidates for this very line."""
        return self._expanded(text) == text and self.plan(text).gdb_line == text

    def _expanded(self, text: str) -> str:
        """Return a line in which the arguments of an alias have begun without the alias."""
        user = self._workspace.user
        if " " not in text.lstrip():
            return text
        try:
            expanded = user.expanded(text, lambda word: self._table.find(word) is not None)
        except PgdbError:
            return text
        is_ended = text[-1:].isspace() and not expanded[-1:].isspace()
        return f"{expanded} " if is_ended else expanded

    async def _continued(self, text: str) -> Candidates:
        """Return the candidates for a line without aliases."""
        plan = self.plan(text)
        word = _last_word(text)
        start = text[: len(text) - len(word)]
        own = [start + each for each in plan.words if each.startswith(word)]
        sources: list[Awaitable[Completed]] = []
        if plan.gdb_line:
            sources.append(self._of_gdb(plan, text))
        if plan.is_file:
            sources.append(_files(word, start))
        tasks = [asyncio.ensure_future(each) for each in sources]
        if tasks:
            limit_s = LIMIT_S if self._limit_s is None else self._limit_s
            done, late = await asyncio.wait(tasks, timeout=limit_s)
            for each in late:
                each.cancel()
        else:
            done = set()
        is_cut = False
        for each in tasks:
            if each in done and not each.cancelled() and each.exception() is None:
                found = each.result()
                own += found.lines
                is_cut = is_cut or found.is_cut
        return Candidates(tuple(sorted(dict.fromkeys(own))), is_cut)

    async def wait_for_late(self, text: str) -> bool:
        """Wait for the answer about *text* that a GDB has not given in time.

        Return whether there was a question; its answer is there for the next call.
        """
        plan = self.plan(self._expanded(text))
        asked = self._late.get((plan.gdb_line, plan.ranks))
        if asked is None:
            return False
        await asyncio.wait((asked,))
        return True

    async def _of_gdb(self, plan: Plan, text: str) -> Completed:
        """Return GDB's candidates as lines that begin with *text*."""
        found = await self._answer(plan.gdb_line, plan.ranks)
        typed = plan.gdb_line.removeprefix(plan.replaced)
        start = text[: len(text) - len(typed)]
        lines = []
        for each in found.lines:
            line = start + each.removeprefix(plan.replaced)
            if line.startswith(text) and self._is_open(line):
                lines.append(line)
        return Completed(tuple(lines), found.is_cut)

    async def _answer(self, line: str, ranks: RankSet) -> Completed:
        """Return the answer of one GDB, which goes on if this task is cancelled."""
        question = line, ranks
        asked = self._late.get(question)
        if asked is None:
            asked = asyncio.ensure_future(self._ask(line, ranks))
            asked.add_done_callback(_take_exception)
            self._late = {question: asked}
        try:
            return await asyncio.shield(asked)
        finally:
            if asked.done():
                self._late.pop(question, None)

    def _is_open(self, line: str) -> bool:
        """Return whether a command word, if it is all of a line, is none that is refused."""
        if " " in line:
            return True
        return line not in gdb_commands.KINDS or _is_gdbs(line) or bool(self._table.find(line))

    async def _ask_gdb(self, line: str, ranks: RankSet) -> Completed:
        return await complete_line(self._workspace.session, line, ranks, timeout_s=ANSWER_LIMIT_S)

    # -- the sources -------------------------------------------------------------------------

    def plan(self, text: str) -> Plan:
        """Return the sources of the candidates for *text*."""
        return self._plan(text.lstrip(), self._workspace.focus)

    def _plan(self, text: str, ranks: RankSet) -> Plan:
        word = _last_word(text)
        before = text[: len(text) - len(word)].split()
        if not before:
            return Plan(words=self._words(), gdb_line=word, ranks=ranks)
        typed = gdb_commands.first_word(before[0])
        find = self._table.find
        name = gdb_commands.resolve(before[0])
        command = find(typed) or find(name)
        if command is not None:
            name = command.word
        inner = self._inner(text, name, ranks)
        if inner is not None:
            return inner
        behind = self._workspace.user.words_behind(before)
        if (found := self._workspace.user.get(before[0])) is not None and command is None:
            # As GDB does for its own, where only the front end has the command.
            expression = f"print {word}" if found.is_ours else text
            replaced = "print " if found.is_ours else ""
            return Plan(words=behind, gdb_line=expression, replaced=replaced, ranks=ranks)
        if behind and command is None:
            return Plan(words=behind, gdb_line=text, ranks=ranks)
        is_at_file = ":" in word and " ".join((name, *before[1:])) in _AT_FILES
        if is_at_file:
            return Plan(gdb_line=f"break {word}", replaced="break ", ranks=ranks)
        if command is None:
            return Plan(gdb_line=text, ranks=ranks)
        plan = self._plan_of(command, before, word)
        if command.completes in (Completes.RANKS, Completes.RANKS_THEN_COMMAND) or plan.is_file:
            return plan
        if len(word) > 1 and word[0] == "-" and any(each.startswith(word) for each in plan.words):
            return plan  # GDB takes an option that it does not know for an expression
        if plan.is_whole:
            return plan
        if plan.replaced:
            plan.gdb_line = plan.replaced + word
        elif _is_gdbs(name) and not command.is_raw:
            plan.gdb_line = text
        plan.ranks = ranks
        return plan

    def _inner(self, text: str, name: str, ranks: RankSet) -> Plan | None:
        """Return the plan of the command that another one carries out, if it has begun."""
        count = _CARRIERS.get(name)
        if count is None:
            return None
        parts = text.split(maxsplit=count + 1)
        is_begun = len(parts) > count + 1 or (len(parts) == count + 1 and text[-1:].isspace())
        if not is_begun:
            return None
        rest = parts[count + 1] + (" " * text[-1:].isspace()) if len(parts) > count + 1 else ""
        if name == "proc":
            try:
                ranks = self._workspace.parse_ranks(parts[1])
            except PgdbError:
                ranks = RankSet()
        elif name == "help":
            words = self._words() if len(text.split(maxsplit=2)) < 3 else ()
            return Plan(words=words, gdb_line=text, ranks=ranks)
        elif name == "pipe":
            if "|" in rest:
                return Plan(is_file=True)
        return self._plan(rest.lstrip(), ranks)

    def _plan_of(self, command: Command, before: Sequence[str], word: str) -> Plan:
        """Return the plan of PGDB's part of a command: options, sets, numbers, files."""
        option = self._option(command, before)
        if option is not None:
            if option.completes is not None:
                return Plan(words=option.completes(self._workspace))
            return Plan(words=option.choices, is_file=option.value in _FILE_VALUES)
        if word.startswith("-") and command.syntax is not None:
            return Plan(words=[each.name for each in command.syntax.options])
        arguments = [each for each in before[1:] if not each.startswith("-")]
        if (command.word, *arguments) in _FILES_BEHIND:
            return Plan(is_file=True)
        match command.completes:
            case Completes.RANKS | Completes.RANKS_THEN_COMMAND:
                return Plan(words=self._sets())
            case Completes.INFO if arguments and breakpoint_kind(arguments[0]) is not None:
                return self._numbers()
            case Completes.INFO:
                return Plan(words=_TOPICS if not arguments else ())
            case Completes.SETTING:
                return Plan(words=_settings(arguments))
            case Completes.COMMAND:
                return Plan(words=self._words())
            case Completes.FILES:
                return Plan(is_file=True)
            case Completes.BREAKPOINTS if not arguments:
                plan = self._numbers()
                plan.is_whole = command.word in _NUMBERED
                return plan
            case Completes.BREAKPOINTS if command.word in _NUMBER_LISTS:
                is_number = _BEFORE_NUMBERS.match(arguments[0]) or _NUMBERS.match(arguments[0])
                return self._numbers() if is_number else Plan()
            case _:
                return _by_usage(command, arguments)

    def _numbers(self) -> Plan:
        """Return the plan of numbers of breakpoints."""
        last = self._workspace.session.last_breakpoint
        return Plan(words=[str(number) for number in range(1, last + 1)], is_whole=True)

    def _option(self, command: Command, before: Sequence[str]) -> Option | None:
        """Return the option whose value is being typed."""
        if command.syntax is None or len(before) < 2:
            return None
        option = command.syntax.find(before[-1])
        return option if option is not None and option.value else None

    def _words(self) -> list[str]:
        own = {command.word for command in self._table.commands}
        known = {word for word in gdb_commands.KINDS if _is_gdbs(word) and word[0].isalpha()}
        return sorted(own | known | self._workspace.user.names)

    def _sets(self) -> list[str]:
        return self._workspace.set_names


def _by_usage(command: Command, arguments: Sequence[str]) -> Plan:
    """Return the plan of a command by the words of its usage line."""
    is_own = not _is_gdbs(command.word)
    words = [each for each in command.usage.split()[1:] if not each.startswith(("-", "[-"))]
    word = words[len(arguments)].strip("[]") if len(words) > len(arguments) else ""
    if word in _FILE_VALUES:
        return Plan(is_file=True)
    if _CHOICES.fullmatch(word):  # layout src|asm|…
        return Plan(words=word.split("|"))
    if is_own and "LOCATION" in command.usage:
        return Plan(replaced="break ")
    if is_own and "EXPR" in command.usage:
        return Plan(replaced="print ")
    if command.completes is Completes.BREAKPOINTS:  # the condition behind a number
        return Plan(replaced="print ")
    return Plan()


def _take_exception(asked: asyncio.Future[Completed]) -> None:
    if not asked.cancelled():
        asked.exception()


def _is_gdbs(word: str) -> bool:
    """Return whether GDB has a command of that name with the same arguments."""
    return gdb_commands.KINDS.get(word, gdb_commands.Kind.REFUSED) is not gdb_commands.Kind.REFUSED


def _last_word(text: str) -> str:
    """Return the word before the cursor: what follows the last blank."""
    return text[text.rfind(" ") + 1 :]


def _settings(before: list[str]) -> Iterable[str]:
    """Return the names of the settings, or behind a name its values."""
    if not before:
        return [*CHANGEABLE, "logging"]
    if before == ["logging"]:
        return LOGGING_WORDS
    if len(before) == 2 and before[0] == "logging" and before[1] != "file":
        return _SWITCHES
    setting = CHANGEABLE.get(before[0]) if len(before) == 1 else None
    if setting is None:
        return ()
    return setting.choices or (_SWITCHES if setting.kind is bool else ())


async def _files(word: str, start: str) -> Completed:
    """Return the files that begin with *word*, as lines behind *start*."""

    def look() -> list[str]:
        folder, slash, name = word.rpartition("/")
        found = []
        with os.scandir(typed_path(folder + slash)) as entries:
            for count, entry in enumerate(entries):
                if count > _MOST_FILES:
                    break
                is_hidden = entry.name.startswith(".") and not name.startswith(".")
                if entry.name.startswith(name) and not is_hidden:
                    found.append(f"{folder}{slash}{entry.name}{'/' * entry.is_dir()}")
        return found

    try:
        return Completed(tuple(start + each for each in await beside(look, name="completion")))
    except (OSError, PgdbError):
        return Completed()
