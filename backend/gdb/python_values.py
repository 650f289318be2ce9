"""Values of Python in one rank: ``py:EXPR`` as text, as numbers, and inside other expressions."""

from __future__ import annotations

import asyncio
import struct

from msgspec.structs import replace

from pgdb.backend.gdb import full_values
from pgdb.backend.gdb.process_memory import read_memory
from pgdb.backend.gdb.python_commands import PythonCommands
from pgdb.backend.gdb.python_parts import PATH, PREFIX, PYTHON_PART
from pgdb.backend.gdb.session import GdbSession
from pgdb.backend.python import array_text, scopes, values
from pgdb.backend.python.arrays import ArrayPlace
from pgdb.backend.python.ctypes_values import Field
from pgdb.backend.python.objects import UnknownError
from pgdb.backend.python.reader import Local, PythonFrame
from pgdb.backend.python.scopes import Scope
from pgdb.backend.python.values import Interpreter
from pgdb.errors import CommandError, UsageError
from pgdb.overlay.messages import Evaluate, ListVariables, ReadBlock, Reduce
from pgdb.patterns import pattern
from pgdb.print_options import split_print
from pgdb.printed_parts import unread_part
from pgdb.records import (
    PYTHON,
    Block,
    Failure,
    Record,
    Value,
    Variable,
    Variables,
    parse_number,
)

_WHOLE = pattern(rf"py:{PATH}\s*\Z")
_LAYOUT = pattern(r"(?P<array>.+)\.(?P<name>shape|ndim|dtype)(?:\[\s*(?P<index>-?\d+)\s*\])?\s*\Z")
_SHOWN = 200
_OF_C_TOO = ("(", "{")
"""Beginnings of values whose text alone does not say that they are of Python."""
_MOST_SHOWN_BYTES = 1 << 20
"""Largest part of memory that is read to show an array that has gaps."""
_MOST_VARIABLES = 256


class PythonValues:
    """Reader of values of Python with one GDB."""

    def __init__(self, gdb: GdbSession, commands: PythonCommands) -> None:
        self._gdb = gdb
        self._commands = commands

    async def evaluate(self, pid: int, operation: Evaluate) -> Record:
        """Return the value of an expression with ``py:EXPR`` in it, or alone."""
        expression = split_print(operation.expression).expression
        try:
            if _WHOLE.match(expression) and not operation.format:
                return await self._value(pid, expression.strip().removeprefix(PREFIX), operation)
            if expression.startswith(PREFIX):
                # An error of the whole is clearer than one of GDB's.
                _check(expression.removeprefix(PREFIX))
            plain = await self._with_numbers(pid, operation.expression)
        except CommandError as error:
            return Failure(message=str(error))
        except UsageError as error:
            return Failure(message=str(error))
        return await full_values.evaluate(self._gdb, replace(operation, expression=plain), pid)

    async def block(self, pid: int, operation: ReadBlock) -> Block | Failure:
        """Return the numbers of ``py:EXPR``."""
        expression = operation.expression
        try:
            if not _WHOLE.match(expression):
                raise UsageError(f"{expression}: py:EXPR must stand alone where numbers are read")
            found = await self._numbers(pid, expression.strip().removeprefix(PREFIX))
            if isinstance(found, Block):
                return _cut(found, operation)
            return await self._array(pid, found, operation)
        except (CommandError, UsageError) as error:
            return Failure(message=str(error))

    async def numbers(self, pid: int, operation: Reduce) -> Record:
        """Return ``py:EXPR`` as one number, else as an array."""
        limit = operation.limit_bytes
        block = await self.block(pid, ReadBlock(expression=operation.expression, limit_bytes=limit))
        if isinstance(block, Block) and not block.shape:
            (text,) = _texts(block)
            return Value(text=text)
        return block

    async def variables(self, pid: int, operation: ListVariables) -> Record:
        """List the local variables of the selected Python frame."""
        frame = await self._commands.selected(pid)
        if isinstance(frame, Failure):
            return frame
        is_of_process = self._commands.python.is_of_process
        interpreter = await self._interpreter(pid) if is_of_process else None
        known = list(frame.locals or ())
        if interpreter is not None and (scope := await self._scope(pid, interpreter, frame)):
            known = scopes.all_locals(frame, scope)
        if operation.which == "arguments":
            known = [each for each in known if each.arg]
        items = []
        for each in known[:_MOST_VARIABLES]:
            items.append(await self._variable(pid, each, interpreter, operation))
        empty = "No locals." if frame.name != "<module>" else "No locals: these are globals."
        if operation.which == "arguments":
            empty = "No arguments."
        return Variables(items=tuple(items), empty=empty)

    async def has(self, pid: int, frame: PythonFrame, name: str) -> bool:
        """Return whether a frame has a local variable, its own or one of an enclosing function."""
        known = list(frame.locals or ())
        if (interpreter := await self._interpreter(pid)) is not None:
            if (scope := await self._scope(pid, interpreter, frame)) is not None:
                known = scopes.all_locals(frame, scope)
        return any(each.name == name for each in known)

    async def _variable(
        self, pid: int, local: Local, interpreter: Interpreter | None, operation: ListVariables
    ) -> Variable:
        item = Variable(local.name, local.repr or "<unknown>", is_argument=local.arg)
        if interpreter is None or not local.addr:
            return item
        asked = Evaluate(
            expression=local.name,
            most_elements=operation.most_elements,
            limit_bytes=operation.limit_bytes,
        )
        try:
            found = await asyncio.to_thread(interpreter.at, local.addr)
            value = await self._shown(pid, interpreter, found, asked)
        except CommandError:
            return item
        return replace(
            item,
            value=value.text,
            bounds=value.bounds,
            whole=value.whole,
            looked_at=value.looked_at,
        )

    # -- inside ------------------------------------------------------------------------------

    async def _interpreter(self, pid: int) -> Interpreter | None:
        return await asyncio.to_thread(self._new_interpreter, pid)

    def _new_interpreter(self, pid: int) -> Interpreter | None:
        try:
            return self._commands.python.interpreter_of(pid)
        except CommandError:
            return None

    async def _resolved(self, pid: int, text: str) -> tuple[Interpreter, int | ArrayPlace | Field]:
        path = values.parse(text)
        frame = await self._commands.selected(pid)
        if isinstance(frame, Failure):
            raise CommandError(frame.message)
        if not self._commands.python.is_of_process:
            raise CommandError(
                "objects of Python are not read from core files; py-locals shows the variables"
            )
        interpreter = await self._interpreter(pid)
        if interpreter is None:
            raise CommandError("the objects of this interpreter are not known")
        scope = await self._scope(pid, interpreter, frame, path.variable)
        return interpreter, await asyncio.to_thread(interpreter.resolve, path, frame, scope)

    async def _scope(
        self, pid: int, interpreter: Interpreter, frame: PythonFrame, variable: str = ""
    ) -> Scope | None:
        """Return the variables that a frame sees, None if its plain variables and globals count.

        :param variable: the variable that is wanted.
        :raises UnknownError: if *variable* may be one of an enclosing function, which is unknown.
        """
        threads = (await self._commands.python.reading(pid)).threads
        thread = next((one for one in threads if any(each is frame for each in one.frames)), None)
        if thread is None:
            return None  # a frame of a traceback, whose report has all variables
        try:
            return await asyncio.to_thread(interpreter.scope, thread, frame)
        except UnknownError as error:
            is_plain = any(each.name == variable and each.addr for each in frame.locals or ())
            if not variable or is_plain or frame.name == "<module>":
                return None
            raise UnknownError(
                f"{variable!r} is no plain local variable of {frame.name}, and others are not "
                f"known: {error}"
            ) from None

    async def _value(self, pid: int, text: str, operation: Evaluate) -> Value:
        try:
            interpreter, found = await self._resolved(pid, text)
        except UnknownError:
            if (known := await self._layout(pid, text)) is None:
                raise
            return Value(text=known)
        return await self._shown(pid, interpreter, found, operation)

    async def _layout(self, pid: int, text: str) -> str | None:
        """Return the shape or the element type of an array, if *text* names one.

        They are computed attributes in Python, so that they are not in memory by their names.
        """
        match = _LAYOUT.match(text)
        if match is None:
            return None
        _, place = await self._resolved(pid, match["array"])
        if not isinstance(place, ArrayPlace):
            return None
        return values.layout_text(place, match["name"], match["index"] or "")

    async def _shown(
        self,
        pid: int,
        interpreter: Interpreter,
        found: int | ArrayPlace | Field,
        operation: Evaluate,
    ) -> Value:
        """Return the value of an object, and the whole of one that is shown in part."""
        if isinstance(found, Field):
            of_c = await asyncio.to_thread(interpreter.shown_of_c, found, _SHOWN)
            return Value(text=of_c.text, looked_at=-1 if of_c.is_cut else 0)
        if isinstance(found, int):
            address = found
            most = operation.most_elements
            shown = await asyncio.to_thread(interpreter.shown_in_part, address, _SHOWN)
            bounds = PYTHON if shown.text.startswith(_OF_C_TOO) else ""
            if not most or not shown.is_cut:
                return Value(text=shown.text, bounds=bounds)
            if (
                numbers := await self._list_of_numbers(interpreter, address, operation)
            ) is not None:
                return Value(text=shown.text, bounds=bounds, whole=numbers)
            whole = await asyncio.to_thread(
                interpreter.shown_in_part, address, max(most, _SHOWN), is_whole=True
            )
            # A kind of elements that cannot be read is left out however many are asked for.
            far = -1 if whole.text == shown.text else most
            looked_at = far if whole.is_cut else 0
            if unread_part(whole.text):
                # Nobody knows whether two such objects are equal.
                looked_at = -1
            return Value(text=shown.text, bounds=bounds, whole=whole.text, looked_at=looked_at)
        place = found
        if place.structure:
            most = max(operation.most_elements, _SHOWN)
            of_structures = interpreter.of_structures
            part = await asyncio.to_thread(of_structures, place, _SHOWN)
            if not operation.most_elements or not part.is_cut:
                return Value(text=part.text)
            whole = await asyncio.to_thread(of_structures, place, most)
            return Value(text=part.text, whole=whole.text, looked_at=most * whole.is_cut)
        if place.count <= _SHOWN or not operation.most_elements:
            dtype, data = await self._elements(pid, place, 0, _SHOWN)
            return Value(text=array_text.text_of_numbers(place, dtype, data))
        if place.count * place.item_bytes > max(1, operation.limit_bytes):
            dtype, data = await self._elements(pid, place, 0, _SHOWN)
            return Value(text=array_text.text_of_numbers(place, dtype, data), looked_at=-1)
        dtype, data = await self._elements(pid, place, 0, place.count)
        block = Block(dtype=dtype, shape=place.shape, data=data)
        return Value(text=array_text.text_of_numbers(place, dtype, data), whole=block)

    async def _list_of_numbers(
        self, interpreter: Interpreter, address: int, operation: Evaluate
    ) -> Block | None:
        """Return the numbers of a long list or tuple, None for another object."""
        objects = interpreter.objects
        if objects.type_name(address) not in ("list", "tuple"):
            return None
        if 8 * objects.word(address + 16) > operation.limit_bytes:
            return None
        try:
            block = await asyncio.to_thread(_block_of, interpreter, address, "")
        except CommandError:
            return None
        return block if len(block.shape) == 1 else None

    async def _with_numbers(self, pid: int, expression: str) -> str:
        """Return an expression of GDB's with numbers in the place of Python's."""
        parts = []
        end = 0
        for match in PYTHON_PART.finditer(expression):
            if not match[1]:
                raise UsageError(f"{expression}: a variable is missing behind 'py:'")
            if expression[match.end() :].lstrip()[:1] in ("(", "["):
                _check(expression[match.start() :].removeprefix(PREFIX))
                raise UsageError(f"{match[0]} cannot be called or indexed there")
            value = await self._value(pid, match[1], Evaluate(expression=match[1]))
            number = values.parsed_number(value.text)
            if number is None:
                raise CommandError(f"{match[0]} is no number: {value.text[:60]}")
            parts += [expression[end : match.start()], f"({number})"]
            end = match.end()
        return "".join((*parts, expression[end:]))

    async def _numbers(self, pid: int, text: str) -> ArrayPlace | Block:
        interpreter, found = await self._resolved(pid, text)
        place = found
        if isinstance(found, int):
            place = await asyncio.to_thread(interpreter.structures, found) or found
        if isinstance(place, ArrayPlace):
            if place.structure:
                raise CommandError(
                    f"py:{text} has no numbers: its elements are structures; py:{text}['FIELD'] "
                    "names a field of all"
                )
            return place
        if isinstance(found, Field):
            raise CommandError(f"py:{text} has no numbers")
        assert isinstance(found, int), "no array"
        return await asyncio.to_thread(_block_of, interpreter, found, text)

    async def _array(self, pid: int, place: ArrayPlace, operation: ReadBlock) -> Block:
        start = min(operation.start, place.count)
        count = min(operation.count or place.count, place.count - start)
        dtype, data = await self._elements(
            pid, place, start, count, limit_bytes=operation.limit_bytes, name=operation.expression
        )
        return Block(dtype=dtype, shape=place.shape, data=data, start=start)

    async def _elements(
        self,
        pid: int,
        place: ArrayPlace,
        start: int,
        count: int,
        *,
        limit_bytes: int = 0,
        name: str = "",
    ) -> tuple[str, bytes]:
        """Return type and bytes of elements in the order of C."""
        count = min(count, place.count - start)
        if limit_bytes and count * place.item_bytes > limit_bytes:
            raise CommandError(
                f"{name} takes {count * place.item_bytes} bytes, and array-limit is {limit_bytes}; "
                "'set array-limit BYTES' raises it"
            )
        if place.is_contiguous:
            at = place.address + start * place.item_bytes
            data = await read_memory(self._gdb, pid, at, count * place.item_bytes) if count else b""
            flat = replace(place, shape=(count,), strides=(place.item_bytes,))
            return await asyncio.to_thread(values.elements, flat, data, 0)
        low, high = place.extent
        if high - low > max(limit_bytes, _MOST_SHOWN_BYTES):
            raise CommandError(
                f"{name or place.kind} spans {high - low} bytes of memory with gaps; 'set "
                "array-limit BYTES' raises the limit"
            )
        data = await read_memory(self._gdb, pid, place.address + low, high - low)
        dtype, whole = await asyncio.to_thread(values.elements, place, data, low)
        item_bytes = int(dtype[2:])
        return dtype, whole[start * item_bytes : (start + count) * item_bytes]


def _check(text: str) -> None:
    """Refuse a call, which is the most common expression that has no value here.

    :raises UsageError: if the expression is one.
    """
    if "(" in text and _CALL.match(text):
        values.parse(text)


_CALL = pattern(rf"{PATH}\s*\(")


def _block_of(interpreter: Interpreter, address: int, text: str) -> Block:
    """Return a number, or a list or tuple of numbers, as a block.

    :raises CommandError: if it is none.
    """
    objects = interpreter.objects
    is_list = objects.is_a(address, "list") or objects.is_a(address, "tuple")
    addresses = objects.elements(address) if is_list else (address,)
    found: list[int | float] = []
    for each in addresses:
        match objects.type_name(each):
            case "int":
                number: int | float | None = objects.integer(each)
            case "float":
                number = objects.number(each)
            case _:
                number = parse_number(values.parsed_number(interpreter.shown(each, 1)) or "")
        if number is None:
            what = f"{interpreter.shown(address, 3)[:60]}"
            raise CommandError(f"py:{text} is no number and no array of numbers: {what}")
        found.append(number)
    is_whole = all(isinstance(each, int) and -(2**63) <= each < 2**63 for each in found)
    data = struct.pack(f"<{len(found)}{'q' if is_whole else 'd'}", *found)
    return Block("<i8" if is_whole else "<f8", (len(found),) if is_list else (), data)


def _cut(block: Block, operation: ReadBlock) -> Block:
    size = len(block.data) // 8
    start = min(operation.start, size)
    count = min(operation.count or size, size - start)
    return replace(block, data=block.data[8 * start : 8 * (start + count)], start=start)


def _texts(block: Block) -> list[str]:
    import numpy  # takes 0.1 s and 20 MB, and most sessions read no array

    return [
        str(int(each)) if isinstance(each, bool) else repr(each)
        for each in numpy.frombuffer(block.data, block.dtype).tolist()
    ]
