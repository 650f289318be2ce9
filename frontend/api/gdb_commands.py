"""GDB's command lines, classed by their effect on a session.

A word is resolved as GDB does it before it is classed, so that ``st``, ``conti`` or ``py`` cannot
slip through. GDB judges a word that is not in the table of :mod:`pgdb.frontend.api.gdb_words`.
"""

from __future__ import annotations

from collections.abc import Sequence

from pgdb.controls import not_utf8
from pgdb.errors import UsageError
from pgdb.frontend.api.gdb_blocks import (
    Line,
    Nesting,
    argument_of,
    lines_of,
    parse,
    reads_lines,
    whole,
)
from pgdb.frontend.api.gdb_words import ALIASES as ALIASES
from pgdb.frontend.api.gdb_words import KINDS as KINDS
from pgdb.frontend.api.gdb_words import ONE_PROCESS, REFUSED
from pgdb.frontend.api.gdb_words import Kind as Kind
from pgdb.frontend.api.gdb_words import first_word as first_word
from pgdb.frontend.api.gdb_words import resolve as resolve
from pgdb.gdb_carriers import BEFORE_COMMAND
from pgdb.patterns import pattern
from pgdb.written_files import for_ranks

# Settings that PGDB needs, with the value that it needs; None for those of the user interface.
_SETTINGS_OF_OURS = {
    "mi-async": "on",
    "target-async": "on",
    "non-stop": "off",
    "confirm": None,
    "pagination": None,
    "height": None,
    "annotate": "0",
    "interactive-mode": None,
}
# Settings that make GDB follow a child or keep several processes, with the value that does neither
# and the length of the shortest abbreviation (GDB 13.1).
_SETTINGS_OF_FORKS = {
    "follow-fork-mode": ("parent", 8),
    "follow-exec-mode": ("same", 8),
    "detach-on-fork": ("on", 3),
    "schedule-multiple": ("off", 9),
}
_CARRIERS = {
    word: pattern(rf"{before}(?P<command>\S.*)") for word, before in BEFORE_COMMAND.items()
} | {
    # The text up to its first value, which says which command it is in all but odd cases.
    "eval": pattern(r"\"\s*(?P<command>[^\"%\\]+)"),
}
"""Commands that carry out another command."""

# GDB 13.1 and 18.1 kill the process, then look for the file.
_RESTORES_RECORD = pattern(r"(?:full?\s+)?r(?:e(?:s(?:t(?:o(?:re?)?)?)?)?)?(?:\s|\Z)")
# PGDB carries these out itself; GDB would do it without a word to PGDB.
_ENDS_RANKS = ("detach", "kill", "quit")


def kind_of(word: str, line: str) -> Kind:
    """Return the class of a resolved command; *line* is the whole, which decides some."""
    kind, inner = _kind_and_inner(word, line)
    kept = {Kind.RUN, Kind.REFUSED, Kind.MULTI_LINE, Kind.BREAKPOINT}
    while inner:
        # An inner command keeps its effect; the nesting can be as deep as the line is long.
        if word != "with":
            kept.discard(Kind.BREAKPOINT)
        word = resolve(inner)
        kind, inner = _kind_and_inner(word, inner)
        if not inner and word in _ENDS_RANKS:
            kind = Kind.REFUSED
        elif not inner and kind not in kept:
            kind = Kind.FREE
    return kind


def with_command(line: str, last: str) -> str:
    """Return a line in which a ``with`` without a command has the *last* one, as in GDB.

    >>> with_command("with print elements 3", "p x"), with_command("with width 0 -- p y", "p x")
    ('with print elements 3 -- p x', 'with width 0 -- p y')
    """
    argument = argument_of(line)
    setting, _, command = argument.partition("--")
    if command.strip() or not setting.strip() or not last or resolve(line) != "with":
        return line
    return f"with {setting.strip()} -- {last}"


def innermost(line: str) -> str:
    """Return the command that a line carries out in the end: ``bt`` of ``thread apply all bt``."""
    inner = line
    while inner:
        line = inner
        _, inner = _kind_and_inner(resolve(line), line)
    return line


def _kind_and_inner(word: str, line: str) -> tuple[Kind, str]:
    """Return the class of a command, and the inner command that it carries out, if any."""
    argument = argument_of(line)
    if word in ("python", "guile", "compile", "expression") and reads_lines(line):
        return Kind.MULTI_LINE, ""
    if word == "set" and (_is_setting_of_ours(argument) or _is_setting_of_forks(argument)):
        return Kind.REFUSED, ""
    if word == "with" and _is_setting_of_forks(argument.partition("--")[0]):
        return Kind.REFUSED, ""
    if word == "inferior" and argument in ("", "1"):
        return Kind.FREE, ""
    if word == "info" and _lets_run(argument):
        return Kind.REFUSED, ""
    if word == "python-interactive" and argument:
        return Kind.FREE, ""  # it reads no lines then
    if word == "record" and _RESTORES_RECORD.match(argument):
        return Kind.REFUSED, ""
    if word in _CARRIERS and (match := _CARRIERS[word].match(argument)):
        return Kind.FREE, match["command"]
    return KINDS.get(word, Kind.FREE), ""


def _is_setting_of_ours(argument: str) -> bool:
    return bool(_own_settings(argument))


def _own_settings(argument: str) -> list[str]:
    """Return the settings of PGDB's that a ``set`` can mean."""
    name = argument.split(maxsplit=1)[0] if argument else ""
    # GDB accepts the beginning of a setting's name: "he", "mi" and "an" are enough (GDB 13.1).
    enough = len(name) > 2 or name in ("he", "mi", "an")
    return [own for own in _SETTINGS_OF_OURS if enough and own.startswith(name)]


def changes_nothing(argument: str) -> bool:
    """Return whether a ``set`` gives a setting the value that PGDB needs it to have.

    >>> changes_nothing("non-stop off"), changes_nothing("non-stop on")
    (True, False)
    """
    value = " ".join(argument.split()[1:])
    return [_SETTINGS_OF_OURS[own] for own in _own_settings(argument)] == [value]


_ABOUT_BREAKPOINTS = frozenset("condition ignore enable disable delete commands".split())
_NAMES_BREAKPOINTS = ("delete", "disable", "enable", "commands")
_UNKNOWN_PLACE = pattern(r"(?:Function \".*\" not defined|No (?:source file|line|symbol table) )")


def is_about_breakpoints(line: str) -> bool:
    """Return whether a command makes or changes breakpoints."""
    word = resolve(innermost(line))
    return KINDS.get(word) is Kind.BREAKPOINT or word in _ABOUT_BREAKPOINTS


def ends_body(line: str, message: str) -> bool:
    """Return whether a command that fails with *message* ends a body, as in GDB.

    GDB asks about a breakpoint at an unknown place, and goes on after numbers that are none.

    >>> ends_body("break f", 'Function "f" not defined.'), ends_body("watch x", "No symbol")
    (False, True)
    """
    word = resolve(innermost(line))
    if KINDS.get(word) is Kind.BREAKPOINT:
        return _UNKNOWN_PLACE.match(message) is None
    return word not in _NAMES_BREAKPOINTS or not message.startswith("No breakpoint number ")


def _is_setting_of_forks(argument: str) -> bool:
    """Return whether a ``set`` makes GDB follow a child, or keep several processes."""
    name, value = (*argument.split(maxsplit=1), "", "")[:2]
    return not value.startswith("=") and any(
        own.startswith(name) and len(name) >= shortest and value.strip() != as_it_is
        for own, (as_it_is, shortest) in _SETTINGS_OF_FORKS.items()
    )


def why_not_at_start(line: str) -> str:
    """Return why the GDBs may not get a command before they attach; empty if they may."""
    word, argument = resolve(line), argument_of(line)
    return why_refused(word, line) if word == "set" and _is_setting_of_forks(argument) else ""


def _lets_run(topic: str) -> bool:
    """Return whether an ``info`` sets the rank running.

    GDB 13.1 does, to ask the program for its markers.
    """
    name = topic.split(maxsplit=1)[0] if topic else ""
    return len(name) > len("sta") and "static-tracepoint-markers".startswith(name)


def with_files_for_ranks(lines: Sequence[str], count: int) -> tuple[str, ...]:
    """Return the lines of a script, with a name for each of *count* ranks where they write files.

    The text of Python and the like stays.
    """
    found: list[str] = []
    nesting: Nesting | None = None
    for line in lines:
        is_text = nesting is not None and nesting.is_text
        found.append(line if is_text else for_ranks(line, count))
        if nesting is not None:
            nesting = None if nesting.take(line) else nesting
        elif reads_lines(line):
            nesting = Nesting(line)
    return tuple(found)


def why_refused(word: str, line: str = "") -> str:
    """Return the message for a refused command, with the way out."""
    inner = innermost(line)
    if inner != line:
        word, line = resolve(inner), inner
        if word in _ENDS_RANKS:
            return f"'{word}' is refused inside another command: give it alone"
    if word in ("set", "with") and _is_setting_of_forks(line.partition(" ")[2].partition("--")[0]):
        return (
            f"'{word}' with this setting is refused: {ONE_PROCESS}; --program NAME names the "
            "program that a wrapper starts"
        )
    if word == "info":
        return f"'{line.strip()}' is refused: GDB would let the rank run for it"
    if word == "record":
        return (
            f"'{line.strip()}' is refused: GDB would kill the rank; a GDB of its own, 'gdb "
            "PROGRAM', reads the recording"
        )
    for why, words in REFUSED.items():
        if word in words.split():
            return f"'{word}' is refused: {why}"
    return f"'{line.strip() or word}' is refused: PGDB needs that setting as it is"


def check_script(lines: Sequence[str]) -> None:
    """Check the lines of a script that GDBs carry out; text of Python is left alone.

    :raises UsageError: for a line that takes ranks away from PGDB, and for a block without its end.
    """
    numbered = iter(enumerate(lines, 1))
    for number, line in numbered:
        found = [Line(number, line)]
        if reads_lines(line):
            body = whole(line, (text for _, text in numbered))
            block = parse(line, body)
            inner = [] if block.is_text else lines_of((*block.body, *block.otherwise))
            found += [Line(number + each.number, each.text) for each in inner]
        for each in found:
            word = resolve(innermost(each.text))
            if kind_of(resolve(each.text), each.text) is Kind.REFUSED or word in _ENDS_RANKS:
                raise UsageError(f"line {each.number}, '{each.text}': {_why_in_script(each.text)}")


def _why_in_script(line: str) -> str:
    word = resolve(innermost(line))
    if word in _ENDS_RANKS:
        return f"'{word}' is a call of its own"
    return why_refused(resolve(line), line)


def check_text(line: str) -> None:
    """Check that a typed line is UTF-8: a terminal or a command line can contain other bytes.

    Operations check their own fields (:meth:`pgdb.overlay.operation.Operation.check`).

    :raises UsageError: if it is not UTF-8.
    """
    try:
        line.encode("utf-8")
    except UnicodeEncodeError as error:
        raise UsageError(not_utf8(error, "the line")) from None
