"""Options of commands: one declaration, one parser, and the help and completion made from it."""

from __future__ import annotations

import enum
import re
import shlex
import textwrap
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any

import msgspec

from pgdb.errors import UsageError
from pgdb.patterns import pattern

if TYPE_CHECKING:
    from pgdb.frontend.commands.workspace import Workspace

WIDTH = 80
"""Columns of help texts."""

_MOST_DIGITS = 18
_WIDEST_NAME = 24
_WORD = pattern(r"""(?:"(?:\\.|[^"\\])*"|'(?:\\.|[^'\\])*'|\\.|\S)+""", re.S)
_LEADING_OPTION = pattern(r"\A(--[A-Za-z][\w-]*)")
_QUOTED = pattern(r"""\"(?:\\.|[^"\\])*\"|'(?:\\.|[^'\\])*'""", re.S)
# Words that no expression of C can have: a name decremented behind an operand, or before one.
_NO_EXPRESSION = pattern(
    r"(?:(?<=[\w)\]'\"])\s+|\A(?=\S+\s+[\w('\"]))(--[A-Za-z][\w-]*)(?:=\S*)?(?=\s|\Z)"
)


class Rest(enum.Enum):
    """The text around the options of a command."""

    NOTHING = "nothing"
    """Options only; as in GDB, one dash is as good as two."""
    EXPRESSION = "an expression"
    """Options anywhere around an expression, in which ``--`` can be the operator of C."""
    LOCATION = "a location"
    """Options anywhere around a place in the program, which a condition or expressions may follow.
    No place begins with ``--word``."""
    OPERAND = "an operand"
    """Options anywhere around an expression; every ``--word`` is an option."""
    GDB = "the arguments of GDB's command"
    """Options among words and options of GDB's."""
    BEHIND = "anything, behind the options"
    """Options first; the first other word ends them."""
    WORDS = "anything but options, behind the options"
    """Options first; the first word without ``--``, or the word ``--``, ends them."""


def _is_shown(default: Any) -> bool:
    """Return whether a default is one that can be typed, and not the absence of a value.

    A whole number of 0 stands for no value; a tolerance can be 0.
    """
    if isinstance(default, int):
        return default != 0
    return isinstance(default, float) or (isinstance(default, str) and default != "")


class Option(msgspec.Struct, frozen=True, kw_only=True):
    """One option of a command."""

    name: str
    """The name with its dashes: ``--bins``, ``-o``."""
    help: str
    """The effect of the option: a phrase without a capital and a full stop."""
    value: str = ""
    """The name of its value in help texts; empty for a flag."""
    read: Callable[[str, str], Any] = lambda title, text: text
    """Function that makes the value from the option's title (``stat: --bins``) and the typed text.

    Raises UsageError.
    """
    choices: tuple[str, ...] = ()
    """The words that the value can be."""
    completes: Callable[[Workspace], Iterable[str]] | None = None
    """Function that returns candidates for the value; not needed with :attr:`choices`."""
    default: Any = None
    """The argument where the option is not given; False for a flag."""
    argument: str = ""
    """The keyword argument of the handler; empty for the name without dashes."""
    constant: Any = True
    """The argument where a flag is given."""
    aliases: tuple[str, ...] = ()
    """Other names with the same meaning."""
    is_repeated: bool = False
    """The argument is a tuple of all values."""
    is_required: bool = False
    takes_line: bool = False
    """The value is the rest of the line, blanks included."""
    needs: str = "a value"
    """The missing part, where the value is not given."""
    is_gdbs: bool = False
    """Whether GDB's command of the same name has the option as well."""

    @property
    def keyword(self) -> str:
        """The name of the handler's keyword argument."""
        return self.argument or self.name.lstrip("-").replace("-", "_")

    @property
    def usage(self) -> str:
        """The option as a usage line shows it."""
        text = f"{self.name} {self.value}".rstrip()
        return text if self.is_required else f"[{text}]"

    @property
    def initial(self) -> Any:
        """The argument before anything is read."""
        if self.is_repeated:
            return ()
        return False if not self.value and self.default is None else self.default

    def convert(self, title: str, text: str) -> Any:
        """Return the value for the typed *text*.

        :raises UsageError: if it is no value of this option.
        """
        if self.choices and text not in self.choices:
            *first, last = self.choices
            raise UsageError(f"{title} takes {', '.join(first)} or {last}, not {text!r}")
        return self.read(title, text)


class Parsed(msgspec.Struct, frozen=True):
    """The argument of a command, read."""

    rest: str
    """The text without the options."""
    values: dict[str, Any]
    """The keyword arguments of the handler; defaults for options that were not given."""


class Syntax(msgspec.Struct, frozen=True):
    """The options of a command and the text around them."""

    options: tuple[Option, ...]
    rest: Rest
    passes: tuple[str, ...] = ()
    """The options of GDB's command, which may be shortened (:attr:`Rest.GDB`)."""
    known: str = ""
    """The options as an error lists them; empty for the names of all."""
    advice: Mapping[str, str] = {}
    """Names of options that other commands have, each with what the error says of it."""

    def find(self, name: str) -> Option | None:
        """Return the option of a name or alias."""
        names = {name}
        if self.rest is Rest.NOTHING and name.startswith("-"):
            names.add(f"--{name.lstrip('-')}")
        for each in self.options:
            if not names.isdisjoint((each.name, *each.aliases)):
                return each
        return None

    def parse(self, command: str, argument: str) -> Parsed:
        """Read the argument of *command*.

        :raises UsageError: if an option is unknown, lacks its value or cannot have it, has two
            values, or if options exclude each other.
        """
        return _Parser(self, command, argument).parse()

    def complain(self, command: str, name: str) -> UsageError:
        """Return the error for an unknown option."""
        known = self.known or ", ".join(each.name for each in self.options)
        others = f", and those of GDB's {command}" if self.passes else ""
        listed = f"; there are {known}{others}" if known else ""
        advice = self.advice.get(name, "")
        if name == "--ranks":
            advice = f"; 'proc SET {command}' chooses the ranks"
        return UsageError(f"{command}: no option {name!r}{listed}{advice}")

    def help(self) -> str:
        """Return the list of the options with their help."""
        names = [f"{each.name} {each.value}".rstrip() for each in self.options]
        column = min(_WIDEST_NAME, max(map(len, names), default=0)) + 2
        lines: list[str] = []
        for each, name in zip(self.options, names, strict=True):
            text = each.help
            if each.value and _is_shown(each.default):
                default = each.default if isinstance(each.default, str) else f"{each.default:g}"
                text += f" (default {default})"
            if len(name) + 2 > column:
                lines.append(name)
                name = ""
            lines += textwrap.wrap(
                text,
                WIDTH,
                initial_indent=f"{name:<{column}}",
                subsequent_indent=" " * column,
                break_long_words=False,
                break_on_hyphens=False,
            )
        return "\n".join(lines)


class _Parser:
    """One run of the parser over the argument of a command."""

    def __init__(self, syntax: Syntax, command: str, argument: str) -> None:
        self._syntax = syntax
        self._command = command
        self._argument = argument
        self._values = {each.keyword: each.initial for each in syntax.options}
        self._given: dict[str, Option] = {}
        self._kept: list[str] = []
        # The words, each with the place behind it; quotes and blanks stay as they were typed.
        self._words = [(match[0], match.end()) for match in _WORD.finditer(argument)]
        if syntax.rest is Rest.NOTHING:
            try:
                self._words = [(word, 0) for word in shlex.split(argument)]
            except ValueError as error:
                raise UsageError(f"{command}: {argument!r}: {error}") from None

    def parse(self) -> Parsed:
        syntax = self._syntax
        at = kept_to = 0
        while at < len(self._words):
            word, end = self._words[at]
            at += 1
            name, equals, value = word.partition("=")
            option = syntax.find(name)
            if option is None:
                self._check_word(word, name)
                if syntax.rest in (Rest.BEHIND, Rest.WORDS):
                    break
                continue
            self._kept.append(self._argument[kept_to : end - len(word)])
            if not option.value:
                if equals:
                    raise UsageError(f"{self._command}: {option.name} takes no value")
            elif option.takes_line:
                value, end = self._argument[end - len(value) :].strip(), len(self._argument)
                at = len(self._words)
            elif not equals and at < len(self._words):
                value, end = self._words[at]
                at += 1
            if syntax.rest is not Rest.NOTHING:
                kept_to = end
                value = value if option.takes_line else unquoted(value)
            self._put(option, value)
        self._kept.append(self._argument[kept_to:])
        rest = " ".join(part for each in self._kept if (part := each.strip()))
        if syntax.rest is Rest.NOTHING:
            rest = ""
        elif match := self._option_in(_QUOTED.sub('""', rest)):
            raise syntax.complain(self._command, match[1])
        return Parsed(rest, self._values)

    def _option_in(self, rest: str) -> re.Match[str] | None:
        """Find a mistyped option in what no option has taken."""
        match self._syntax.rest:
            case Rest.EXPRESSION:
                return _NO_EXPRESSION.search(rest)
            case Rest.LOCATION:
                return _LEADING_OPTION.search(rest) or _NO_EXPRESSION.search(rest)
        return None

    def _put(self, option: Option, text: str) -> None:
        if option.value and not text:
            raise UsageError(f"{self._command}: {option.name} needs {option.needs}")
        title = f"{self._command}: {option.name}"
        value = option.convert(title, text) if option.value else option.constant
        if option.is_repeated:
            self._values[option.keyword] += (value,)
            return
        # A flag says the same again, and a second value something else.
        if option.value and self._given.get(option.keyword) is option:
            raise UsageError(f"{title} is given twice; it takes one value")
        before = self._given.setdefault(option.keyword, option)
        if before is not option:
            names = [each.name for each in self._syntax.options if each.keyword == option.keyword]
            listed = f"{', '.join(names[:-1])} and {names[-1]}"
            raise UsageError(f"{self._command}: one of {listed} is enough")
        self._values[option.keyword] = value

    def _check_word(self, word: str, name: str) -> None:
        """Check that a word which is no option of ours can stand there.

        :raises UsageError: if it must be a mistyped option.
        """
        syntax = self._syntax
        letters = name.lstrip("-")
        dashes = len(name) - len(letters)
        looks_like_option = dashes and letters[:1].isalpha()
        match syntax.rest:
            case Rest.NOTHING:
                raise syntax.complain(self._command, word)
            case Rest.OPERAND if dashes == 2 and looks_like_option:
                raise syntax.complain(self._command, name)
            case Rest.WORDS if dashes > 1 and letters:
                raise syntax.complain(self._command, name)
            case Rest.GDB if looks_like_option:
                if dashes > 1 or not any(each.startswith(word) for each in syntax.passes):
                    raise syntax.complain(self._command, word)
            case _:
                pass


def split_words(text: str) -> list[str]:
    """Return the words of a text; quotes, which hold blanks together, stay."""
    return [match[0] for match in _WORD.finditer(text)]


def unquoted(word: str) -> str:
    """Return a word without its quotes; a word with an open quote as it is."""
    try:
        return " ".join(shlex.split(word))
    except ValueError:
        return word


FULL = Option(
    name="--full",
    help="show the frames inside an MPI call as well",
    aliases=("--full-mpi", "-full-mpi"),
)
"""The option of the commands that fold the frames inside an MPI call."""


# -- readers of values ---------------------------------------------------------------------------


def is_number(text: str) -> bool:
    """Return whether *text* is digits that ``int`` accepts, of a size that makes sense."""
    return text.isascii() and text.isdigit() and len(text) <= _MOST_DIGITS


def count(most: int) -> Callable[[str, str], int]:
    """Return the reader of a number from 1 to *most*."""

    def read(title: str, text: str) -> int:
        if not is_number(text) or not 1 <= int(text) <= most:
            raise UsageError(f"{title} takes 1 to {most}, not {text!r}")
        return int(text)

    return read


def number(title: str, text: str) -> float:
    """Read a number.

    :raises UsageError: if it is none.
    """
    try:
        return float(text)
    except ValueError:
        raise UsageError(f"{title} {text!r} is no number") from None


def integers(title: str, text: str) -> tuple[int, ...]:
    """Read integers: ``100,50`` or ``100x50``.

    :raises UsageError: if a part is none.
    """
    try:
        return tuple(int(part) for part in text.replace("x", ",").split(","))
    except ValueError:
        raise UsageError(f"{title} takes numbers such as 100,50, not {text!r}") from None
