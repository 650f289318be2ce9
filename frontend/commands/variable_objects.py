"""Commands that explore structures, and GDB's variable objects and lists by their old names."""

from __future__ import annotations

import shlex
from collections.abc import Sequence

from msgspec.structs import replace

from pgdb.errors import UsageError
from pgdb.frontend.commands.options import Option, Rest, Syntax, count
from pgdb.frontend.commands.table import COMMANDS, Call, Group, Outcome, need_argument
from pgdb.overlay.query_options import PrintValues, QueryOptions
from pgdb.patterns import pattern

_ACTIONS = {
    "create": (3, "NAME|- FRAME|*|@ EXPR"),
    "delete": (1, "[-c] NAME"),
    "set format": (2, "NAME FORMAT"),
    "show format": (1, "NAME"),
    "info num children": (1, "NAME"),
    "list children": (4, "[PRINT-VALUES] NAME [FROM TO]"),
    "info type": (1, "NAME"),
    "info expression": (1, "NAME"),
    "info path expression": (1, "NAME"),
    "show attributes": (1, "NAME"),
    "evaluate expression": (1, "[-f FORMAT] NAME"),
    "assign": (2, "NAME EXPR"),
    "update": (2, "[PRINT-VALUES] NAME|*"),
    "set frozen": (2, "NAME 0|1"),
    "set update range": (3, "NAME FROM TO"),
    "set visualizer": (2, "NAME VISUALIZER"),
}
"""Number of words behind the options, of which the last takes the rest of the line, and usage."""
_OPTIONS = {
    "delete": Syntax(
        (Option(name="-c", help="delete the children only", argument="children_only"),),
        Rest.BEHIND,
    ),
    "evaluate expression": Syntax(
        (
            Option(
                name="-f",
                value="FORMAT",
                help="the format of the value",
                argument="format",
                default="",
            ),
        ),
        Rest.BEHIND,
    ),
}
"""Options of single actions; an option in the command table is one of the whole command."""
_VALUES: dict[str, PrintValues] = {"0": "names", "1": "all", "2": "simple"}
_LEAST = {"create": 3, "set format": 2, "assign": 2, "set frozen": 2, "set update range": 3}
_LEAST["set visualizer"] = 2
_MOST_LINES = 10**9
_LISTS = pattern(
    r"(?P<what>features|target\s+features|thread\s+groups|changed\s+registers|register\s+names"
    r"|stack\s+arguments|symbol\s+lines|locals(?=\s+(?:[012]|--)))(?:\s+(?P<rest>.*))?\Z"
)


@COMMANDS.command(
    "var",
    group=Group.DATA,
    usage="var ACTION …",
    summary="make, show and change GDB's variable objects",
    description="Variable objects of GDB's machine interface, with the same name on each rank; the "
    "answers are merged.\n\n"
    + "\n".join(f"  var {action} {usage}" for action, (_, usage) in _ACTIONS.items())
    + "\n\nFRAME is an address, * for the selected frame, @ for the frame that is selected when it "
    "is updated. PRINT-VALUES is 0 for names, 1 for values, 2 for simple values. 'varprint' shows "
    "structures without a variable object.",
)
async def _var(call: Call) -> Outcome:
    text = need_argument(call, "an action, for example 'var create NAME * EXPR'")
    action = next((each for each in _ACTIONS if pattern(rf"{each}\b").match(text)), None)
    if action is None:
        raise UsageError(f"var: no action {text!r}; there are {', '.join(_ACTIONS)}")
    most, usage = _ACTIONS[action]
    syntax = _OPTIONS.get(action)
    parsed = (syntax or Syntax((), Rest.BEHIND)).parse(f"var {action}", text[len(action) :])
    words = parsed.rest.split(maxsplit=most - 1)
    if len(words) < _LEAST.get(action, 1):
        raise UsageError(f"'var {action}' needs {usage}")
    options = QueryOptions(**parsed.values)
    if action in ("list children", "update") and words[0] in _VALUES and len(words) > 1:
        options = QueryOptions(values=_VALUES[words.pop(0)])
    return await call.view.machine_query(
        f"var {action}", [word.strip() for word in words], options=options
    )


def print_values(words: Sequence[str]) -> tuple[list[str], QueryOptions]:
    """Return the words behind a PRINT-VALUES of 0, 1 or 2, and the options that it stands for."""
    if words and words[0] in _VALUES:
        return list(words[1:]), QueryOptions(values=_VALUES[words[0]])
    return list(words), QueryOptions()


def list_query(call: Call) -> tuple[str, list[str], QueryOptions] | None:
    """Return the query of a ``list`` of something else than source lines; None for those.

    :raises UsageError: if an argument is missing.
    """
    match = _LISTS.match(call.argument)
    if match is None:
        return None
    what = " ".join(match["what"].split())
    try:
        words = shlex.split(match["rest"] or "")
    except ValueError as error:
        raise UsageError(f"list {what}: {error}") from None
    if what == "symbol lines" and len(words) != 1:
        raise UsageError("'list symbol lines' needs a source file")
    options = QueryOptions()
    if what in ("stack arguments", "locals"):
        if not words:
            raise UsageError(f"'list {what}' needs PRINT-VALUES: 0, 1 or 2")
        words, options = print_values(words)
    return f"list {what}", words, options


@COMMANDS.command(
    "write",
    group=Group.DATA,
    usage="write memory bytes ADDRESS HEX",
    summary="write bytes to the memory of each rank",
)
async def _write(call: Call) -> Outcome:
    """Write the bytes HEX, two digits each, to ADDRESS, which can be an expression: &x."""
    words = call.argument.split()
    if words[:2] != ["memory", "bytes"] or len(words) < 4:
        raise UsageError("'write' needs: memory bytes ADDRESS HEX")
    address, data = " ".join(words[2:-1]), words[-1].removeprefix("0x")
    if len(data) % 2 or any(each not in "0123456789abcdefABCDEF" for each in data):
        raise UsageError(f"write: {words[-1]!r} is no row of bytes of two hexadecimal digits each")
    return await call.view.machine_query("write memory bytes", [address, data])


def _lines(title: str, text: str) -> int:
    return -1 if text == "-1" else count(_MOST_LINES)(title, text)


@COMMANDS.command(
    "disassemble",
    group=Group.DATA,
    usage="disassemble [/MODIFIERS] [LOCATION]",
    summary="show instructions",
    rest=Rest.BEHIND,
    options=(
        Option(
            name="-s", value="START", help="begin at this address", argument="start", default=""
        ),
        Option(name="-e", value="END", help="end at this address", argument="end", default=""),
        Option(
            name="-f", value="FILE", help="show those of this file", argument="file", default=""
        ),
        Option(
            name="-l",
            value="LINE",
            help="begin at this line of FILE",
            argument="line",
            read=count(_MOST_LINES),
        ),
        Option(
            name="-n",
            value="LINES",
            help="show so many lines, -1 for all of the function",
            argument="lines",
            read=_lines,
        ),
    ),
)
async def _disassemble(
    call: Call, rest: str, *, start: str, end: str, file: str, line: int | None, lines: int | None
) -> Outcome:
    """Show the instructions of a function, or of a range of addresses, as GDB does.

    The options are those of 2014: 'disassemble -s START -e END -- MODE', and 'disassemble -f FILE
    -l LINE [-n LINES] -- MODE'.
    """
    options = QueryOptions(start=start, end=end, file=file, line=line, lines=lines)
    if options == QueryOptions():
        return await call.view.execute_plain(call.line)
    mode = pattern(r"(?:--\s+(\d))?\Z").match(rest)
    if mode is None:
        raise UsageError(f"disassemble: {rest!r} behind the options is no '-- MODE'")
    options = replace(options, mode=int(mode[1] or 0))
    return await call.view.machine_query("disassemble", options=options)


@COMMANDS.command(
    "varprint",
    group=Group.DATA,
    usage="varprint EXPR",
    summary="show a structure with what its pointers point to",
    needs="an expression",
    options=(
        Option(name="--depth", value="N", help="show N levels", read=count(9999), default=None),
        Option(
            name="--children",
            value="N",
            help="show at most N children of each value",
            read=count(9999),
            default=None,
        ),
    ),
)
async def _varprint(
    call: Call, expression: str, *, depth: int | None, children: int | None
) -> Outcome:
    """Show the value of EXPR and follow the pointers in it, equal parts once with their ranks.

    A null pointer is 0x0, a pointer to what was shown already is <shown above>. Containers have
    their elements. Deeper parts are {...}: 'varprint' of a part of EXPR shows it. 'set
    varprint-depth' and 'set varprint-children' change the limits.
    """
    return await call.view.explore(expression, depth=depth, children=children)


@COMMANDS.command(
    "varassign",
    group=Group.DATA,
    usage="varassign NAME = EXPR",
    summary="assign a value, and show it",
)
async def _varassign(call: Call) -> Outcome:
    """Assign the value of EXPR to NAME, a variable or a part of one, and show the value then."""
    match = pattern(r"(.+?)\s*(?<![=!<>+*/%&|^-])=(?!=)\s*(.+)\Z").match(call.argument)
    if match is None:
        raise UsageError("'varassign' needs NAME = EXPR")
    answer = await call.view.evaluate(f"{match[1]} = {match[2]}", of_ended=True)
    return replace(answer, command=f"print {match[1]}")
