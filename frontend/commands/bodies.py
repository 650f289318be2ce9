"""Choice of the process that carries out the lines of a body, and the lines that none can.

The body of ``define``, ``if`` and ``while`` goes to the GDBs if they can carry it out alone, else
the front end takes it line by line. The bodies of ``commands`` and ``hook-stop`` run in the GDB of
a rank at its stop, so that all of their lines must be GDB's.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Sequence

from pgdb.errors import UsageError
from pgdb.frontend.api import gdb_commands, gdb_words
from pgdb.frontend.api.gdb_blocks import Block, Line, Node, argument_of, parse, reads_lines
from pgdb.frontend.api.gdb_words import Kind
from pgdb.frontend.api.options import find_changeable
from pgdb.frontend.commands.old_names import translated
from pgdb.frontend.commands.python_exits import first_exit
from pgdb.frontend.commands.table import COMMANDS, Command
from pgdb.frontend.commands.user_commands import UserCommand, UserCommands
from pgdb.patterns import pattern

# GDB carries these out in a body as PGDB does at the prompt.
_SAME = frozenset(
    "print info frame up down list backtrace thread help set show display source".split()
)
# The front end takes these in bodies that it carries out. In a body of GDB's they would end, free
# or replace the rank without a word to PGDB.
_ENDS_RANKS = frozenset("kill detach quit interrupt run start starti restart".split())
# GDB 13.1 and 18.1 cannot print them where they report the changed breakpoint.
_ENDS_GDBS = (
    "it would end the GDBs of the ranks; 'quit' leaves the session, 'raise gdb.GdbError(\"TEXT\")' "
    "ends the code"
)
_LOOPS = ("loop_break", "loop_continue")
_WAYS_OUT = {
    "proc": "; 'if $_rank == N' … 'end' chooses ranks in it",
    "py-print": "; 'display py:EXPR' shows a value of Python at each stop",
}
_OFF = pattern(r"(?:\S+\s+)+(?:off|0|unlimited)\Z")
_ARGUMENT = pattern(r"\s*[\w.-]*\$arg[c\d]")
_GUILE = pattern(r"\(\s*execute\s+\"([^\"\\]*)\"")
_DEATH = pattern(r"death\b")
_PRINTS = frozenset("print inspect output call display printf x".split())
_OF_PYTHON = pattern(r"(?<![\w:.\"'])py:[^\W\d]")


class Checker:
    """Checker of the lines of one body."""

    def __init__(
        self,
        user: UserCommands,
        title: str,
        *,
        for_gdb: bool,
        seen: frozenset[str] = frozenset(),
        number: int = 0,
    ) -> None:
        self._user = user
        self._number = number
        """The number of the line for errors, if it is not that of the line in its block."""
        self._seen = seen
        """The user-defined commands whose bodies are being checked."""
        self._title = title
        self._for_gdb = for_gdb

    def check(self, nodes: Iterable[Node]) -> bool:
        """Return whether the front end must carry the body out.

        :raises UsageError: for a line that neither GDB nor the front end may carry out there.
        """
        needs = False
        for node in nodes:
            if isinstance(node, Line):
                needs |= self._line(node)
            else:
                needs |= self._block(node)
        return needs

    def _block(self, block: Block) -> bool:
        match block.word:
            case "if" | "while":
                needs = self.check(block.body)
                return self.check(block.otherwise) or needs
            case "python" | "guile":
                self._code(block, block.word)
                return False
            case "commands":
                Checker(self._user, self._title, for_gdb=True).check(block.body)
                return True
            case "define":
                if self._for_gdb:
                    self.check(block.body)
                # Else the front end checks the new command where the line is carried out.
                return True
            case "document":
                return True
            case _:
                return False

    def _line(self, line: Line) -> bool:
        if line.text in _LOOPS and self._title == "commands":
            raise self._error(line, "GDB ends with an internal error for it in this body")
        if line.text in (*_LOOPS, "silent"):
            return False  # no commands: GDB looks for them before it resolves the word
        text = self._user.expanded(line.text, _has)
        if (found := self._user.find(text, _has)) is not None:
            return self._ours(line, self._calls(found[0]), f"'{found[0].name}' is PGDB's")
        if _ARGUMENT.match(gdb_commands.innermost(text)):
            return True  # its command is not known before the call
        if translated(text) != (text,):
            return self._ours(line, True, f"'{text}' is a command of PGDB's")
        try:
            word, command = resolve(gdb_words.first_word(text), self._user.names)
        except UsageError:
            return False  # GDB or the dispatcher says so where the line is carried out
        if word in ("python", "guile") or (word == "python-interactive" and argument_of(text)):
            self._code(line, word)
            return False
        why = self._why_refused(word, command, text)
        if why:
            raise self._error(line, why)
        if self._for_gdb and gdb_commands.resolve(gdb_commands.innermost(text)) in _ENDS_RANKS:
            raise self._error(line, f"'{word}' is refused: the rank's GDB carries this body out")
        if word == "select-frame" and not self._for_gdb:
            return True  # in a body of theirs the GDBs show the frame
        if word in _PRINTS and _OF_PYTHON.search(argument_of(text)):
            # The GDBs know no values of Python.
            why = f"'{text}' reads a value of Python"
            return self._ours(line, True, why, _WAYS_OUT["py-print"])
        if command is None:
            kind = gdb_commands.kind_of(word, text)
            return kind in (Kind.RUN, Kind.BREAKPOINT)
        if word == "catch" and _DEATH.match(argument_of(text)):
            return self._ours(line, True, "'catch death' is a command of PGDB's")
        if word not in gdb_words.KINDS or _is_setting_of_ours(word, text):
            if self._for_gdb and word == "set" and _OFF.match(argument_of(text)):
                return False  # the GDBs have these settings off
            why = f"'{text}' is a command of PGDB's"
            return self._ours(line, True, why, _WAYS_OUT.get(word, ""))
        if word in _SAME:
            return _is_only_ours(command, text)
        return True

    def _calls(self, command: UserCommand) -> bool:
        return command.is_ours or needs_front_end(self._user, command, self._seen)

    def _ours(self, line: Line, is_ours: bool, why: str, way_out: str = "") -> bool:
        if is_ours and self._for_gdb:
            raise self._error(line, f"{why}, and the rank's GDB carries this body out{way_out}")
        return is_ours

    def _why_refused(self, word: str, command: Command | None, text: str) -> str:
        inner = gdb_commands.innermost(text)
        if reads_lines(inner) and gdb_commands.resolve(inner) != "python":
            return f"'{word}' reads lines, which a body does not have"
        kind = gdb_commands.kind_of(word, text)
        is_carried_out = command is not None and not self._for_gdb
        if kind is not Kind.REFUSED or (is_carried_out and word not in ("set", "with", "thread")):
            return ""
        if _is_setting_of_ours(word, text):
            return ""
        return gdb_commands.why_refused(
            gdb_commands.resolve(inner) if inner != text else word, inner
        )

    def _code(self, node: Node, word: str) -> None:
        """Check the commands that code in Python or Guile gives to GDB as literal texts."""
        if isinstance(node, Line):
            code, first = argument_of(node.text), node.number
        else:
            lines = [each.text for each in node.body if isinstance(each, Line)]
            code, first = "\n".join(lines), node.number + 1
        for at, text in executed_by_guile(code) if word == "guile" else executed(code):
            _check_executed(self._user, self._title, text, first + at - 1 if first else 0)
        if word != "guile" and (found := first_exit(code)) is not None:
            at, text = found
            raise self._error(Line(first + at - 1 if first else 0, text), _ENDS_GDBS)

    def _error(self, line: Line, why: str) -> UsageError:
        number = self._number or line.number
        place = f"line {number} of '{self._title}'" if number else f"'{self._title}'"
        return UsageError(f"{place}, '{line.text}': {why}")


def needs_front_end(
    user: UserCommands, command: UserCommand, seen: frozenset[str] = frozenset()
) -> bool:
    """Return whether the front end carries a command out, with all commands that exist by now."""
    if command.is_ours or command.name in seen:
        return command.is_ours
    checker = Checker(user, command.name, for_gdb=False, seen=seen | {command.name})
    try:
        return checker.check(command.block.body)
    except UsageError:
        return True  # the line is refused where it is carried out


def check_for_gdb(user: UserCommands, opener: str, lines: Sequence[str]) -> None:
    """Check the body of a multi-line command that a rank's GDB carries out.

    :raises UsageError: for a line that the GDB may not carry out, or does not know.
    """
    title = gdb_words.resolve(opener)
    Checker(user, title, for_gdb=True).check(parse(opener, lines).body)


def check_code(user: UserCommands, word: str, lines: Sequence[str]) -> None:
    """Check the commands that lines of Python or Guile give to GDB as literal texts.

    :raises UsageError: for one that the GDB may not carry out.
    """
    Checker(user, word, for_gdb=True).check([parse(word, lines)])


def check_python(user: UserCommands, title: str, code: str) -> None:
    """Check the commands that a file of Python gives to GDB as literal texts.

    :raises UsageError: for one that the GDB may not carry out.
    """
    for at, text in executed(code):
        _check_executed(user, title, text, at)
    if (found := first_exit(code)) is not None:
        raise UsageError(f"line {found[0]} of '{title}', '{found[1]}': {_ENDS_GDBS}")


def _check_executed(user: UserCommands, title: str, text: str, number: int) -> None:
    """Check a text that code gives to GDB, as a line or, since it has several, as a script."""
    checker = Checker(user, title, for_gdb=True, number=number)
    if "\n" not in text.strip():
        checker.check([Line(number, text.strip())] if text.strip() else [])
    else:
        checker.check(parse("define", text.strip().split("\n")).body)


def executed(code: str) -> list[tuple[int, str]]:
    """Return the literal commands that Python code gives to ``gdb.execute``, with their lines, and
    the settings that it gives to ``gdb.set_parameter`` as commands.

    >>> executed('gdb.execute("run")')
    [(1, 'run')]
    """
    try:
        tree = ast.parse(code)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return []  # GDB's Python says so
    found = []
    for node in ast.walk(tree):
        if not isinstance(node, ast.Call) or not node.args:
            continue
        name = node.func.attr if isinstance(node.func, ast.Attribute) else ""
        constants = [each.value for each in node.args if isinstance(each, ast.Constant)]
        if not constants or not isinstance(first := constants[0], str):
            continue
        if name == "execute":
            found.append((node.lineno, first))
        elif name == "set_parameter" and len(constants) > 1:
            given = constants[1]
            value = ("off", "on")[given] if isinstance(given, bool) else str(given)
            found.append((node.lineno, f"set {first} {value}"))
    return found


def executed_by_guile(code: str) -> list[tuple[int, str]]:
    """Return the literal commands that Guile code gives to ``execute``, with their lines.

    >>> executed_by_guile('(define x 1)\\n(execute "run")')
    [(2, 'run')]
    """
    found = _GUILE.finditer(code)
    return [(code.count("\n", 0, each.start()) + 1, each[1]) for each in found]


def resolve(typed: str, names: Iterable[str] = ()) -> tuple[str, Command | None]:
    """Return the full word of a typed one, and its command, None for one of GDB's.

    An exact name comes first, PGDB's before GDB's, then GDB's abbreviations, then PGDB's. *names*
    are those of user-defined commands.

    :raises UsageError: for the beginning of several words.
    """
    own = COMMANDS.find(typed)
    if own is not None:
        return own.word, own
    words = gdb_words.candidates(typed, names)
    if len(words) != 1:
        words |= {*COMMANDS.starting_with(typed)} if typed else set()
    if len(words) > 1:
        raise UsageError(f"'{typed}' is ambiguous: {', '.join(sorted(words))}")
    word = words.pop() if words else typed
    return word, COMMANDS.find(word)


def is_command(line: str, names: Iterable[str] = ()) -> bool:
    """Return whether *line* begins with a word that means one command.

    >>> is_command("bt 3"), is_command("proc 2 p x"), is_command("42"), is_command("")
    (True, True, False, False)
    """
    try:
        word, command = resolve(gdb_words.first_word(line), names)
    except UsageError:
        return False
    return command is not None or word in gdb_words.KINDS or word in names


def _has(word: str) -> bool:
    return COMMANDS.find(word) is not None


def _is_setting_of_ours(word: str, text: str) -> bool:
    name = argument_of(text).partition(" ")[0]
    is_ours = find_changeable(name) is not None or is_args(name)
    return word in ("set", "show") and is_ours


def _is_only_ours(command: Command, text: str) -> bool:
    """Return whether GDB does not know a line although it knows the command."""
    words = argument_of(text).split()
    if command.word == "info":
        return words[:1] == ["sbd"]
    options = command.syntax.options if command.syntax is not None else ()
    names = {each.name for each in options if not each.is_gdbs}
    return not names.isdisjoint(words)


def is_args(name: str) -> bool:
    """Return whether a setting is GDB's ``args``."""
    return name in ("arg", "args")
