"""Numbers of NumPy and PyTorch in the memory of a process, found without debug information."""

from __future__ import annotations

import math
import struct

import msgspec

from pgdb.backend.python.objects import Objects, UnknownError

_MOST_DIMENSIONS = 32
_LETTERS = {
    "?": "b1",
    "b": "i1",
    "B": "u1",
    "h": "i2",
    "H": "u2",
    "i": "i4",
    "I": "u4",
    "l": "i8",
    "L": "u8",
    "q": "i8",
    "Q": "u8",
    "e": "f2",
    "f": "f4",
    "d": "f8",
    "g": "f16",
    "F": "c8",
    "D": "c16",
}
"""Type characters of NumPy that have numbers; those of C's long have 8 bytes on Linux."""
_NAMES = {
    "b1": "bool",
    "i1": "int8",
    "u1": "uint8",
    "i2": "int16",
    "u2": "uint16",
    "i4": "int32",
    "u4": "uint32",
    "i8": "int64",
    "u8": "uint64",
    "f2": "float16",
    "f4": "float32",
    "f8": "float64",
    "f16": "longdouble",
    "c8": "complex64",
    "c16": "complex128",
}
_SCALARS = {name: kind for kind, name in _NAMES.items()}
_TORCH = {0: "u1", 1: "i1", 2: "i2", 3: "i4", 4: "i8", 5: "f2", 6: "f4", 7: "f8", 9: "c8"} | {
    10: "c16",
    11: "b1",
    15: "bfloat16",
}
"""Element types of PyTorch by their numbers (c10/core/ScalarType.h)."""
_MOST_MASK_BYTES = 1 << 24
_INLINE = 5
"""Most dimensions of a tensor whose sizes and strides are in the tensor itself."""
_IMPL_WORDS = 25
_CPU = 0


class NoNumbersError(UnknownError):
    """An array whose elements are no numbers."""


class ArrayPlace(msgspec.Struct, frozen=True):
    """Location and layout of numbers, or of structures whose fields are numbers."""

    kind: str
    """Name of the type, such as ``numpy.ndarray``."""
    dtype: str
    """Element type as NumPy writes it, such as ``<f8``; ``bfloat16`` for that of PyTorch, ``|V40``
    for structures."""
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    """Distances of neighbours along each dimension, in bytes."""
    address: int
    structure: int = 0
    """Address of the type of structures, 0 for numbers."""

    @property
    def item_bytes(self) -> int:
        """Size of an element, in bytes."""
        return 2 if self.dtype == "bfloat16" else int(self.dtype[2:])

    @property
    def count(self) -> int:
        """Number of elements."""
        return math.prod(self.shape)

    @property
    def element_name(self) -> str:
        """Element type in words, such as ``float64``."""
        return _NAMES.get(self.dtype.lstrip("<>|="), self.dtype)

    def element(self, key: int, axis: int = 0) -> ArrayPlace:
        """Return the place of a row of the array, or of an element if it has one dimension.

        :param axis: the dimension that *key* counts, which the result does not have.
        :raises UnknownError: if there is none.
        """
        size = self._size(axis)
        if not -size <= key < size:
            raise UnknownError(f"index {key} is outside of {size} elements")
        return msgspec.structs.replace(
            self,
            shape=self.shape[:axis] + self.shape[axis + 1 :],
            strides=self.strides[:axis] + self.strides[axis + 1 :],
            address=self.address + key % size * self.strides[axis],
        )

    def part(self, some: slice, axis: int = 0) -> ArrayPlace:
        """Return the place of some of the rows along a dimension, as NumPy does.

        :raises UnknownError: if the array does not have that dimension.
        """
        rows = range(self._size(axis))[some]
        step = self.strides[axis]
        return msgspec.structs.replace(
            self,
            shape=(*self.shape[:axis], len(rows), *self.shape[axis + 1 :]),
            strides=(*self.strides[:axis], step * rows.step, *self.strides[axis + 1 :]),
            address=self.address + step * (rows.start if rows else 0),
        )

    def _size(self, axis: int) -> int:
        if axis >= len(self.shape):
            if not self.shape:
                raise UnknownError(f"a number of type {self.element_name} has no elements")
            raise UnknownError(f"the array has {len(self.shape)} dimensions only")
        return self.shape[axis]

    @property
    def is_contiguous(self) -> bool:
        """Whether the elements stand one behind the other in the order of C."""
        expected = self.item_bytes
        for size, step in zip(reversed(self.shape), reversed(self.strides), strict=True):
            if size > 1 and step != expected:
                return False
            expected *= size
        return True

    @property
    def extent(self) -> tuple[int, int]:
        """Offsets of the first and behind the last byte of all elements."""
        if not self.count:
            return 0, 0
        steps = [(size - 1) * step for size, step in zip(self.shape, self.strides, strict=True)]
        low, high = (sum(each for each in steps if (each < 0) is sign) for sign in (True, False))
        return low, high + self.item_bytes


def find(objects: Objects, address: int, *, with_masked: bool = False) -> ArrayPlace | None:
    """Return the place of the numbers of an object, None if it is no array, tensor or number.

    :param with_masked: whether the masked elements of an array count.
    :raises UnknownError: if it is one whose numbers cannot be read.
    """
    name = objects.type_name(address)
    if name.startswith("numpy.") and name[6:].rstrip("_") in _SCALARS:
        kind = _SCALARS[name[6:].rstrip("_")]
        sign = "|" if kind[1:] == "1" else "<"
        return ArrayPlace(name, sign + kind, (), (), address + 16)
    if name == "array.array":
        return _of_standard_array(objects, address)
    if name == "memoryview":
        return _of_view(objects, address)
    bases = objects.bases(address)
    if "numpy.ndarray" in bases:
        if (count := masked_count(objects, address)) and not with_masked:
            raise NoNumbersError(f"{count} elements of the {name} are masked")
        return _of_numpy(objects, address, name)
    if any(each in ("torch._C.TensorBase", "torch._C._TensorBase") for each in bases):
        return _of_torch(objects, address, name)
    return None


def mask_of(objects: Objects, address: int) -> ArrayPlace | None:
    """Return the place of the mask of a masked array of NumPy, None for an array without one."""
    if "MaskedArray" not in objects.bases(address):
        return None
    mask = objects.own_attributes(address).get("_mask")
    if mask is None or "numpy.ndarray" not in objects.bases(mask):
        return None
    place = _of_numpy(objects, mask, "numpy.ndarray")
    return place if place.dtype == "|b1" else None


def masked_count(objects: Objects, address: int) -> int:
    """Return the number of masked elements of an array of NumPy."""
    place = mask_of(objects, address)
    if place is None:
        return 0
    low, high = place.extent
    if not place.is_contiguous or high > _MOST_MASK_BYTES:
        raise NoNumbersError(f"the mask of the MaskedArray of shape {place.shape} is not read")
    return sum(map(bool, objects.read(place.address + low, high - low)))


def _of_standard_array(objects: Objects, address: int) -> ArrayPlace:
    """Return the place of the numbers of an ``array.array``."""
    count, data = objects.words(address + 16, 2)
    letter = chr(objects.read(objects.word(address + 40), 1)[0])
    return _flat("array.array", letter, (count,), None, data)


def _of_view(objects: Objects, address: int) -> ArrayPlace:
    """Return the place of the numbers of a ``memoryview``."""
    data, _, _, item_bytes = objects.words(address + 56, 4)
    count = objects.integer32(address + 92)
    form, shape_at, strides_at = objects.words(address + 96, 3)
    letters = objects.c_text(form) if form else "B"
    if len(letters) != 1 or not 0 <= count <= _MOST_DIMENSIONS:
        raise NoNumbersError(f"memoryview with elements {letters!r} has no numbers")
    shape = objects.words(shape_at, count) if count else ()
    strides = struct.unpack(f"<{count}q", objects.read(strides_at, 8 * count)) if count else ()
    place = _flat("memoryview", letters, shape, strides, data)
    if place.item_bytes != item_bytes:
        raise NoNumbersError(f"memoryview with elements {letters!r} has no numbers")
    return place


def _flat(
    name: str, letter: str, shape: tuple[int, ...], strides: tuple[int, ...] | None, data: int
) -> ArrayPlace:
    kind = _LETTERS.get(letter)
    if kind is None:
        raise NoNumbersError(f"{name} with elements {letter!r} has no numbers")
    if strides is None:
        strides = (int(kind[1:]),)
    return ArrayPlace(name, ("|" if kind[1:] == "1" else "<") + kind, shape, strides, data)


def _of_numpy(objects: Objects, address: int, name: str) -> ArrayPlace:
    data, count = objects.word(address + 16), objects.word(address + 24) & 0xFFFFFFFF
    if count > 64:
        raise UnknownError(f"the layout of {name} is not known")
    shape = objects.words(objects.word(address + 32), count)
    strides = struct.unpack(f"<{count}q", objects.read(objects.word(address + 40), 8 * count))
    letter, order = (chr(each) for each in objects.read(objects.word(address + 56) + 25, 2))
    dtype = dtype_of(letter, order)
    if dtype is None:
        raise NoNumbersError(f"{name} of shape {shape} with elements {letter!r} has no numbers")
    if count > _MOST_DIMENSIONS:
        raise UnknownError(f"{name} has {count} dimensions; {_MOST_DIMENSIONS} can be read")
    return ArrayPlace(name, dtype, tuple(shape), strides, data)


def dtype_of(letter: str, order: str) -> str | None:
    """Return the type of numbers as NumPy writes it, by its character and order of bytes; None for
    elements that are no numbers.

    >>> dtype_of("d", "="), dtype_of("i", ">"), dtype_of("U", "<")
    ('<f8', '>i4', None)
    """
    kind = _LETTERS.get(letter)
    if kind is None:
        return None
    return (">" if order == ">" else "|" if kind[1:] == "1" else "<") + kind


def stands_as_it_is(keys: int) -> bool:
    """Return whether a tensor of the processor has its own numbers in memory, by its set of keys.

    The numbers of the keys differ between versions of PyTorch, their order does not. The lowest one
    behind those of devices is that of dense tensors. Below those for gradients, of which the first
    and the third are set, are the keys of tensors whose numbers are computed from those in memory.

    >>> [stands_as_it_is(each) for each in (0x9400010001, 0x9480010001, 0x9500010001)]
    [True, False, False]
    """
    if not keys & 1:
        return True  # not a set of keys
    others = keys & ~1
    dense = others & -others
    if not 1 << 12 <= dense < 1 << 19:
        return False
    others ^= dense
    pairs = others & others >> 2
    if not pairs:
        return others.bit_count() <= 1  # a tensor of torch.inference_mode() has none for gradients
    return not others & ((1 << pairs.bit_length() - 1) - 1)


def _of_torch(objects: Objects, address: int, name: str) -> ArrayPlace:
    """Return the place of a tensor's numbers.

    The fields of a tensor have moved between versions of PyTorch. They are found where the number
    of elements is the product of the sizes, and the storage is large enough.
    """
    unknown = UnknownError(f"{name}: the layout of this PyTorch's tensors is not known")
    impl = objects.word(address + 16)
    if impl < 1 << 16:  # before it stands whether the reference is borrowed
        impl = objects.word(address + 24)
    words = objects.words(impl, _IMPL_WORDS)
    # One word holds both counts of references, or two words do.
    shift = 0 if words[1] >> 32 else 1
    for at in range(6 + shift, 10 + shift):
        count = words[at]
        if count > _MOST_DIMENSIONS or at + 12 >= _IMPL_WORDS - 1:
            continue
        offset, total, kinds = words[at + 11], words[at + 12], words[at + 13]
        kind = _TORCH.get(kinds & 0xFFFF)
        if count <= _INLINE:
            sizes, steps = words[at + 1 : at + 1 + count], words[at + 6 : at + 6 + count]
        else:
            try:
                both = objects.words(words[at + 1], 2 * count)
            except UnknownError:
                continue
            sizes, steps = both[:count], both[count:]
        if kind is None or math.prod(sizes) != total or total > 1 << 48 or offset > 1 << 48:
            continue
        device = kinds >> 16 & 0xFF
        if device == _CPU and not stands_as_it_is(words[at + 14]):
            raise UnknownError(
                f"the numbers of this {name} do not stand in memory as they are: it is conjugated, "
                "negated, nested, named, or of a class with its own operations"
            )
        if device != _CPU:
            raise UnknownError(f"{name} of shape {tuple(sizes)} is not in the memory of the host")
        storage = words[2 + shift]
        item_bytes = 2 if kind == "bfloat16" else int(kind[1:])
        strides = tuple(each * item_bytes for each in steps)
        if not storage:
            raise unknown
        data, size_bytes = (
            objects.word(storage + 16 + 8 * shift),
            objects.word(storage + 48 + 8 * shift),
        )
        dtype = kind if kind == "bfloat16" else ("|" if kind[1:] == "1" else "<") + kind
        place = ArrayPlace(name, dtype, tuple(sizes), strides, data + offset * item_bytes)
        if offset * item_bytes + place.extent[1] > size_bytes:
            continue
        return place
    raise unknown
