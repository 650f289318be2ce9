"""Series, DataFrames, indices and arrays of pandas: their columns, found in memory.

The fields of pandas' own types of C move between its versions. They are found by the types of the
objects in them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import msgspec

from pgdb.backend.python.objects import Objects, UnknownError

_BLOCK = "pandas._libs.internals.Block"
_PLACEMENT = "pandas._libs.internals.BlockPlacement"
_BACKED = "pandas._libs.arrays.NDArrayBacked"
_PLAIN_ARRAYS = ("StringArray", "NumpyExtensionArray", "DatetimeArray", "TimedeltaArray")
"""Arrays of pandas whose values are those of an array of NumPy that they have."""
_MOST_COLUMNS = 2000


class Column(msgspec.Struct, frozen=True):
    """A column of a table."""

    values: int
    """Address of an array of NumPy, 0 for values of another kind."""
    row: int | None
    """The row of the array that has the values, None where it has one dimension."""
    mask: int = 0
    """Address of the array that says which values are missing, 0 for none."""
    levels: tuple[tuple[int, int], ...] = ()
    """For values that are numbers of labels: the addresses of the index with the labels and of the
    array with the numbers; several for tuples of labels."""
    is_of_tuples: bool = False
    numbers: range | None = None
    """The values of an index that has no array for them."""
    arrow: int = 0
    """Address of the array of Arrow that has the values, 0 for none."""

    @property
    def has_values(self) -> bool:
        """Whether the values were found."""
        return bool(self.values or self.levels or self.numbers is not None or self.arrow)


class Table(msgspec.Struct, frozen=True):
    """A DataFrame; or a Series, an index or an array, whose only column is 0."""

    name: str
    """Name of the type."""
    labels: int
    """Address of the index that has the labels of the columns; 0 where there is one."""
    columns: dict[int, Column]
    """Columns by their number."""
    has_numbered_rows: bool
    """Whether the labels of the rows are 0, 1, 2 and so on."""


def find(objects: Objects, address: int) -> Table | None:
    """Return the table that an object is, None if it is none.

    :raises UnknownError: if it is one that cannot be read.
    """
    name = objects.type_name(address).rpartition(".")[2]
    bases = {each.rpartition(".")[2] for each in objects.bases(address)}
    if "ExtensionArray" in bases or {"Index", "PandasObject"} <= bases:
        return _alone(objects, address, name, is_index="Index" in bases)
    if not {"NDFrame", "PandasObject"} <= bases or not bases & {"Series", "DataFrame"}:
        return None
    manager = objects.own_attributes(address).get("_mgr")
    if manager is None:
        return None
    own = objects.own_attributes(manager)
    blocks = own.get("blocks") or _part(objects, manager, lambda each: _is_of_blocks(objects, each))
    axes = own.get("axes") or _part(objects, manager, lambda each: _is_list(objects, each))
    if not blocks or not axes:
        raise UnknownError(f"the layout of this pandas' {name} is not known")
    columns = {}
    for block in objects.elements(blocks):
        for number, column in _columns(objects, block, is_alone="Series" in bases):
            columns[number] = column
    indices = objects.elements(axes)
    is_frame = "DataFrame" in bases
    return Table(
        name=name,
        labels=indices[0] if is_frame else 0,
        columns=dict(sorted(columns.items())),
        has_numbered_rows=_is_numbered(objects, indices[-1]),
    )


def _alone(objects: Objects, address: int, name: str, *, is_index: bool) -> Table | None:
    """Return an index or an array as a table of one column, None if its layout is not known."""
    column = index_column(objects, address) if is_index else array_column(objects, address)
    if not column.has_values:
        return None
    return Table(name=name, labels=0, columns={0: column}, has_numbered_rows=True)


def index_column(objects: Objects, index: int) -> Column:
    """Return the values of an index."""
    own = objects.own_attributes(index)
    if (steps := own.get("_range")) is not None and objects.type_name(steps) == "range":
        ends = (objects.integer(each) for each in objects.words(steps + 16, 3))
        return Column(0, None, numbers=range(*ends))
    levels, codes = own.get("_levels"), own.get("_codes")
    if levels is not None and codes is not None:
        pairs = zip(objects.elements(levels), objects.elements(codes), strict=True)
        arrays = ((level, _array_of(objects, code)) for level, code in pairs)
        return Column(0, None, levels=tuple(arrays), is_of_tuples=True)
    held = own.get("_data")
    return array_column(objects, held) if held is not None else Column(0, None)


def array_column(objects: Objects, held: int) -> Column:
    """Return the values of an array of NumPy or of pandas; none where they are of another kind."""
    if array := _array_of(objects, held):
        return Column(array, None)
    if objects.type_name(held).rpartition(".")[2] == "Categorical":
        kind = _part(objects, held, lambda each: _short(objects, each) == "CategoricalDtype")
        codes = _part(objects, held, lambda each: objects.type_name(each) == "numpy.ndarray")
        index = objects.own_attributes(kind).get("_categories") if kind else None
        if index and codes:
            return Column(0, None, levels=((index, codes),))
        return Column(0, None)
    own = objects.own_attributes(held)
    if "_mask" in own and "_data" in own:
        return Column(own["_data"], None, own["_mask"])
    # Strings of pandas 3 are these where pyarrow is installed.
    return Column(0, None, arrow=own.get("_pa_array", 0))


def _short(objects: Objects, address: int) -> str:
    return objects.type_name(address).rpartition(".")[2]


def labels(objects: Objects, index: int) -> int | tuple[int, ...] | None:
    """Return the labels of an index: the address of an array, or numbers; None if unknown."""
    own = objects.own_attributes(index)
    held = own.get("_data")
    if held is not None and (array := _array_of(objects, held)):
        return array
    steps = own.get("_range")
    if steps is not None and objects.type_name(steps) == "range":
        first, last, step = (objects.integer(each) for each in objects.words(steps + 16, 3))
        return tuple(range(first, last, step)[:_MOST_COLUMNS])
    return None


def _is_numbered(objects: Objects, index: int) -> bool:
    steps = objects.own_attributes(index).get("_range")
    if steps is None or objects.type_name(steps) != "range":
        return False
    first, _, step = (objects.integer(each) for each in objects.words(steps + 16, 3))
    return (first, step) == (0, 1)


def _columns(objects: Objects, block: int, *, is_alone: bool) -> Iterator[tuple[int, Column]]:
    held = objects.own_attributes(block).get("values") or _part(
        objects, block, lambda each: _is_array(objects, each)
    )
    places = _part(objects, block, lambda each: objects.type_name(each) == _PLACEMENT)
    if not held:
        raise UnknownError("the values of a table were not found")
    column = array_column(objects, held)
    dimensions = objects.word(column.values + 24) & 0xFFFFFFFF if column.values else 1
    numbers = (0,) if is_alone else _numbers(objects, places)
    for row, number in enumerate(numbers):
        yield number, msgspec.structs.replace(column, row=row if dimensions > 1 else None)


def _numbers(objects: Objects, placement: int) -> tuple[int, ...]:
    """Return the numbers of the columns of a block."""
    if placement:
        for address in _objects_in(objects, placement):
            name = objects.type_name(address)
            if name == "slice":
                ends = objects.words(address + 16, 3)
                first, last, step = (
                    objects.integer(each) if objects.type_name(each) == "int" else None
                    for each in ends
                )
                if last is not None:
                    return tuple(range(first or 0, last, step or 1)[:_MOST_COLUMNS])
            if name == "numpy.ndarray":
                (count,) = objects.words(objects.word(address + 32), 1)
                return objects.words(objects.word(address + 16), min(count, _MOST_COLUMNS))
    raise UnknownError("the places of the columns were not found")


def _array_of(objects: Objects, address: int) -> int:
    """Return the array of NumPy that has the values of an array of pandas, 0 for none."""
    bases = objects.bases(address)
    if "numpy.ndarray" in bases:
        return address
    name = objects.type_name(address).rpartition(".")[2]
    if _BACKED in bases and name in _PLAIN_ARRAYS:
        return _part(objects, address, lambda each: objects.type_name(each) == "numpy.ndarray")
    return 0


def _is_array(objects: Objects, address: int) -> bool:
    bases = {each.rpartition(".")[2] for each in objects.bases(address)}
    return bool(bases & {"ndarray", "ExtensionArray"})


def _is_of_blocks(objects: Objects, address: int) -> bool:
    if objects.type_name(address) != "tuple":
        return False
    return all(_BLOCK in objects.bases(each) for each in objects.elements(address))


def _is_list(objects: Objects, address: int) -> bool:
    return objects.type_name(address) == "list"


def _objects_in(objects: Objects, address: int) -> Iterator[int]:
    """Yield what can be objects in the fields of an object of C."""
    for at in range(16, min(objects.base_bytes(address), 256), 8):
        held = objects.word(address + at)
        if not held or held & 7:
            continue
        try:
            # Each object has a type, and the type of a type is one as well.
            kind = objects.word(held + 8)
            if kind and objects.is_a_type(kind):
                yield held
        except UnknownError:
            continue


def _part(objects: Objects, address: int, is_it: Callable[[int], bool]) -> int:
    for each in _objects_in(objects, address):
        try:
            if is_it(each):
                return each
        except UnknownError:
            continue
    return 0
