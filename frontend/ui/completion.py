"""Completion at the prompt, from the command table and from the workspace."""

from __future__ import annotations

from collections.abc import Iterable

from prompt_toolkit.completion import CompleteEvent, Completer, Completion
from prompt_toolkit.document import Document

from pgdb.frontend.api import gdb_commands
from pgdb.frontend.api.options import CHANGEABLE
from pgdb.frontend.commands.table import COMMANDS, CommandTable, Completes
from pgdb.frontend.commands.workspace import Workspace

_TOPICS = (
    "args breakpoints display files frame functions line locals proc registers sharedlibrary "
    "signals source sources symbol threads types variables".split()
)
_SETS = ("all", "@running", "@stopped", "@exited", "@lost", "@error")


class CommandCompleter(Completer):
    """Completes command words, options and their values, rank sets, topics, breakpoint numbers."""

    def __init__(self, workspace: Workspace, table: CommandTable = COMMANDS) -> None:
        self._workspace = workspace
        self._table = table

    def get_completions(
        self, document: Document, complete_event: CompleteEvent
    ) -> Iterable[Completion]:
        """Yield the completions of the word before the cursor."""
        del complete_event
        words = document.text_before_cursor.split(" ")
        current = words[-1]
        for candidate in self._candidates(words[:-1], current):
            if candidate.startswith(current):
                yield Completion(candidate, start_position=-len(current))

    def _candidates(self, before: list[str], current: str) -> Iterable[str]:
        before = [word for word in before if word]
        if not before:
            return self._words()
        find = self._table.find
        command = find(before[0]) or find(gdb_commands.resolve(before[0]))
        if command is None:
            return ()
        if (syntax := command.syntax) is not None:
            option = syntax.find(before[-1])
            if option is not None and option.value and len(before) > 1:
                if option.completes is not None:
                    return option.completes(self._workspace)
                return option.choices
            if current.startswith("-"):
                return [each.name for each in syntax.options]
        match command.completes:
            case Completes.RANKS:
                return self._sets()
            case Completes.RANKS_THEN_COMMAND:
                return self._sets() if len(before) == 1 else self._candidates(before[2:], current)
            case Completes.INFO:
                return _TOPICS if len(before) == 1 else ()
            case Completes.SETTING:
                return _settings([word for word in before[1:] if not word.startswith("-")])
            case Completes.COMMAND:
                return self._words()
            case Completes.BREAKPOINTS:
                last = self._workspace.session.last_breakpoint
                return [str(number) for number in range(1, last + 1)]
            case _:
                return ()

    def _words(self) -> list[str]:
        own = {command.word for command in self._table.commands}
        known = {
            word
            for word, kind in gdb_commands.KINDS.items()
            if kind is not gdb_commands.Kind.REFUSED and word.isalpha()
        }
        return sorted(own | known)

    def _sets(self) -> list[str]:
        return [*_SETS, *(f"@{name}" for name in self._workspace.all_sets)]


def _settings(before: list[str]) -> Iterable[str]:
    """Return the names of the settings, or behind a name its values."""
    if not before:
        return CHANGEABLE
    setting = CHANGEABLE.get(before[0]) if len(before) == 1 else None
    if setting is None:
        return ()
    return setting.choices or (("on", "off") if setting.kind is bool else ())
