"""Numbers of one rank read from memory: GDB gives the addresses, the kernel the bytes.

GDB's text would take some 25 bytes for a number and be parsed at a few MB/s; memory is read at
some GB/s. Nothing here changes the rank or GDB's history of values.
"""

from __future__ import annotations

import math
import sys
from typing import Literal

import msgspec
from msgspec.structs import replace

from pgdb.backend.gdb import container_numbers, python_calls, quadruple, unset_bounds
from pgdb.backend.gdb.fortran_elements import is_component_of_all, with_elements
from pgdb.backend.gdb.mi import console, quote
from pgdb.backend.gdb.number_types import NumberType, about_quadruple, parse_type
from pgdb.backend.gdb.process_memory import read_memory
from pgdb.backend.gdb.queries import failure
from pgdb.backend.gdb.session import GdbSession
from pgdb.errors import CommandError
from pgdb.overlay.messages import ReadBlock
from pgdb.patterns import pattern
from pgdb.records import Block, Failure

# GDB refuses values of more than 65536 bytes, and for a Fortran array even its address. This is the
# largest setting; with "unlimited" a typing error would end GDB, which does not survive a failed
# allocation.
_LARGEST_VALUE_BYTES = 2**31 - 1
_ADDRESS = pattern(r"0x[0-9a-f]+")
_SIZES = {"b": (1,), "i": (1, 2, 4, 8), "u": (1, 2, 4, 8), "f": (2, 4, 8, 12, 16), "c": (8, 16, 32)}
_SIZES.update(dict.fromkeys(quadruple.LETTERS, (quadruple.ITEM_BYTES,)))
_COMPLEX = pattern(r"\(?\s*(?P<real>[^\s,()]+)\s*(?:\+|,)\s*(?P<imaginary>[^\s,()i]+|inf)")


class _Numbers(msgspec.Struct, frozen=True):
    """Location and layout of numbers."""

    kind: str
    shape: tuple[int, ...]
    order: Literal["C", "F"] = "C"
    address: int = 0
    strides_bytes: tuple[int, ...] = ()
    """Distance of neighbours along each dimension, if there are gaps between elements."""
    value: bytes | None = None
    """The number, if it is not in memory."""
    places: container_numbers.Places | None = None
    """The places of the numbers of a container."""
    lower: tuple[int, ...] = ()
    """Lower bound of each index, in Fortran."""

    @property
    def item_bytes(self) -> int:
        """Size of an element, in bytes."""
        return int(self.kind[2:])

    @property
    def count(self) -> int:
        """Number of elements."""
        return math.prod(self.shape)


async def read_block(
    gdb: GdbSession, operation: ReadBlock, pid: int, *, is_summed_up: bool = False
) -> Block | Failure:
    """Read the numbers of *operation* from the stopped rank of process *pid*.

    An expression that is no number or array of numbers gives a Failure with the expression to write
    instead.

    :param is_summed_up: whether neither positions nor the last digits of the numbers are needed.
    :raises NeedsStopError: if the rank runs.
    """
    try:
        try:
            found = await _locate(gdb, operation.expression, is_summed_up)
        except CommandError as error:
            if "max-value-size" not in str(error):
                raise
            found = await _locate_large(gdb, operation.expression, is_summed_up)
        start = min(operation.start, found.count)
        count = min(operation.count or found.count, found.count - start)
        _check_size(operation, found, count)
        data = await _read(gdb, pid, found, start, count)
        kind = found.kind
        is_rounded = False
        if (letter := kind[1]) in quadruple.LETTERS:
            if not is_summed_up:
                raise CommandError(about_quadruple("numbers of 128 bits", operation.expression))
            kind, data, is_rounded = quadruple.rounded(data, letter)
    except CommandError as error:
        return Failure(message=str(error))
    return Block(
        dtype=kind,
        shape=found.shape,
        data=data,
        start=start,
        order=found.order,
        lower=found.lower if len(found.lower) == len(found.shape) else (),
        is_rounded=is_rounded,
    )


def _check_size(operation: ReadBlock, found: _Numbers, count: int) -> None:
    size_bytes = count * found.item_bytes
    if size_bytes >= unset_bounds.LARGEST_BYTES:
        raise CommandError(unset_bounds.about(operation.expression))
    if size_bytes > operation.limit_bytes:
        raise CommandError(
            f"{operation.expression} takes {size_bytes} bytes, and array-limit is "
            f"{operation.limit_bytes}; 'set array-limit BYTES' raises it, and ELEMENT@COUNT "
            "reads a part"
        )


# -- where the numbers are ---------------------------------------------------------------------


async def _locate_large(gdb: GdbSession, expression: str, is_summed_up: bool) -> _Numbers:
    shown = await gdb.send("-gdb-show max-value-size")
    before = str(shown.payload.get("value", "65536"))
    gdb.send(f"-gdb-set max-value-size {_LARGEST_VALUE_BYTES}")
    try:
        return await _locate(gdb, expression, is_summed_up)
    finally:
        gdb.send(f"-gdb-set max-value-size {before}")


async def _locate(gdb: GdbSession, expression: str, is_summed_up: bool) -> _Numbers:
    if is_component_of_all(expression):
        return await _locate_components(gdb, expression)
    base, repeats = split_repeats(expression)
    # For the address of ELEMENT@COUNT GDB would allocate all of it, so only ELEMENT is evaluated.
    name = await _type_name(gdb, base)
    if container_numbers.is_container(name) and not repeats:
        is_positional = not is_summed_up
        places = await container_numbers.locate(gdb, base, is_positional=is_positional)
        return _of_container(base, places)
    counts = [await _integer(gdb, repeat) for repeat in repeats]
    for repeat, count in zip(repeats, counts, strict=True):
        if count < 0:
            raise CommandError(f"{expression}: {repeat} is {count}, which is no number of elements")
    found = await _locate_base(gdb, base, parse_type(name, base), is_repeated=bool(repeats))
    if not repeats:
        return found
    if found.strides_bytes:
        raise CommandError(f"{base} has gaps in memory, so that it cannot be repeated with @")
    if found.order == "F":
        return replace(found, shape=(*found.shape, *reversed(counts)))
    return replace(found, shape=(*counts, *found.shape))


def _of_container(base: str, places: container_numbers.Places) -> _Numbers:
    kind, shape = places.dtype, places.shape
    if places.count * places.size_bytes >= unset_bounds.LARGEST_BYTES:
        what = f"{base} would have {places.count} elements"
        raise CommandError(f"{what}: it is not constructed, or is damaged")
    if places.bits is None and len(places.pieces) == 1:
        return _Numbers(kind=kind, shape=shape, address=places.pieces[0][0])
    return _Numbers(kind=kind, shape=shape, places=places)


async def _locate_base(
    gdb: GdbSession, base: str, of: NumberType, *, is_repeated: bool
) -> _Numbers:
    elements = math.prod(of.shape)
    if of.is_fortran and of.shape and elements:
        return await _locate_fortran(gdb, base, of)
    if of.is_fortran and of.shape:
        if max(map(abs, of.extents)) > unset_bounds.LARGEST:
            shape = f"({', '.join(map(str, of.extents))})"
            raise CommandError(unset_bounds.about(base, shape))
        kind = _kind(of.letter, of.item_bytes, base)
        return _Numbers(kind=kind, shape=of.shape, order=of.order, lower=of.lower)
    if elements:
        item_bytes = await _integer(gdb, f"sizeof({base})") // elements
    else:
        item_bytes = await _integer(gdb, f"sizeof(({base}){'[0]' * len(of.shape)})")
    kind = _kind(of.letter, item_bytes, base)
    place = await gdb.send(f"-data-evaluate-expression {quote(f'&({base})')}")
    address = _ADDRESS.search(str(place.payload.get("value", "")))
    if place.kind == "error":
        failure(place)  # raises if the rank runs
    # The address of a bit field is that of the integer that contains it, so a single integer is
    # always printed, like any value that is not in memory, if GDB can print it.
    is_printed = not of.shape and not is_repeated and of.letter in "biu" and not of.is_fortran
    if address is None or is_printed:
        if of.shape or is_repeated:
            raise CommandError(f"{base}: {failure(place).message}")
        return _Numbers(kind=kind, shape=(), value=await _printed(gdb, base, kind))
    return _Numbers(kind=kind, shape=of.shape, order=of.order, address=int(address[0], 16))


async def _locate_fortran(gdb: GdbSession, base: str, of: NumberType) -> _Numbers:
    """Locate a Fortran array by its elements: a section of another array can have gaps."""
    first = ",".join(map(str, of.lower))
    address = await _integer(gdb, f"&(({base})({first}))")
    item_bytes = await _integer(gdb, f"sizeof(({base})({first}))")
    strides = []
    expected = item_bytes
    has_gaps = False
    for dimension, extent in enumerate(of.shape):
        stride = expected
        if extent > 1:
            index = [low + (each == dimension) for each, low in enumerate(of.lower)]
            neighbour = await _integer(gdb, f"&(({base})({','.join(map(str, index))}))")
            stride = _wrapped(neighbour - address)
        has_gaps = has_gaps or stride != expected
        strides.append(stride)
        expected *= extent
    kind = _kind(of.letter, item_bytes, base)
    found = _Numbers(kind=kind, shape=of.shape, order=of.order, address=address, lower=of.lower)
    if not has_gaps:
        return found
    if any(abs(each) > 2**40 for each in strides):
        raise CommandError(f"{base} has elements that are terabytes apart; 'print' shows it")
    return replace(found, strides_bytes=tuple(strides))


async def _locate_components(gdb: GdbSession, expression: str) -> _Numbers:
    """Locate one component of all elements of a Fortran array."""
    found = await python_calls.ask(
        gdb, "fortran_parts_in_gdb.locate", expression, needed_for="finds components"
    )
    if isinstance(found, Failure):
        raise CommandError(found.message)
    of = parse_type(found["type"], "the component")
    return _Numbers(
        kind=_kind(of.letter, found["item_bytes"], "the component"),
        shape=tuple(found["shape"]),
        order="F",
        address=found["address"],
        strides_bytes=tuple(found["strides"]),
        lower=tuple(found["lower"]),
    )


def _wrapped(distance_bytes: int) -> int:
    """Return the distance of neighbours in memory from that of the addresses that GDB computes.

    GDB (13.1 and 18.1) takes a stride in bits for unsigned where a section runs backwards.
    """
    return (distance_bytes + (1 << 60)) % (1 << 61) - (1 << 60)


async def _type_name(gdb: GdbSession, base: str) -> str:
    # GDB 13.1 with -i=mi3 dies of a segmentation fault at ptype of a C union in a Fortran frame,
    # and any name can be one: libm has a "b". Fortran's types need no ptype.
    language = await gdb.send(console("show language"))
    command = f"ptype/rmt {base}"
    if "fortran" in language.text:
        command = await with_elements(gdb, f"whatis {base}", is_command=True)
    result = await gdb.send(console(command))
    if result.kind != "done":
        raise CommandError(failure(result).message)
    # GDB warns behind the type if the user has set another language than that of the frame.
    return result.answer.rpartition("type = ")[2].strip()


async def _integer(gdb: GdbSession, expression: str) -> int:
    """Return the value of an expression that is an integer or an address."""
    result = await gdb.send(f"-data-evaluate-expression {quote(expression)}")
    if result.kind != "done":
        raise CommandError(failure(result).message)
    text = str(result.payload.get("value", ""))
    found = _ADDRESS.search(text)
    try:
        return int(found[0] if found else text, 0)
    except ValueError:
        raise CommandError(f"{expression} is {text or 'nothing'}, which is no integer") from None


def split_repeats(expression: str) -> tuple[str, tuple[str, ...]]:
    """Split ``ELEMENT@COUNT`` into the element and its counts, the outermost dimension first.

    >>> split_repeats("*p@n"), split_repeats("f(x@2)"), split_repeats("a@2@3"), split_repeats("a")
    (('*p', ('n',)), ('f(x@2)', ()), ('a', ('3', '2')), ('a', ()))
    """
    depth, quoted = 0, ""
    parts = [""]
    for letter in expression:
        if quoted:
            quoted = "" if letter == quoted else quoted
        elif letter in "'\"":
            quoted = letter
        elif letter in "([{":
            depth += 1
        elif letter in ")]}":
            depth -= 1
        elif letter == "@" and not depth:
            parts.append("")
            continue
        parts[-1] += letter
    base, *counts = (part.strip() for part in parts)
    if "entry" in counts or not all((base, *counts)):  # x@entry is the value at entry
        return expression.strip(), ()
    return base, tuple(reversed(counts))


def _kind(letter: str, size_bytes: int, base: str) -> str:
    if letter == "b" and size_bytes != 1:
        letter = "u"
    if size_bytes not in _SIZES[letter]:
        raise CommandError(f"{base}: a number of {size_bytes} bytes; 'print' shows it")
    order = "|" if size_bytes == 1 else "<" if sys.byteorder == "little" else ">"
    return f"{order}{letter}{size_bytes}"


# -- the numbers themselves --------------------------------------------------------------------


async def _printed(gdb: GdbSession, base: str, kind: str) -> bytes:
    """Return a number that GDB prints as its bytes in memory."""
    # With "0+" GDB prints enumerators, characters and truth values as numbers.
    is_integer = kind[1] in "biu"
    asked = f"0+({base})" if is_integer else base
    result = await gdb.send(f"-data-evaluate-expression {quote(asked)}")
    if result.kind != "done":
        raise CommandError(failure(result).message)
    text = str(result.payload.get("value", ""))
    if "optimized out" in text:
        raise CommandError(f"{base} is optimized out here; build with -O0 or -Og to see it")
    size_bytes = int(kind[2:])
    try:
        if is_integer:
            number = int(text, 0) & (1 << 8 * size_bytes) - 1
            return number.to_bytes(size_bytes, "little" if sys.byteorder == "little" else "big")
        return _float_bytes(text, kind)
    except ValueError:
        raise CommandError(f"{base} is {text or 'nothing'}, which is no number") from None


def _float_bytes(text: str, kind: str) -> bytes:
    import numpy  # only for the few numbers that are not in memory

    kind_of_part = numpy.empty(0, kind).real.dtype.type
    if kind[1] == "f":
        return bytes(kind_of_part(text).tobytes())
    parts = _COMPLEX.match(text)
    if parts is None:
        raise ValueError(text)
    pair = numpy.array([kind_of_part(parts["real"]), kind_of_part(parts["imaginary"])])
    return pair.tobytes()


async def _read(gdb: GdbSession, pid: int, found: _Numbers, start: int, count: int) -> bytes:
    if not count:
        return b""
    if found.value is not None:
        return found.value
    if found.places is not None:
        return await container_numbers.read(gdb, pid, found.places, start, count)
    size = found.item_bytes
    if found.strides_bytes:
        return await _read_with_gaps(gdb, pid, found, start, count)
    return await read_memory(gdb, pid, found.address + start * size, count * size)


async def _read_with_gaps(
    gdb: GdbSession, pid: int, found: _Numbers, start: int, count: int
) -> bytes:
    import numpy  # to step over the gaps

    strides = found.strides_bytes
    spans = [(n - 1) * step for n, step in zip(found.shape, strides, strict=True)]
    # The address is the lowest one, also of a section that runs backwards.
    span = sum(map(abs, spans))
    data = await read_memory(gdb, pid, found.address, span + found.item_bytes)
    first = -sum(each for each in spans if each < 0)
    whole = numpy.ndarray(found.shape, found.kind, data, offset=first, strides=strides)
    return whole.flatten(order=found.order)[start : start + count].tobytes()
