"""User-defined commands, aliases and hooks of one user interface. No I/O.

GDB holds the commands whose body it can carry out itself. The front end carries out the others:
they have commands of PGDB's, set ranks running, or make breakpoints.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

import msgspec

from pgdb.errors import CommandError, UsageError
from pgdb.frontend.api import gdb_words
from pgdb.frontend.api.gdb_blocks import Block, argument_of
from pgdb.patterns import pattern

_ARGUMENT = pattern(r"\$arg(c|\d+)")
# An argument ends at a blank that is in no quotes and behind no backslash.
_ARGUMENTS = pattern(r"""(?:\\.|"(?:\\.|[^"\\])*"?|'(?:\\.|[^'\\])*'?|[^\s"'\\]|\\\Z)+""")
_NAME = pattern(r"[A-Za-z_][\w.-]*(?: [\w.-]+)*\Z")
_ALIAS = pattern(r"(?:-a\s+)?(?:--\s+)?(?P<name>[^=]*?)\s*=\s*(?P<command>\S.*)")


class UserCommand(msgspec.Struct, frozen=True):
    """A command that ``define`` has made."""

    name: str
    block: Block
    is_ours: bool
    """Whether the front end carries it out."""
    document: str = ""

    @property
    def help(self) -> str:
        """The text of ``help``."""
        return self.document or "User-defined."

    @property
    def text(self) -> str:
        """The text of ``show user``."""
        lines = (line.strip() for line in self.block.raw[1:-1])
        # As GDB does, without comments and empty lines.
        body = "\n".join(f"  {line}" for line in lines if line and not line.startswith("#"))
        return f'User command "{self.name}":\n{body}\n'


class UserCommands:
    """The commands and aliases that a user has made in one user interface."""

    def __init__(self) -> None:
        self._commands: dict[str, UserCommand] = {}
        self._aliases: dict[str, str] = {}
        self._only_here: set[str] = set()
        """The aliases that the GDBs do not have."""
        self.prefixes: set[str] = set()
        """The words that ``define-prefix`` has made."""
        self.known: set[str] = set()
        """The commands that the GDBs have got from Python code and files of their own."""
        self.hooks_open: set[str] = set()
        """The hooks that are being carried out."""

    @property
    def names(self) -> set[str]:
        """The words that user-defined commands and aliases begin with."""
        commands = (name for name in self._commands if not _is_hook(name))
        words = {name.split()[0] for name in (*commands, *self._aliases, *self.prefixes)}
        return words | self.known

    @property
    def summaries(self) -> str:
        """A line for each command of the front end, with the first line of its help."""
        found = (self._commands[each] for each in sorted(self._commands))
        lines = (
            f"{each.name} -- {each.help.partition(chr(10))[0]}" for each in found if each.is_ours
        )
        return "\n".join(lines)

    @property
    def described(self) -> list[str]:
        """The name of each command of the front end with its help."""
        found = (self._commands[each] for each in sorted(self._commands))
        return [f"{each.name} -- {each.help}" for each in found if each.is_ours]

    def words_behind(self, words: Sequence[str]) -> set[str]:
        """Return the words that follow *words* in the names of commands and aliases."""
        count = len(words)
        names = (each.split() for each in (*self._commands, *self._aliases, *self.prefixes))
        return {each[count] for each in names if len(each) > count and each[:count] == [*words]}

    def text_of(self, name: str) -> str:
        """Return the bodies of the front end's commands, or of the one of this name."""
        found = (self._commands[each] for each in sorted(self._commands))
        return "\n".join(each.text for each in found if each.is_ours and name in ("", each.name))

    def define(self, command: UserCommand) -> None:
        """Add a command, in the place of one of that name."""
        self._commands[command.name] = command
        self._aliases.pop(command.name, None)
        self._only_here.discard(command.name)

    def document(self, name: str, text: str) -> bool:
        """Give a command of the front end its help; return False if there is none of that name."""
        command = self._commands.get(name)
        if command is None or not command.is_ours:
            return False
        self._commands[name] = msgspec.structs.replace(command, document=text)
        return True

    def learn(self, completions: str) -> None:
        """Note the commands in GDB's list of all that are neither GDB's own nor known here."""
        words = {each.strip() for each in completions.split("\n")}
        words -= {*gdb_words.KINDS, *gdb_words.ALIASES, *gdb_words.NEWER, ""}
        self.known |= words - self.names

    def set_alias(self, name: str, command: str, *, in_gdb: bool) -> None:
        """Let *name* stand for the beginning of a line; *in_gdb* if the GDBs know it, too."""
        self._aliases[name] = command
        self._only_here.discard(name)
        if not in_gdb:
            self._only_here.add(name)

    def alias(self, name: str) -> str | None:
        """Return what an alias stands for that the GDBs do not have; None for all other names."""
        return self._aliases[name] if name in self._only_here else None

    @property
    def alias_summaries(self) -> str:
        """A line for each alias that the GDBs do not have."""
        names = sorted(self._only_here)
        return "\n".join(f"alias {name} = {self._aliases[name]}" for name in names)

    def get(self, name: str) -> UserCommand | None:
        """Return the command of exactly this name."""
        return self._commands.get(" ".join(name.split()))

    def hook(self, word: str, *, after: bool) -> UserCommand | None:
        """Return the hook that is to run before or after a command, if the front end runs it."""
        found = self._commands.get(f"{'hookpost' if after else 'hook'}-{word}")
        is_free = found is not None and found.is_ours and found.name not in self.hooks_open
        return found if is_free else None

    def expanded(self, line: str, has: Callable[[str], bool]) -> str:
        """Return a line with its aliases replaced.

        *has* says whether a word is a command of PGDB's, which no abbreviation hides.

        :raises CommandError: if aliases stand for each other.
        """
        for _ in range(len(self._aliases) + 1):
            if (found := self._alias_in(line, has)) is None:
                return line
            name, rest = found
            line = f"{self._aliases[name]}{rest}"
        raise CommandError(f"'{line.split()[0]}': the aliases stand for each other")

    def find(self, line: str, has: Callable[[str], bool]) -> tuple[UserCommand, str] | None:
        """Return the user-defined command in a line and its arguments; for *has* see above."""
        first = self._word(line, has)
        words = [first, *argument_of(line).split()]
        for count in range(len(words), 0, -1):
            found = self._commands.get(" ".join(words[:count]))
            if found is not None:
                rest = argument_of(line)
                for word in words[1:count]:
                    rest = rest[len(word) :].strip()
                return found, rest
        return None

    def _alias_in(self, line: str, has: Callable[[str], bool]) -> tuple[str, str] | None:
        """Return the alias that a line begins with, and what follows it; None if there is none."""
        word = self._word(line, has)
        rest = line.strip()[len(gdb_words.first_word(line)) :]
        if word in self._commands:
            return None
        if word in self._aliases:
            return word, rest
        first = gdb_words.resolve(word)
        for name in self._aliases:
            prefix, _, behind = name.partition(" ")
            words = rest.split(maxsplit=behind.count(" ") + 1)
            if behind and prefix == first and words[: behind.count(" ") + 1] == behind.split():
                after = rest
                for each in behind.split():
                    after = after.lstrip()[len(each) :]
                return name, after
        return None

    def _word(self, line: str, has: Callable[[str], bool]) -> str:
        word = gdb_words.first_word(line)
        names = self.names
        if word in names or not word or has(word):
            return word
        found = gdb_words.candidates(word, names)
        return found.pop() if len(found) == 1 and found <= names else word


def _is_hook(name: str) -> bool:
    return name.startswith(("hook-", "hookpost-"))


def check_name(name: str, prefixes: Iterable[str]) -> None:
    """Check the name of a new command.

    :raises UsageError: if it cannot be one.
    """
    if not _NAME.match(name):
        raise UsageError(f"define: {name!r} is no name of a command")
    before = name.rpartition(" ")[0]
    if before and before not in {*prefixes}:
        raise UsageError(f"define: '{before}' is no prefix; 'define-prefix {before}' makes it one")


def read_alias(argument: str) -> tuple[str, str]:
    """Return the name and the command of ``alias NAME = COMMAND``.

    :raises UsageError: if there are none.
    """
    match = _ALIAS.match(argument)
    if match is None or not match["name"]:
        raise UsageError("'alias' needs a name, = and a command: alias v = proc 0 print")
    return " ".join(match["name"].split()), match["command"].strip()


def split_arguments(text: str) -> list[str]:
    """Return the arguments of a user-defined command as GDB divides them.

    >>> split_arguments("a 'b c' d\\\\ e")
    ['a', "'b c'", 'd\\\\ e']
    """
    return _ARGUMENTS.findall(text)


def with_arguments(line: str, argument: str) -> str:
    """Return a line of a body with the arguments in the places of $arg0 and $argc.

    >>> with_arguments("print $arg1 + $argc", "x y")
    'print y + 2'

    :raises CommandError: for an argument that is not there.
    """
    arguments = split_arguments(argument)

    def value(place: str) -> str:
        if place == "c":
            return str(len(arguments))
        if int(place) >= len(arguments):
            count = len(arguments)
            there = "there is 1 argument" if count == 1 else f"there are {count} arguments"
            raise CommandError(f"$arg{place} is missing: {there}")
        return arguments[int(place)]

    return _ARGUMENT.sub(lambda match: value(match[1]), line)
