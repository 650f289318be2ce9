"""Questions for which GDB's command line has no command, but its machine interface has one.

The answers are texts in the form in which GDB prints values, so that they are merged by their
parts.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from pgdb.backend.gdb import python_calls
from pgdb.backend.gdb.mi import quote
from pgdb.backend.gdb.queries import bounds_of, failure
from pgdb.backend.gdb.session import GdbSession
from pgdb.overlay.messages import Explore, MachineQuery
from pgdb.overlay.query_options import QueryOptions
from pgdb.patterns import pattern
from pgdb.records import Done, Failure, Record, Text, Value, Variable, Variables

_COMMANDS = {
    "path": "-environment-path",
    "info stack depth": "-stack-info-depth",
    "list stack arguments": "-stack-list-arguments",
    "list locals": "-stack-list-locals",
    "list register names": "-data-list-register-names",
    "list symbol lines": "-symbol-list-lines",
    "list features": "-list-features",
    "list target features": "-list-target-features",
    "list thread groups": "-list-thread-groups",
    "write memory bytes": "-data-write-memory-bytes",
    "disassemble": "-data-disassemble",
    "var create": "-var-create",
    "var delete": "-var-delete",
    "var set format": "-var-set-format",
    "var show format": "-var-show-format",
    "var info num children": "-var-info-num-children",
    "var list children": "-var-list-children",
    "var info type": "-var-info-type",
    "var info expression": "-var-info-expression",
    "var info path expression": "-var-info-path-expression",
    "var show attributes": "-var-show-attributes",
    "var evaluate expression": "-var-evaluate-expression",
    "var assign": "-var-assign",
    "var update": "-var-update",
    "var set frozen": "-var-set-frozen",
    "var set update range": "-var-set-update-range",
    "var set visualizer": "-var-set-visualizer",
}
_VALUES = {"names": "--no-values", "all": "--all-values", "simple": "--simple-values"}
_PLAIN = pattern(r"[\w.$*@%+-]+\Z")
_NEVER_SHOWN = ("thread-id", "displayhint")


async def ask(gdb: GdbSession, operation: MachineQuery) -> Record:
    """Carry out a query; return its answer as a text."""
    if operation.command == "list changed registers":
        return await _changed_registers(gdb)
    if operation.command == "info registers":
        return await _registers(gdb, *operation.arguments)
    if operation.command == "list user variables":
        return await _of_variables(gdb, "show")
    if operation.command == "define user variables":
        return await _of_variables(gdb, "define", json.loads(" ".join(operation.arguments)))
    command = _COMMANDS.get(operation.command)
    if command is None:
        return Failure(message=f"no command {operation.command!r}")
    if operation.command == "var create":
        await gdb.send("-enable-pretty-printing")  # for the children of containers
    given = (*_options(operation.options), *operation.arguments)
    words = [each if _PLAIN.match(each) else quote(each) for each in given]
    result = await gdb.send(" ".join((command, *words)))
    if result.kind != "done":
        return failure(result)
    if operation.command == "list register names":
        names = [name for name in result.payload.get("register-names", ()) if name]
        return Text(text="\n".join(map(str, names)))
    if operation.command == "path":
        text = f"Executable and object file path: {result.payload.get('path', '')}"
    else:
        text = "\n".join(_lines(result.payload))
    text = f"{result.log}{text}"
    return Text(text=text) if text else Done()


def _options(given: QueryOptions) -> Iterator[str]:
    """Yield the options of MI's command; those of ``-data-disassemble`` end with its mode."""
    if given.values:
        yield _VALUES[given.values]
    if given.children_only:
        yield "-c"
    if given.resets:
        yield "-r"
    for name, value in (
        ("-f", given.format),
        ("-s", given.start),
        ("-e", given.end),
        ("-f", given.file),
        ("-l", given.line),
        ("-n", given.lines),
        ("--", given.mode),
    ):
        if value not in ("", None):
            yield from (name, str(value))


async def _changed_registers(gdb: GdbSession) -> Record:
    """List the registers that have changed since the last question, with their values."""
    changed = await gdb.send("-data-list-changed-registers")
    if changed.kind != "done":
        return failure(changed)
    numbers = [str(each) for each in changed.payload.get("changed-registers", ())]
    if not numbers:
        return Text(text="No registers have changed.")
    return await _values_of_registers(gdb, await _names_of_registers(gdb), "x", numbers)


async def _registers(gdb: GdbSession, letter: str, *wanted: str) -> Record:
    """List registers in a format of MI: those of some numbers or names, or all of them."""
    names = await _names_of_registers(gdb)
    numbers: list[str] = []
    for each in wanted:
        name = each.removeprefix("$")
        if name.isdecimal() and int(name) < len(names):
            numbers.append(name)
        elif name and name in names:
            numbers.append(str(names.index(name)))
        else:
            return Failure(
                message=f"no register {each!r}: 'list register names' lists the names; their "
                "numbers count from 0"
            )
    return await _values_of_registers(gdb, names, letter, numbers)


async def _names_of_registers(gdb: GdbSession) -> list[str]:
    """Return the names of the registers by number; some are empty."""
    listed = await gdb.send("-data-list-register-names")
    return [str(each) for each in listed.payload.get("register-names", ())]


async def _values_of_registers(
    gdb: GdbSession, names: Sequence[str], letter: str, numbers: Sequence[str]
) -> Record:
    words = " ".join(("-data-list-register-values --skip-unavailable", letter, *numbers))
    values = await gdb.send(words)
    if values.kind != "done":
        return failure(values)
    lines = []
    for each in values.payload.get("register-values", ()):
        number = int(each.get("number", -1))
        name = names[number] if 0 <= number < len(names) else f"#{number}"
        lines.append(f"{name:<15}{each.get('value', '')}")
    return Text(text="\n".join(lines)) if lines else Done()


def _lines(payload: Mapping[str, Any]) -> list[str]:
    """Return a line for each field, and for each item of a list of structures."""
    lines = []
    for name, value in payload.items():
        if name in _NEVER_SHOWN:
            continue
        if isinstance(value, list | tuple) and any(isinstance(each, Mapping) for each in value):
            if len(value) != 1:
                lines.append(f"{name}: {len(value)}")
            lines += (f"  {_fields(each)}" for each in value)
        else:
            lines.append(f"{name} = {_text(value)}")
    return lines


def _fields(value: Any) -> str:
    if not isinstance(value, Mapping):
        return _text(value)
    return ", ".join(
        f"{name} = {_text(each)}" for name, each in value.items() if name not in _NEVER_SHOWN
    )


def _text(value: Any) -> str:
    if isinstance(value, Mapping):
        return f"{{{_fields(value)}}}"
    if isinstance(value, Sequence) and not isinstance(value, str):
        return f"{{{', '.join(map(_text, value))}}}"
    return str(value)


async def _of_variables(gdb: GdbSession, function: str, *arguments: object) -> Record:
    """Return what a function about the user's convenience variables has written, as JSON."""
    found = await python_calls.ask(
        gdb, f"variables_in_gdb.{function}", *arguments, needed_for="keeping variables needs"
    )
    return found if isinstance(found, Failure) else Text(text=json.dumps(found))


async def explore(gdb: GdbSession, operation: Explore) -> Record:
    """Show a value to some depth, or list its children."""
    path = list(operation.path)
    if operation.children_only:
        function, bounds = "show_children", (operation.start, operation.most)
    else:
        function, bounds = "show", (operation.depth, operation.most)
    found = await python_calls.ask(
        gdb,
        f"explore_in_gdb.{function}",
        operation.expression,
        path,
        *bounds,
        needed_for="exploring needs",
    )
    if isinstance(found, Failure):
        return found
    if isinstance(found, str):
        return Value(text=found)
    if not operation.children_only:
        text, indexed = found
        return Value(text=text, bounds=bounds_of(indexed, text) if "(" in text else "")
    items = tuple(Variable(str(name), str(text)) for name, text in found)
    return Variables(items=items, empty="No children.")
