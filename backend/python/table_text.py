"""Text of the tables of pandas."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from msgspec.structs import replace

from pgdb.backend.python import arrays, arrow, arrow_text, numpy_elements, tables
from pgdb.backend.python.arrays import ArrayPlace, NoNumbersError
from pgdb.backend.python.object_text import Shown
from pgdb.backend.python.objects import Objects, UnknownError
from pgdb.backend.python.tables import Column, Table

_MISSING = "<NA>"
_UNKNOWN = "<unknown>"
_MOST_LABELS = 10_000
Numbers = Callable[[ArrayPlace, int], list[str]]
"""Function that returns the texts of the first numbers of an array."""


def column_place(objects: Objects, column: Column) -> ArrayPlace:
    """Return the place of the numbers of a column.

    :raises UnknownError: if it has none, or if some values are missing.
    """
    if column.levels:
        raise NoNumbersError("its values are numbers of labels")
    if column.arrow and isinstance(found := arrow.find(objects, column.arrow), arrow.ArrowArray):
        return arrow_text.numbers_of(objects, found)
    if not column.values:
        raise NoNumbersError("its values are not those of an array of NumPy")
    place = arrays.find(objects, column.values)
    if place is None:
        raise NoNumbersError("its values are no numbers")
    if column.mask:
        mask = arrays.find(objects, column.mask)
        if mask is None or any(objects.read(mask.address, mask.count)):
            raise NoNumbersError("some of its values are missing")
    return place if column.row is None else place.element(column.row)


def column_named(objects: Objects, table: Table, label: int | str) -> Column | None:
    """Return the column with a label, None if there is none, or if the labels are unknown."""
    if not table.labels:
        return None
    wanted = repr(label)
    for number, each in enumerate(_labels(objects, table)):
        if each == wanted:
            return table.columns.get(number)
    return None


def text_of(objects: Objects, table: Table, most: int, numbers: Numbers) -> Shown:
    """Return the text of a table: its columns, each with its values."""
    is_cut = False
    parts = []
    names = _labels(objects, table)
    left, rows = most, 0
    for number, column in table.columns.items():
        if left <= 0:
            is_cut = True
            parts.append("...")
            break
        texts, count = _values(objects, column, left, numbers)
        rows = max(rows, count)
        left -= len(texts)
        is_cut = is_cut or len(texts) < count
        inner = ", ".join(texts) + "..." * (len(texts) < count)
        name = names[number] if number < len(names) else str(number)
        if name[1:-1].isidentifier():
            name = name[1:-1]
        parts.append(f"{name} = {{{inner}}}" if table.labels else f"{{{inner}}}")
    if not table.labels:
        return Shown(f"{table.name} = {parts[0] if parts else '{}'}", is_cut)
    size = f"{rows} row{'s' * (rows != 1)}" if rows or not table.columns else "unknown size"
    if not table.columns:
        size = "no columns"
    return Shown(f"{table.name} of {size} = {{{', '.join(parts)}}}", is_cut)


def _labels(objects: Objects, table: Table) -> list[str]:
    if not table.labels:
        return []
    found = tables.labels(objects, table.labels)
    if isinstance(found, tuple):
        return [str(each) for each in found]
    if found is None:
        column = tables.index_column(objects, table.labels)
        return _of_arrow(objects, column, len(table.columns))[0] if column.arrow else []
    try:
        place = arrays.find(objects, found)
    except NoNumbersError:
        place = None
    if place is None:
        return list(numpy_elements.others(objects, found, len(table.columns)).elements or ())
    return []


def _values(objects: Objects, column: Column, most: int, numbers: Numbers) -> tuple[list[str], int]:
    """Return the texts of the first values of a column, and the number of all."""
    if column.numbers is not None:
        return [str(each) for each in column.numbers[:most]], len(column.numbers)
    if column.levels:
        return _labelled(objects, column, most, numbers)
    if column.arrow:
        return _of_arrow(objects, column, most)
    if not column.values:
        return [_UNKNOWN], 0
    try:
        place = arrays.find(objects, column.values)
    except NoNumbersError:
        place = None
    if place is None:
        found = numpy_elements.others(objects, column.values, most, column.row)
        return list(found.elements or (_UNKNOWN,)), found.shape[0] if found.elements else 0
    place = place if column.row is None else place.element(column.row)
    texts = numbers(place, most)
    if column.mask and (mask := arrays.find(objects, column.mask)) is not None:
        hidden = objects.read(mask.address, min(mask.count, most))
        texts = [_MISSING if no else each for each, no in zip(texts, hidden, strict=False)]
    return texts, place.count


def _of_arrow(objects: Objects, column: Column, most: int) -> tuple[list[str], int]:
    """Return the texts of the first values of a column that Arrow has, and the number of all."""
    found = arrow.find(objects, column.arrow)
    if not isinstance(found, arrow.ArrowArray):
        return [_UNKNOWN], 0
    texts = arrow_text.values(objects, found, most)
    if texts is None:
        return [_UNKNOWN], found.length
    return [_MISSING if each == arrow_text.NULL else each for each in texts], found.length


def _labelled(
    objects: Objects, column: Column, most: int, numbers: Numbers
) -> tuple[list[str], int]:
    """Return the labels whose numbers a column has, or the tuples of them."""
    parts, count = [], 0
    for index, codes in column.levels:
        place = arrays.find(objects, codes) if codes else None
        if place is None:
            return [_UNKNOWN], 0
        chosen = [int(each) for each in numbers(place, most)]
        count = place.count
        wanted = min(max(chosen, default=-1) + 1, _MOST_LABELS)
        known = _values(objects, tables.index_column(objects, index), wanted, numbers)[0]
        parts.append([_label(known, each) for each in chosen])
    if not column.is_of_tuples:
        return parts[0], count
    return [f"({', '.join(each)})" for each in zip(*parts, strict=True)], count


def _label(known: Sequence[str], number: int) -> str:
    if number < 0:
        return _MISSING
    return known[number] if number < len(known) else _UNKNOWN


def place_of(objects: Objects, address: int) -> ArrayPlace | None:
    """Return the place of the numbers of a Series, None for another object.

    :raises UnknownError: if they are no numbers, or cannot be read.
    """
    table = tables.find(objects, address)
    if table is None or table.labels:
        return None
    try:
        return replace(column_place(objects, table.columns[0]), kind=table.name)
    except (NoNumbersError, KeyError) as error:
        raise NoNumbersError(f"the {table.name} has no array of numbers: {error}") from None


def step(objects: Objects, address: int, key: int | str) -> ArrayPlace | int | None:
    """Return the place of a column of a DataFrame, or of an element of a Series; the address of
    the array of a column without numbers.

    None for an object that is no table.

    :raises UnknownError: if there is none, or if it cannot be read.
    """
    table = tables.find(objects, address)
    if table is None:
        return None
    if not table.labels:
        if not table.has_numbered_rows or isinstance(key, str) or key < 0:
            raise UnknownError(
                f"elements of a {table.name} have a value where the labels of the rows are "
                "0, 1, 2 and so on"
            )
        place = place_of(objects, address)
        return None if place is None else place.element(key)
    column = column_named(objects, table, key)
    if column is None:
        raise UnknownError(f"the {table.name} has no column {key!r}")
    try:
        return column_place(objects, column)
    except NoNumbersError as error:
        if column.values and column.row is None and not column.mask:
            return column.values
        raise UnknownError(f"the column {key!r} has no array of numbers: {error}") from None
