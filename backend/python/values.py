"""Expressions of Python: a variable, and the attributes and elements behind it."""

from __future__ import annotations

import ast
import math
import platform
from collections.abc import Iterator, Sequence

import msgspec

from pgdb.backend.python import (
    array_text,
    arrays,
    arrow_text,
    ctypes_values,
    numpy_elements,
    object_text,
    runtime,
    scopes,
    suspended,
    table_text,
    tables,
)
from pgdb.backend.python.arrays import ArrayPlace, NoNumbersError
from pgdb.backend.python.object_text import Shown
from pgdb.backend.python.objects import Key, Objects, UnknownError, modules
from pgdb.backend.python.reader import PythonFrame, PythonThread
from pgdb.backend.python.runtime import Memory
from pgdb.backend.python.scopes import Scope
from pgdb.backend.python.tasks import Task, tasks_of
from pgdb.errors import UsageError
from pgdb.patterns import pattern

_MODULES = {8: 56, 9: 856, 10: 856, 11: 888, 12: 944}
"""Offset of ``sys.modules`` in the state of an interpreter (x86-64)."""
_MINOR = pattern(r"/(?:lib)?python3\.(\d{1,2})(?:[dm]?(?:\.so[\d.]*)?\Z|/lib-dynload/)")
_MOST_BYTES_INSIDE = 1 << 20
"""Largest part of memory that is read to show an array with gaps that is in another object."""

Step = tuple[str, Key]
"""``("attribute", name)``, ``("element", key)`` with a tuple of several indices, as in Python, or
``("variable", name)`` for one of a generator."""


class Path(msgspec.Struct, frozen=True):
    """A variable and the way from it to a value."""

    variable: str
    steps: tuple[Step, ...] = ()


def parse(text: str) -> Path:
    """Parse an expression.

    >>> parse("model.layers[0]['w'].bias").steps
    (('attribute', 'layers'), ('element', 0), ('element', 'w'), ('attribute', 'bias'))
    >>> parse("grid[1, -2]").steps
    (('element', (1, -2)),)
    >>> parse("rows.gi_frame.f_locals['n']").steps
    (('variable', 'n'),)

    :raises UsageError: if it is anything else than a variable with attributes and elements.
    """
    steps: list[Step] = []
    try:
        node: ast.expr = ast.parse(text.strip(), mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        raise UsageError(_no_path(text)) from None
    while not isinstance(node, ast.Name):
        match node:
            case ast.Attribute(value=value, attr=name):
                steps.append(("attribute", name))
            case ast.Subscript(value=value, slice=key):
                steps.append(("element", _key(key, text)))
            case _:
                raise UsageError(_no_path(text))
        node = value
    return Path(node.id, tuple(_with_variables(steps[::-1])))


def _with_variables(steps: Sequence[Step]) -> Iterator[Step]:
    """Yield steps, those to the variables of a generator's frame as one."""
    at = 0
    while at < len(steps):
        match steps[at : at + 3]:
            case [("attribute", frame), ("attribute", "f_locals"), ("element", str() as name)] if (
                frame in suspended.FRAMES
            ):
                yield "variable", name
                at += 3
            case [step, *_]:
                yield step
                at += 1


def _key(node: ast.expr, text: str) -> Key:
    match node:
        case ast.Constant(value=str() | int() | float() | bytes() | None as value):
            return value
        case ast.UnaryOp(op=ast.USub(), operand=ast.Constant(value=int() | float() as value)):
            return -value
        case ast.Tuple(elts=keys) if keys:
            return tuple(_key(key, text) for key in keys)
        case ast.Slice(lower=lower, upper=upper, step=step):
            ends = [None if each is None else _key(each, text) for each in (lower, upper, step)]
            if not all(each is None or isinstance(each, int) for each in ends) or ends[2] == 0:
                raise UsageError(f"{text}: a slice has whole numbers, and a step other than 0")
            return slice(*ends)
        case _:
            raise UsageError(_no_path(text))


def _no_path(text: str) -> str:
    return (
        f"{text!r} is no variable with '.attribute', '[index]' or \"['key']\" behind it; PGDB "
        "reads values in memory and executes no code of the program"
    )


class Interpreter:
    """Values of one process at one stop."""

    def __init__(self, memory: Memory, runtime_at: int, minor: int) -> None:
        self.objects = Objects(memory, minor)
        self.memory = memory
        self.runtime_at = runtime_at
        self._minor = minor

    def resolve(
        self, path: Path, frame: PythonFrame, scope: Scope | None = None
    ) -> int | ArrayPlace | ctypes_values.Field:
        """Return the address of the value of an expression in a frame, or the place of numbers or
        of a value of C in an object of ctypes.

        :param scope: the variables that the frame sees; without it, its plain local variables and
            the globals of its module count.
        :raises CommandError: if there is none.
        """
        objects = self.objects
        address = self._variable(path.variable, frame, scope)
        place: ArrayPlace | None = None
        of_c: ctypes_values.Field | None = None
        for kind, key in path.steps:
            of_c = of_c or (ctypes_values.whole(objects, address) if place is None else None)
            if of_c is not None and place is None:
                inner = ctypes_values.step(objects, of_c, kind, key)
                of_c = inner or of_c
                place = ctypes_values.numbers(objects, of_c)
                if inner is not None:
                    continue
            if place is not None and kind == "attribute" and not place.structure:
                raise UnknownError(f"a part of an array has no attribute {key!r}")
            if place is not None:
                place = self._element(place, key)
            elif kind == "variable":
                address = suspended.variable(objects, address, str(key))
            elif not isinstance(key, tuple) and (column := self._of_table(address, kind, key)):
                if isinstance(column, int):
                    address = column
                else:
                    place = column
            elif (structures := self._structures(address, kind, key)) is not None:
                place = self._element(structures, key)
            elif kind == "attribute":
                address = objects.attribute(address, str(key))
            elif (array := arrays.find(objects, address)) is not None:
                place = self._element(array, key)
            elif (of_arrow := arrow_text.step(objects, address, key)) is not None:
                place = of_arrow
            else:
                address = objects.element(address, key)
        if place is None and of_c is not None:
            return of_c
        if place is None:
            place = self._numbers(address)
        return address if place is None else place

    def structures(self, address: int) -> ArrayPlace | None:
        """Return the place of the structures of an array, None for another object."""
        try:
            return numpy_elements.structures(self.objects, address)
        except UnknownError:
            return None

    def _structures(self, address: int, kind: str, key: Key) -> ArrayPlace | None:
        """Return the place of the structures of an array of which a step takes a part, None for
        another step; fields are attributes in a record array."""
        if kind != "attribute":
            return self.structures(address)
        if not {"recarray", "record"} & {*self.objects.bases(address)}:
            return None
        found = self.structures(address)
        try:
            if found is not None:
                numpy_elements.field(self.objects, found, str(key))
        except UnknownError:
            return None
        return found

    def _element(self, place: ArrayPlace, key: Key) -> ArrayPlace:
        """Return the part of an array with an index, with several, or with the name of a field.

        A single structure has its fields by their numbers, too.
        """
        if place.structure and (isinstance(key, str) or not place.shape):
            return numpy_elements.field(self.objects, place, key)
        return _part(place, key)

    def of_structures(self, place: ArrayPlace, most: int) -> Shown:
        """Return the text of the first structures of an array."""
        other = numpy_elements.of_structures(self.objects, place, most)
        return self._text_of_other(place.kind, other)

    def _of_table(self, address: int, kind: str, key: Key) -> ArrayPlace | int | None:
        """Return the place of a column of a table of pandas; None for another object, and for an
        attribute that is no column."""
        if not isinstance(key, str | int):
            return None
        try:
            return table_text.step(self.objects, address, key)
        except UnknownError:
            if kind == "attribute":
                return None
            raise

    def _numbers(self, address: int) -> ArrayPlace | None:
        try:
            found = arrays.find(self.objects, address)
            found = found or table_text.place_of(self.objects, address)
            found = found or arrow_text.place_of(self.objects, address)
            if found is None and (value := ctypes_values.whole(self.objects, address)) is not None:
                found = ctypes_values.numbers(self.objects, value)
            return found
        except NoNumbersError:
            return None

    def scope(self, thread: PythonThread, frame: PythonFrame) -> Scope:
        """Return the variables that a frame of a thread sees.

        :raises UnknownError: if the frame is not found in memory.
        """
        number = next((at for at, each in enumerate(thread.frames) if each is frame), -1)
        found = scopes.frames_of(self.objects, self.memory, self.runtime_at, thread)
        if number < 0 or not found:
            raise UnknownError("the frame was not found in the memory of the interpreter")
        return scopes.scope_of(self.objects, found[number])

    def _variable(self, name: str, frame: PythonFrame, scope: Scope | None) -> int:
        why = f"No Python variable {name!r} in {frame.name}"
        if scope is not None:
            if (address := scope.own.get(name)) is None:
                address = self.objects.find(self.objects.items(scope.globals), name)
            if address is None:
                raise UnknownError(f"{why} and its module.")
            if not address:
                raise UnknownError(f"The variable {name!r} of {frame.name} has no value yet.")
            return address
        for each in frame.locals or ():
            if each.name == name and each.addr:
                return each.addr
        try:
            found = self._global(name, frame.filename)
        except UnknownError as error:
            raise UnknownError(f"{why}; its globals are not known: {error}") from None
        if found is None:
            raise UnknownError(f"{why} and its module.")
        return found

    def _global(self, name: str, file: str) -> int | None:
        """Return the address of a global variable of the module with the source *file*."""
        objects = self.objects
        for module in modules(objects, self._modules()):
            where = objects.find(objects.items(module.globals), "__file__")
            if where is None or not objects.is_a(where, "str"):
                continue
            text = objects.text(where)
            # The main script can have a relative name.
            if text == file or (module.name == "__main__" and file.endswith(f"/{text}")):
                return objects.find(objects.items(module.globals), name)
        return None

    def _modules(self) -> int:
        known = runtime.offsets(self.memory, self.runtime_at)
        if known is not None:
            head = known.fields["runtime.interpreters_head"]
            at = known.fields["interpreter.imports_modules"]
        elif self._minor in scopes.HEAD and platform.machine() == "x86_64":
            head, at = scopes.HEAD[self._minor], _MODULES[self._minor]
        else:
            raise UnknownError(f"the structures of Python 3.{self._minor} are not known")
        if not self.runtime_at:
            raise UnknownError("the interpreter's symbol _PyRuntime is not there")
        objects = self.objects
        table = objects.word(objects.word(self.runtime_at + head) + at)
        if not table or not objects.is_a(table, "dict"):
            raise UnknownError("the interpreter's modules were not found")
        return table

    def at(self, address: int) -> int | ArrayPlace:
        """Return the place of the numbers of an object, or its address if it has none.

        :raises UnknownError: if they cannot be read.
        """
        return self._numbers(address) or address

    def tasks(self, table: int) -> list[Task]:
        """Return the tasks of asyncio; *table* is its table of offsets, 0 for none.

        :raises UnknownError: if they cannot be read.
        """
        loaded = modules(self.objects, self._modules())
        return tasks_of(self.objects, self.memory, loaded, self.runtime_at, table)

    def shown(self, address: int, most: int = array_text.MOST_SHOWN) -> str:
        """Return the value of an object that is no array of numbers."""
        return self.shown_in_part(address, most).text

    def value_at(self, address: int) -> str:
        """Return the value of any object, also of an array of numbers."""
        most = array_text.MOST_SHOWN
        return (self._array_in_container(address, most) or self.shown_in_part(address, most)).text

    def shown_in_part(self, address: int, most: int, *, is_whole: bool = False) -> Shown:
        """Return the value of an object, and whether some of its elements are left out.

        :param most: most elements of each container.
        :param is_whole: whether containers far inside of others are shown as well.
        """
        other = self._other_array(address, most) or self._table(address, most)
        if other is not None:
            return other
        return object_text.shown(
            self.objects, address, most, self._array_in_container, is_whole=is_whole
        )

    def _other_array(self, address: int, most: int) -> Shown | None:
        """Return the text of a structure, or of an array without numbers, of NumPy; None for
        another object."""
        objects = self.objects
        bases = objects.bases(address)
        if "numpy.void" in bases and (only := self.structures(address)) is not None:
            return self.of_structures(only, most)
        if "numpy.ndarray" not in bases:
            return None
        if arrays.mask_of(objects, address) is not None:
            return self._masked(address, most)
        other = numpy_elements.others(objects, address, most)
        return self._text_of_other(objects.type_name(address), other)

    def _text_of_other(self, name: str, other: numpy_elements.OtherArray) -> Shown:
        head = f"{name} of {other.element_name}, shape {array_text.shape_text(other.shape)}"
        if other.elements is None:
            return Shown(head, is_cut=True)
        if not other.shape:
            return Shown(other.elements[0])
        listed = array_text.nested_texts(other.elements, other.shape)
        return Shown(f"{head} = {listed}", math.prod(other.shape) > len(other.elements))

    def _table(self, address: int, most: int) -> Shown | None:
        """Return the text of a table of pandas or Arrow, None for another object."""
        try:
            table = tables.find(self.objects, address)
            if table is None:
                return arrow_text.text_of(self.objects, address, most) or self._of_c(address, most)
            return table_text.text_of(self.objects, table, most, self._texts_of)
        except UnknownError:
            return None

    def _of_c(self, address: int, most: int) -> Shown | None:
        """Return the text of an object of ctypes, None for another object."""
        value = ctypes_values.whole(self.objects, address)
        return None if value is None else self.shown_of_c(value, most)

    def shown_of_c(self, value: ctypes_values.Field, most: int) -> Shown:
        """Return the text of a value of C in an object of ctypes.

        :param most: most elements of each array.
        """

        def number_text(place: ArrayPlace) -> Shown:
            return array_text.shown_numbers(place, *self._first(place, most), most)

        return ctypes_values.shown(self.objects, value, number_text)

    def _texts_of(self, place: ArrayPlace, most: int) -> list[str]:
        dtype, data = self._first(place, most)
        return array_text.texts_of(dtype, data, most)

    def _masked(self, address: int, most: int) -> Shown | None:
        """Return the text of a masked array, with ``--`` in the place of masked elements."""
        place, mask = self._plain_numbers(address), arrays.mask_of(self.objects, address)
        if place is None or mask is None or mask.shape != place.shape:
            return None
        _, hidden = self._first(mask, most)
        texts = [
            "--" if is_hidden else each
            for each, is_hidden in zip(self._texts_of(place, most), hidden, strict=False)
        ]
        return array_text.shown_texts(place, texts)

    def _plain_numbers(self, address: int) -> ArrayPlace | None:
        try:
            return arrays.find(self.objects, address, with_masked=True)
        except NoNumbersError:
            return None

    def _first(self, place: ArrayPlace, most: int) -> tuple[str, bytes]:
        """Return the type and the bytes of the first elements of an array.

        :raises UnknownError: if too much memory has to be read for them.
        """
        low, high = place.extent
        part = place
        if place.is_contiguous:
            count = min(place.count, most)
            low, high = 0, count * place.item_bytes
            part = msgspec.structs.replace(place, shape=(count,), strides=(place.item_bytes,))
        elif high - low > _MOST_BYTES_INSIDE:
            raise UnknownError(f"the {place.kind} spans {high - low} bytes of memory with gaps")
        return elements(part, self.objects.read(place.address + low, high - low), low)

    def _array_in_container(self, address: int, most: int) -> Shown | None:
        """Return the text of an array that is an element of another object."""
        place = self._numbers(address)
        if place is None:
            return self._other_array(address, most) or self._table(address, most)
        dtype, data = self._first(place, most)
        return array_text.shown_numbers(place, dtype, data, most)


def _part(place: ArrayPlace, key: Key) -> ArrayPlace:
    """Return the part of an array with an index or a slice, or with several."""
    axis = 0
    for each in key if isinstance(key, tuple) else (key,):
        if isinstance(each, slice):
            place = place.part(each, axis)
            axis += 1
        elif isinstance(each, int):
            place = place.element(each, axis)
        else:
            raise UnknownError(f"the index {each!r} of an array is no number")
    return place


def elements(place: ArrayPlace, data: bytes, low: int) -> tuple[str, bytes]:
    """Return the element type and the bytes of all elements in the order of C.

    *data* are the bytes from *low* on, of the extent of the array.
    """
    # Imported only here: it takes 0.1 s and 20 MB, and most sessions read no array.
    import numpy

    dtype = "<u2" if place.dtype == "bfloat16" else place.dtype
    view = (
        numpy.ndarray(place.shape, dtype, buffer=data, offset=-low, strides=place.strides)
        if place.count
        else numpy.empty(place.shape, dtype)
    )
    plain = numpy.ascontiguousarray(view)
    if place.dtype == "bfloat16":
        # The upper half of a float.
        wide = plain.astype("<u4") << 16
        return "<f4", wide.tobytes()
    return dtype, plain.tobytes()


def layout_text(place: ArrayPlace, name: str, index: str = "") -> str | None:
    """Return an attribute of an array that Python computes, or one number of its shape.

    :param name: ``shape``, ``ndim`` or ``dtype``.
    :raises UnknownError: if the shape has no such number.
    """
    if index:
        if name != "shape":
            return None
        if not -len(place.shape) <= int(index) < len(place.shape):
            raise UnknownError(f"index {index} is outside of the shape {place.shape}")
        return str(place.shape[int(index)])
    return {
        "shape": str(place.shape),
        "ndim": str(len(place.shape)),
        "dtype": place.element_name,
    }[name]


def parsed_number(text: str) -> str | None:
    """Return the value of an object as a number of C's, None if it is none.

    >>> parsed_number("True"), parsed_number("2.5"), parsed_number("'x'")
    ('1', '2.5', None)
    """
    if text in ("True", "False"):
        return str(int(text == "True"))
    try:
        float(text)
    except ValueError:
        return None
    return text


def minor_of(memory: Memory, runtime_at: int, paths: Sequence[str]) -> int:
    """Return the minor version of the interpreter, 0 if its objects are not known.

    Its table of offsets has it, from Python 3.13 on, or the names of its files.
    """
    known = runtime.offsets(memory, runtime_at)
    if known is not None:
        return 0 if known.is_free_threaded else known.version[1]
    for path in paths:
        if (found := _MINOR.search(path)) is not None:
            return int(found[1])
    return 0
