"""Values in full, of which GDB prints only a part: text without GDB's limits, or numbers in memory.

GDB's limits (``print elements``, ``max-value-size`` and the like) are for showing. A value that GDB
prints completely costs nothing here.
"""

from __future__ import annotations

from msgspec.structs import replace

from pgdb.backend.gdb import queries
from pgdb.backend.gdb.blocks import read_block
from pgdb.backend.gdb.fortran_elements import is_component_of_all
from pgdb.backend.gdb.mi import console
from pgdb.backend.gdb.session import GdbSession
from pgdb.overlay.messages import Evaluate, ListVariables, ReadBlock
from pgdb.patterns import pattern
from pgdb.print_options import split_print
from pgdb.printed_parts import count_dots, has_dots, is_cut
from pgdb.records import Block, Failure, Record, Value, Variable, Variables

_MOST_SHOWN_BYTES = 1 << 26
"""Largest value that GDB prints beyond the user's max-value-size: it reads all of it for that."""
_FEW_PARTS = 8
"""Most long parts of a value of which each is printed with all elements that are asked for."""
_OF_MANY_PARTS = 250
"""Elements of each part that are looked at in any case, as far as the request goes."""
_MOST_VARIABLES = 64
"""Most variables of a frame of which more than GDB prints is looked at."""
_TOO_LARGE = "max-value-size"
_LIMIT = "array-limit"
_LESS = "name a part of it, or 'set max-value-size BYTES' first"
_NUMBERS = pattern(r"(?:std::[\w:<>, ]+ = )?[{(\s]*[-+]?(?:\d|nan\b|inf\b)")
_CHANGES = pattern(r"\+\+|--|(?<![=!<>/])=(?!=)")
_CALLS = pattern(r"\w\s*\(")
_LAST_VALUES = pattern(r"(?<![\w$])\$(?:\$\d*)?(?![\w$])")
"""Values of GDB's history that are named by their age: ``$``, ``$$``, ``$$2``."""


async def evaluate(gdb: GdbSession, operation: Evaluate, pid: int) -> Record:
    """Print the value of an expression, and look at all of it if GDB prints only a part.

    :raises NeedsStopError: if the rank runs.
    """
    if operation.keeps_history and _is_quiet(operation.expression):
        return await _evaluate_quietly(gdb, operation, pid)
    record, number = await queries.evaluate_numbered(gdb, operation.expression, operation.format)
    if not operation.most_elements:
        return record
    if isinstance(record, Value):
        if number and _TOO_LARGE in record.text:
            # A reference to a large object, alone or in a structure, is a value with an error.
            record, number = await _with_larger_limit(gdb, operation, record, number)
        if number and has_dots(record.text):
            return await in_full(gdb, operation, pid, record, f"${number}")
        return record
    if isinstance(record, Failure) and _TOO_LARGE in record.message:
        return await _too_large(gdb, operation, pid, record)
    return record


def _is_quiet(expression: str) -> bool:
    """Return whether GDB's history stays as it is.

    The value of a call is read in full from the history, since the call must not happen again.
    """
    if split_print(expression).options or _CHANGES.search(expression):
        return False
    return _CALLS.search(expression) is None or _LAST_VALUES.search(expression) is not None


async def _evaluate_quietly(gdb: GdbSession, operation: Evaluate, pid: int) -> Record:
    """Print a value without the history, of which later expressions name values by their age."""
    expression, letters = operation.expression, operation.format
    record = await queries.evaluate_quietly(gdb, expression, letters)
    if not operation.most_elements:
        return record
    if isinstance(record, Failure):
        if _TOO_LARGE in record.message:
            return await _too_large(gdb, operation, pid, record)
        return record
    if not isinstance(record, Value):
        return record
    is_call = _CALLS.search(expression) is not None
    if _TOO_LARGE in record.text and not is_call:
        large = (f"max-value-size {_MOST_SHOWN_BYTES}",)
        again = await queries.evaluate_quietly(gdb, expression, letters, settings=large)
        if isinstance(again, Value):
            record = replace(again, warnings=record.warnings)
    if _TOO_LARGE in record.text or (is_call and has_dots(record.text)):
        return replace(record, looked_at=-1)
    if has_dots(record.text):
        return await in_full(gdb, operation, pid, record, expression)
    return record


async def look_at_variables(
    gdb: GdbSession, operation: ListVariables, listed: Variables, pid: int
) -> Variables:
    """Look at all of those variables of which GDB prints a part.

    GDB's history of values stays as it is.

    :raises NeedsStopError: if the rank runs.
    """
    found: dict[str, Variable] = {}
    items = []
    for item in listed.items:
        if not (has_dots(item.value) or _TOO_LARGE in item.value):
            items.append(item)
        elif item.name in found or len(found) >= _MOST_VARIABLES:
            # An inner block has a variable of this name, which hides this one.
            items.append(replace(item, looked_at=-1) if is_cut(item.value) else item)
        else:
            found[item.name] = await _whole_variable(gdb, operation, item, pid)
            items.append(found[item.name])
    return replace(listed, items=tuple(items))


async def _whole_variable(
    gdb: GdbSession, operation: ListVariables, item: Variable, pid: int
) -> Variable:
    asked = Evaluate(
        expression=item.name,
        most_elements=operation.most_elements,
        limit_bytes=operation.limit_bytes,
    )
    if _TOO_LARGE in item.value:
        larger = f"with max-value-size {_MOST_SHOWN_BYTES} -- output {item.name}"
        result = await gdb.send(console(larger))
        if result.kind != "done":
            queries.failure(result)  # raises if the rank runs
        elif result.text and _TOO_LARGE not in result.text:
            item = replace(item, value=result.text.rstrip("\n"))
        elif isinstance(block := await _block(gdb, asked, pid, item.name), Block):
            return replace(item, value="{...}", whole=block)
        else:
            return replace(item, looked_at=-1)
    shown = Value(text=item.value)
    if _NUMBERS.match(item.value):
        block = await _block(gdb, asked, pid, item.name)
        if isinstance(block, Block):
            return replace(item, whole=block)
    whole = await _in_full_text(gdb, asked, shown, item.name)
    assert isinstance(whole, Value)
    return replace(item, whole=whole.whole, looked_at=whole.looked_at)


async def _with_larger_limit(
    gdb: GdbSession, operation: Evaluate, shown: Value, number: int
) -> tuple[Value, int]:
    """Print a value of GDB's history again with a larger limit for its size."""
    word = f"print/{operation.format}" if operation.format else "print"
    raised = f"with max-value-size {_MOST_SHOWN_BYTES} -- {word} ${number}"
    again, history = await queries.numbered(gdb, raised)
    if not isinstance(again, Value) or not history:
        return replace(shown, looked_at=-1), 0
    if _TOO_LARGE in again.text:
        return replace(again, looked_at=-1), 0
    # The number in the history has none of the warnings of its expression.
    again = replace(again, warnings=shown.warnings)
    return await _with_bounds(gdb, again, history, operation.format), history


async def _with_bounds(gdb: GdbSession, shown: Value, number: int, format: str) -> Value:
    """Return a value that was printed with a larger limit, with the lower bounds of its arrays."""
    if not queries.is_fortran_array(shown.text):
        return shown
    text = None if format else shown.text
    found = await queries.bounds(gdb, f"${number}", text, most_bytes=_MOST_SHOWN_BYTES)
    return replace(shown, bounds=found)


async def in_full(
    gdb: GdbSession, operation: Evaluate, pid: int, shown: Value, history: str
) -> Record:
    """Look at all of a value that GDB has printed in part, and that its history has."""
    if not operation.format and _NUMBERS.match(shown.text):
        # The number in the history is not evaluated again, as a call in the expression would be.
        is_copy = is_component_of_all(operation.expression)
        block = await _block(gdb, operation, pid, operation.expression if is_copy else history)
        if isinstance(block, Block):
            return replace(shown, whole=block)
    return await _in_full_text(gdb, operation, shown, history)


async def _too_large(gdb: GdbSession, operation: Evaluate, pid: int, refused: Failure) -> Record:
    """Look at a value that is too large for GDB to print."""
    expression = operation.expression
    if _CHANGES.search(expression):
        return refused
    language = await gdb.send(console("show language"))
    if _CALLS.search(expression) and "fortran" not in language.text:
        return refused  # evaluated again, it would call a function again
    block: Record | None = None
    if not operation.format:
        block = await _block(gdb, operation, pid, expression)
        if isinstance(block, Failure) and _LIMIT in block.message:
            return block  # it says what to set
    word = f"print/{operation.format}" if operation.format else "print"
    limit = f"max-value-size {_MOST_SHOWN_BYTES}"
    if operation.keeps_history:
        quiet = await queries.evaluate_quietly(gdb, expression, operation.format, settings=(limit,))
        if isinstance(quiet, Value) and not isinstance(block, Block):
            return await _in_full_text(gdb, operation, quiet, expression)
        shown, number = quiet, 0
    else:
        shown, number = await queries.numbered(gdb, f"with {limit} -- {word} {expression}")
    if isinstance(block, Block):
        return Value(text=shown.text if isinstance(shown, Value) else "{...}", whole=block)
    if not isinstance(shown, Value) or not number:
        return Failure(message=f"{refused.message}; {_LESS}")
    shown = await _with_bounds(gdb, shown, number, operation.format)
    return await _in_full_text(gdb, operation, shown, f"${number}")


async def _in_full_text(gdb: GdbSession, operation: Evaluate, shown: Value, history: str) -> Record:
    """Look at the text of a value without GDB's limits."""
    if not has_dots(shown.text):
        return shown
    most = _most_elements(operation, shown.text)
    text = await _text(gdb, operation, history, most)
    if text is None:
        return replace(shown, looked_at=-1)
    if text == shown.text and not is_cut(text):  # the dots are its own
        return shown
    return replace(shown, whole=text, looked_at=most if is_cut(text) else 0)


def _most_elements(operation: Evaluate, shown: str) -> int:
    """Return the number of elements after which each part of a text is to end.

    GDB takes long for the elements of containers, and a structure can have many: all parts together
    have as many elements as a few long ones, or some more than GDB prints.
    """
    most = operation.most_elements
    count = count_dots(shown)
    if count <= _FEW_PARTS:
        return most
    return max(1, min(most // _FEW_PARTS, max(_OF_MANY_PARTS, most * _FEW_PARTS // count)))


async def _block(gdb: GdbSession, operation: Evaluate, pid: int, expression: str) -> Record:
    reading = ReadBlock(expression=expression, limit_bytes=max(1, operation.limit_bytes))
    return await read_block(gdb, reading, pid)


async def _text(gdb: GdbSession, operation: Evaluate, history: str, most: int) -> str | None:
    """Return the text of a value in GDB's history with *most* elements of each part.

    GDB's other limits do not hold. Return None if the value has no text.
    """
    settings = (
        f"max-value-size {_MOST_SHOWN_BYTES}",
        f"print elements {most}",
        "print repeats 10",
        "print max-depth -1",
        "print union on",
        "print null-stop off",
    )
    word = f"output/{operation.format}" if operation.format else "output"
    lifted = "".join(f"with {each} -- " for each in settings)
    result = await gdb.send(console(f"{lifted}{word} {history}"))
    if result.kind != "done":
        queries.failure(result)  # raises if the rank runs
        return None
    return result.text.rstrip("\n")
