"""Commands that explore structures, and GDB's variable objects and lists by their old names."""

from __future__ import annotations

import shlex

from msgspec.structs import replace

from pgdb.errors import UsageError
from pgdb.frontend.commands.options import Option, count
from pgdb.frontend.commands.table import COMMANDS, Call, Group, Outcome, need_argument
from pgdb.patterns import pattern

_ACTIONS = {
    "create": (3, "NAME|- FRAME|*|@ EXPR"),
    "delete": (2, "[-c] NAME"),
    "set format": (2, "NAME FORMAT"),
    "show format": (1, "NAME"),
    "info num children": (1, "NAME"),
    "list children": (4, "[PRINT-VALUES] NAME [FROM TO]"),
    "info type": (1, "NAME"),
    "info expression": (1, "NAME"),
    "info path expression": (1, "NAME"),
    "show attributes": (1, "NAME"),
    "evaluate expression": (3, "[-f FORMAT] NAME"),
    "assign": (2, "NAME EXPR"),
    "update": (2, "[PRINT-VALUES] NAME|*"),
    "set frozen": (2, "NAME 0|1"),
    "set update range": (3, "NAME FROM TO"),
    "set visualizer": (2, "NAME VISUALIZER"),
}
"""Number of words, of which the last takes the rest of the line, and usage."""
_LEAST = {"create": 3, "set format": 2, "assign": 2, "set frozen": 2, "set update range": 3}
_LEAST["set visualizer"] = 2
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
    words = text[len(action) :].split(maxsplit=most - 1)
    if len(words) < _LEAST.get(action, 1):
        raise UsageError(f"'var {action}' needs {usage}")
    if action in ("list children", "update") and words[0] in ("0", "1", "2") and len(words) > 1:
        words[0] = ("--no-values", "--all-values", "--simple-values")[int(words[0])]
    return await call.view.machine_query(f"var {action}", [word.strip() for word in words])


def list_query(call: Call) -> tuple[str, list[str]] | None:
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
    if what in ("stack arguments", "locals") and not words:
        raise UsageError(f"'list {what}' needs PRINT-VALUES: 0, 1 or 2")
    return f"list {what}", words


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


@COMMANDS.command(
    "disassemble",
    group=Group.DATA,
    usage="disassemble [/MODIFIERS] [LOCATION]",
    summary="show instructions",
)
async def _disassemble(call: Call) -> Outcome:
    """Show the instructions of a function, or of a range of addresses, as GDB does.

    The form of 2014 works as well: 'disassemble -s START -e END -- MODE', and 'disassemble -f FILE
    -l LINE [-n LINES] -- MODE'.
    """
    if not pattern(r"-[sf]\s").match(call.argument):
        return await call.view.execute_plain(call.line)
    try:
        words = shlex.split(call.argument)
    except ValueError as error:
        raise UsageError(f"disassemble: {error}") from None
    if "--" not in words:
        words += ["--", "0"]
    return await call.view.machine_query("disassemble", words)


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
