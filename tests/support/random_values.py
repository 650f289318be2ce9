"""Programs with random values: each variable twice, and one element of the second one changed.

The same seed gives the same program. Variables are ``one_0`` and ``other_0``, ``one_1`` and so on.
"""

from __future__ import annotations

from random import Random

_NAMES = ("", "one", "x", "just sixteen char", "nineteen characters", "aaaaaaaaaaaaaaaaaaa")
_WORDS = ("a", "b, c", "aaaaaaaaaaaaaaaaaaaaaaaaaaa", "x = {1}", "", "[3]", "long word of text")


class Source:
    """A program under construction."""

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        self.declarations: list[str] = []
        self.count = 0

    def name(self, prefix: str) -> str:
        """Return a new name."""
        self.count += 1
        return f"{prefix}{self.count}"


class Kind:
    """A type with values: a tree of values that a program can be initialized with."""

    name: str

    def init(self, change: bool) -> str:
        """Return the initializer of a value; with *change* one element is another one."""
        raise NotImplementedError


class Scalar(Kind):
    """A number, a text, a truth value or an enumerator."""

    def __init__(self, source: Source) -> None:
        random = source.random
        self.name, self._values = random.choice(
            (
                ("int", [str(random.randint(-9, 9)), "77"]),
                ("double", [str(random.randint(0, 9) + 0.5), "77.25"]),
                ("long", [str(random.randint(0, 9)), "7700000000"]),
                ("std::string", [f'std::string("{random.choice(_WORDS)}")', 'std::string("new")']),
                ("Side", ["Side::left", "Side::right"]),
                ("unsigned char", ["'x'", "'y'"]),
            )
        )

    def init(self, change: bool) -> str:
        """Return one of the two values."""
        return self._values[change]


class Row(Kind):
    """Several values of one kind: a sequence of the standard library or an array of C."""

    def __init__(self, source: Source, element: Kind) -> None:
        self._random = source.random
        self._element = element
        names = ("vector", "list", "deque", "forward_list", "vector", "array")
        word = self._random.choice(names)
        size = self._random.choice((1, 2, 3, 15))
        self._size = size
        self._changed = self._random.randrange(size)
        self._is_array = word == "array"
        extent = f", {size}" if self._is_array else ""
        self.name = f"std::{word}<{element.name}{extent}>"

    def init(self, change: bool) -> str:
        """Return the elements, of which one is changed."""
        parts = [self._element.init(change and at == self._changed) for at in range(self._size)]
        inner = ", ".join(parts)
        return f"{self.name}{{{{{inner}}}}}" if self._is_array else f"{self.name}{{{inner}}}"


class Nested(Kind):
    """A vector of vectors, of which some are empty."""

    def __init__(self, source: Source, element: Kind) -> None:
        sizes = [source.random.choice((0, 1, 2)) for _ in range(5)]
        self._sizes = [*sizes, 1]
        self._element = element
        self._row = f"std::vector<{element.name}>"
        self._changed = source.random.choice([at for at, size in enumerate(self._sizes) if size])
        self.name = f"std::vector<{self._row}>"

    def init(self, change: bool) -> str:
        """Return the rows; the first element of one is changed."""
        rows = [
            ", ".join(
                self._element.init(change and row == self._changed and not at) for at in range(size)
            )
            for row, size in enumerate(self._sizes)
        ]
        return f"{self.name}{{{', '.join(f'{self._row}{{{row}}}' for row in rows)}}}"


class Table(Kind):
    """A map, with keys of several kinds."""

    def __init__(self, source: Source, element: Kind) -> None:
        random = source.random
        self._element = element
        key, self._keys = random.choice(
            (
                ("int", ["-4", "0", "7"]),
                ("int", ["0", "1", "2"]),
                ("std::string", [f'std::string("{word}")' for word in ("a", "b, c", 'q\\"[1]')]),
                ("Side", ["Side::left", "Side::right"]),
                ("char", ["'x'", "'y'", "'\\''"]),
                ("double", ["0.5", "1.25", "3.0"]),
                ("Key", ["Key{1, 2}", "Key{3, 4}"]),
                ("std::pair<int, bool>", ["std::pair<int, bool>{1, true}"]),
            )
        )
        words = ["map", "multimap"]
        if key in ("int", "std::string", "char", "double"):
            words.append("unordered_map")
        word = random.choice(words)
        if word == "multimap":
            self._keys = [*self._keys, self._keys[-1]]
        self.name = f"std::{word}<{key}, {element.name}>"
        self._pair = f"std::pair<const {key}, {element.name}>"
        self._changed = random.randrange(len(self._keys))

    def init(self, change: bool) -> str:
        """Return the pairs; one value is changed."""
        pairs = [
            f"{self._pair}{{{key}, {self._element.init(change and at == self._changed)}}}"
            for at, key in enumerate(self._keys)
        ]
        return f"{self.name}{{{', '.join(pairs)}}}"


class Wrapper(Kind):
    """An optional, a variant, a tuple, a pair, or a structure around a value."""

    def __init__(self, source: Source, element: Kind) -> None:
        self._element = element
        self.name, self._before, self._after = source.random.choice(
            (
                (f"std::optional<{element.name}>", "", ""),
                (f"std::variant<int, {element.name}>", "std::in_place_index<1>, ", ""),
                (f"std::tuple<int, {element.name}, double>", "1, ", ", 2.5"),
                (f"std::pair<bool, {element.name}>", "true, ", ""),
            )
        )

    def init(self, change: bool) -> str:
        """Return the wrapped value."""
        return f"{self.name}{{{self._before}{self._element.init(change)}{self._after}}}"


class Words(Kind):
    """An array of character arrays, of which GDB separates rows and parts of rows alike."""

    def __init__(self, source: Source) -> None:
        self.name = source.name("Words")
        letter, self._prefix = source.random.choice((("char", ""), ("wchar_t", "L")))
        self._words = [source.random.choice(_NAMES) for _ in range(source.random.randrange(2, 6))]
        self._changed = source.random.randrange(len(self._words))
        source.declarations.append(f"using {self.name} = {letter}[{len(self._words)}][20];")

    def init(self, change: bool) -> str:
        """Return the words; one is another one."""
        words = list(self._words)
        if change:
            words[self._changed] = "another"
        return f"{{{', '.join(f'{self._prefix}{chr(34)}{word}{chr(34)}' for word in words)}}}"


class Lone(Kind):
    """A value that a class of the library keeps without an index, or with a rare kind of key."""

    def __init__(self, source: Source) -> None:
        self.name, self._values = source.random.choice(
            (
                ("std::atomic<int>", ["5", "6"]),
                ("std::atomic<bool>", ["true", "false"]),
                ("std::map<float, int>", ["{0.1f, 1}, {3.3f, 2}", "{0.1f, 1}, {3.3f, 7}"]),
                ("std::map<Wide, int>", ["{5, 1}, {-7, 2}", "{5, 1}, {-7, 3}"]),
                ("std::complex<float>", ["1, 2", "1, 2.5"]),
                ("Pointed", ["&Pointing::one, 1", "&Pointing::one, 2"]),
                ("Methods", ["&Pointing::get, 1", "&Pointing::get, 2"]),
            )
        )

    def init(self, change: bool) -> str:
        """Return one of the two values."""
        return f"{{{self._values[change]}}}"


class Flags(Kind):
    """Truth values in bits, or a set of numbers."""

    def __init__(self, source: Source) -> None:
        self.name, self._values = source.random.choice(
            (
                ("std::bitset<9>", ["5ul", "7ul"]),
                ("std::vector<bool>", ["true, false, true", "true, true, true"]),
                ("std::set<int>", ["4, 5, 6", "4, 5, 77"]),
            )
        )

    def init(self, change: bool) -> str:
        """Return one of the two values."""
        return f"{self.name}{{{self._values[change]}}}"


class Object(Kind):
    """A structure: members, arrays of C, a base class, an unnamed union."""

    def __init__(self, source: Source, members: list[Kind]) -> None:
        random = source.random
        self.name = source.name("Object")
        self._members = members
        base = source.name("Base")
        self._has_base = random.random() < 0.5
        hidden = random.choice(("member0", "own"))
        # The base class, a buffer, text, an array, a union, or one of the members.
        self._changed = random.randrange(-5 if self._has_base else -4, len(members))
        lines = [f"    {each.name} member{at};" for at, each in enumerate(members)]
        source.declarations.append(
            f"struct {base} {{\n    int {hidden};\n    double weight;\n}};\n"
            f"struct {self.name}{f' : {base}' if self._has_base else ''} {{\n"
            "    char buffer[24];\n    const char *text;\n    int grid[3][4];\n"
            "    union {\n        int count;\n        unsigned bits;\n    };\n"
            + "\n".join(lines)
            + "\n};"
        )

    def init(self, change: bool) -> str:
        """Return the members; one is changed."""
        at = self._changed if change else None
        parts = [f"{{{9 if at == -5 else 5}, 2.5}}"] if self._has_base else []
        parts += [
            '"zzzzzzzzzzzzzzzzzzb"' if at == -4 else '"even"',
            '"----------------------- new"' if at == -3 else '"----------------------- old"',
            f"{{{{1, 2, 3, 4}}, {{5, {99 if at == -2 else 6}, 7, 8}}, {{0, 0, 0, 0}}}}",
            f"{{{77 if at == -1 else 3}}}",
        ]
        parts += [each.init(at == number) for number, each in enumerate(self._members)]
        return f"{self.name}{{{', '.join(parts)}}}"


def _kind(source: Source, depth: int) -> Kind:
    random = source.random
    if depth == 0:
        return Scalar(source)
    choice = random.randrange(7)
    if choice == 0:
        return Flags(source)
    if choice == 1:
        return Object(source, [_kind(source, depth - 1) for _ in range(random.randrange(1, 3))])
    return random.choice((Row, Row, Nested, Table, Wrapper))(source, _kind(source, depth - 1))


def cpp_program(seed: int, count: int) -> str:
    """Return a program of C++ with *count* pairs of variables."""
    source = Source(seed)
    variables = []
    for number in range(count):
        # These stand alone: most of them cannot be moved into a container.
        lone = source.random.choice((Words, Lone, None, None, None))
        kind = lone(source) if lone else _kind(source, source.random.randrange(1, 4))
        for name, change in (("one", False), ("other", True)):
            # An atomic cannot be copied: its initializer has no equal sign.
            value = kind.init(change)
            equal = "" if isinstance(kind, Lone) else " = "
            variables.append(f"static {kind.name} {name}_{number}{equal}{value};")
    used = "\n".join(
        f"    keep(&one_{number});\n    keep(&other_{number});" for number in range(count)
    )
    headers = (
        "array atomic bitset complex deque forward_list list map optional set string tuple "
        "unordered_map utility variant vector"
    )
    return "\n".join(
        (
            *(f"#include <{each}>" for each in headers.split()),
            "enum class Side { left, right };",
            "struct Key {\n    int x;\n    int y;\n"
            "    bool operator<(const Key &other) const { return x < other.x; }\n};",
            "using Wide = __int128;",
            "struct Pointing {\n    int one;\n    int two;\n    int get() { return one; }\n};",
            "struct Pointed {\n    int Pointing::*member;\n    int number;\n};",
            "struct Methods {\n    int (Pointing::*method)();\n    int number;\n};",
            *source.declarations,
            *variables,
            "static const void *volatile kept;",
            "static void keep(const void *it) { kept = it; }",
            f"static void look() {{ keep(nullptr); }}\nint main()\n{{\n{used}\n    look();\n}}\n",
        )
    )


# -- Fortran -------------------------------------------------------------------------------------

_FORTRAN = {
    "integer": ("5", "77"),
    "real(8)": ("2.5d0", "77.25d0"),
    "logical": (".true.", ".false."),
    "character(len=4)": ("'ab'", "'new'"),
    "character(len=20)": ("'ab'", "'another'"),
    "complex(8)": ("(1.0d0, 2.0d0)", "(7.0d0, 2.0d0)"),
}


def _bounds(random: Random, most: int) -> list[tuple[int, int]]:
    found = []
    for _ in range(random.randrange(1, most + 1)):
        low = random.randint(-5, 5)
        found.append((low, low + random.choice((0, 1, 2, 3, 14))))
    return found


def _text(bounds: list[tuple[int, int]]) -> str:
    return ",".join(f"{low}:{high}" for low, high in bounds)


def _element(random: Random, bounds: list[tuple[int, int]]) -> str:
    return ",".join(str(random.randint(low, high)) for low, high in bounds)


def fortran_program(seed: int, count: int) -> str:
    """Return a program of Fortran with *count* pairs of variables."""
    random = Random(seed)
    types, variables, code = [], [], []
    for number in range(count):
        kind = random.choice([*_FORTRAN])
        value, changed = _FORTRAN[kind]
        bounds = _bounds(random, 3)
        shape = random.choice(("array", "allocatable", "pointer", "type", "types"))
        names = (f"one_{number}", f"other_{number}")
        where = _element(random, bounds)
        if shape in ("type", "types"):
            is_allocatable = random.random() < 0.5
            inner = ",".join(":" for _ in bounds) if is_allocatable else _text(bounds)
            attribute = ", allocatable" if is_allocatable else ""
            types.append(
                f"  type :: t{number}\n    integer :: id\n    {kind}{attribute} :: v({inner})\n"
                f"    real(8) :: w(0:1)\n  end type"
            )
            outer = _bounds(random, 2) if shape == "types" else []
            extent = f"({_text(outer)})" if outer else ""
            variables.append(f"  type(t{number}) :: {names[0]}{extent}, {names[1]}{extent}")
            one = f"({_element(random, outer)})" if outer else ""
            # Of the elements of an array some have no component.
            bare = {each for each in _each(outer) if is_allocatable and random.random() < 0.4}
            for name in names:
                for index in _each(outer):
                    code += [f"  {name}{index}%id = 1", f"  {name}{index}%w = 0.5d0"]
                    if index in bare - {one}:
                        continue
                    if is_allocatable:
                        code.append(f"  allocate ({name}{index}%v({_text(bounds)}))")
                    code.append(f"  {name}{index}%v = {value}")
            code.append(f"  {names[1]}{one}%v({where}) = {changed}")
            continue
        if shape == "array":
            variables += [f"  {kind} :: {name}({_text(bounds)})" for name in names]
        else:
            inner = ",".join(":" for _ in bounds)
            variables.append(f"  {kind}, {shape} :: {names[0]}({inner}), {names[1]}({inner})")
            code += [f"  allocate ({name}({_text(bounds)}))" for name in names]
        code += [f"  {name} = {value}" for name in names]
        code.append(f"  {names[1]}({where}) = {changed}")
    return "\n".join(
        (
            "module values",
            "  implicit none",
            *types,
            *variables,
            "end module",
            "program places",
            "  use values",
            "  implicit none",
            *code,
            "  call look()",
            "contains",
            "  subroutine look()",
            "    if (command_argument_count() > 9) stop 1",
            "  end subroutine",
            "end program",
            "",
        )
    )


def _each(bounds: list[tuple[int, int]]) -> list[str]:
    """Return every index of an array, in parentheses."""
    found = [""]
    for low, high in bounds:
        found = [
            f"{before},{index}" if before else str(index)
            for before in found
            for index in range(low, high + 1)
        ]
    return [f"({index})" if index else "" for index in found]
