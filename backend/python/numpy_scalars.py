"""Single numbers of NumPy, as they stand in containers of Python."""

from __future__ import annotations

import struct

from pgdb.backend.python.objects import Objects

_VALUE_AT = 16
_FORMATS = {
    "bool": "<?",
    "bool_": "<?",
    "int8": "<b",
    "int16": "<h",
    "int32": "<i",
    "int64": "<q",
    "intc": "<i",
    "longlong": "<q",
    "uint8": "<B",
    "uint16": "<H",
    "uint32": "<I",
    "uint64": "<Q",
    "uintc": "<I",
    "ulonglong": "<Q",
    "float16": "<e",
    "float32": "<f",
    "float64": "<d",
}


def text_of(objects: Objects, address: int, name: str) -> str | None:
    """Return the text of a number of NumPy, None for an object of another type.

    :param name: the name of its type.
    """
    form = _FORMATS.get(name.removeprefix("numpy.")) if name.startswith("numpy.") else None
    if form is None:
        return None
    data = objects.read(address + _VALUE_AT, struct.calcsize(form))
    return repr(struct.unpack(form, data)[0])
