"""The C source of the recorder of MPI calls, for the MPI whose header a compiler finds."""

from __future__ import annotations

import ctypes
import re
from collections.abc import Iterator, Mapping, Sequence
from importlib.resources import files

import msgspec

from pgdb import mpi_functions
from pgdb.bracketed import comma_parts
from pgdb.mpi_functions import NUMBERED, TEXTS, Role
from pgdb.mpi_recorder import layout

_ATTRIBUTE = re.compile(r"__attribute__\s*\(\((?:[^()]|\([^()]*\))*\)\)")
_PROTOTYPE = re.compile(r"\bint\s+(MPI_\w+)\s*\(([^;{}]*)\)\s*;")
_NAME = re.compile(r"(\w+)\s*(?:\[[^\]]*\]\s*)*\Z")
_MADE = "newcomm"
_NO_ARGUMENTS_IN_FORTRAN = ("argc", "argv")
_DATATYPES = """
CHAR SIGNED_CHAR UNSIGNED_CHAR BYTE WCHAR SHORT UNSIGNED_SHORT INT UNSIGNED LONG UNSIGNED_LONG
LONG_LONG UNSIGNED_LONG_LONG FLOAT DOUBLE LONG_DOUBLE C_BOOL CXX_BOOL INT8_T INT16_T INT32_T INT64_T
UINT8_T UINT16_T UINT32_T UINT64_T AINT OFFSET COUNT C_COMPLEX C_DOUBLE_COMPLEX PACKED FLOAT_INT
DOUBLE_INT LONG_INT 2INT SHORT_INT INTEGER REAL DOUBLE_PRECISION COMPLEX DOUBLE_COMPLEX LOGICAL
CHARACTER 2REAL 2DOUBLE_PRECISION 2INTEGER INTEGER1 INTEGER2 INTEGER4 INTEGER8 REAL4 REAL8
""".split()
_OPERATIONS = "MAX MIN SUM PROD LAND BAND LOR BOR LXOR BXOR MAXLOC MINLOC REPLACE NO_OP".split()


class Prototype(msgspec.Struct, frozen=True):
    """A function as the header declares it."""

    parameters: str
    names: tuple[str, ...]


def prototypes(header: str) -> dict[str, Prototype]:
    """Return the functions of ``MPI_`` that a preprocessed header declares, by name.

    >>> prototypes("int MPI_Barrier(MPI_Comm comm) ;")["MPI_Barrier"].names
    ('comm',)
    """
    found = {}
    for match in _PROTOTYPE.finditer(_ATTRIBUTE.sub("", header)):
        parameters = " ".join(match[2].split())
        each = [] if parameters in ("", "void") else comma_parts(parameters)
        names = [named[1] for part in each if (named := _NAME.search(part)) is not None]
        if len(names) == len(each):
            found[match[1]] = Prototype(parameters or "void", tuple(names))
    return found


def header_source() -> str:
    """Return the C source that does not depend on the MPI: the layout, and the work of wrappers."""
    return files(__package__).joinpath("recorder.h").read_text("utf-8")


def generate(found: Mapping[str, Prototype]) -> str:
    """Return the source of the recorder for an MPI with these functions."""
    parts = [
        "#define _GNU_SOURCE\n#include <mpi.h>\n#include <dlfcn.h>\n#include <stddef.h>",
        f"#define VERSION {layout.VERSION:#x}ull\n",
        header_source(),
        *(
            f'_Static_assert(sizeof(struct {name}) == {ctypes.sizeof(each)}, "{name}");'
            for name, each in layout.STRUCTURES.items()
        ),
        *(
            f'_Static_assert(offsetof(struct {name}, {field}) == {offset}, "{name}.{field}");'
            for name, field, offset in layout.offsets()
        ),
        _constants(),
    ]
    for number, function in enumerate(NUMBERED, 1):
        for name in (function.name, f"{function.name}_c"):
            prototype = found.get(name)
            if prototype is not None and len(prototype.names) == len(function.arguments):
                parts.append(_c_wrapper(number, name, function, prototype))
        if function.name in found:
            parts += _fortran_wrappers(number, function)
    return "\n".join(parts)


def _constants() -> str:
    lines = ["static void name_constants(void) {"]
    for table, names in (("datatypes", _DATATYPES), ("operations", _OPERATIONS)):
        for name in names:
            lines += [
                f"#ifdef MPI_{name}",
                f'  named(M.{table}, "MPI_{name}", BITS(MPI_{name}));',
                "#endif",
            ]
    return "\n".join([*lines, "}\n"])


class _Arguments:
    """The arguments of one wrapper, as C expressions of their values.

    Arguments are found by their meaning, or by their names in the standard for results.
    """

    def __init__(
        self, function: mpi_functions.Prototype, names: Sequence[str], *, is_fortran: bool
    ) -> None:
        arguments = function.arguments
        self._meant = {each.name: name for each, name in zip(arguments, names, strict=True)}
        self._named = {
            each.standard_name: name for each, name in zip(arguments, names, strict=True)
        }
        self._pointed = {each.name for each in arguments if each.is_pointed}
        self.is_fortran = is_fortran

    def __contains__(self, argument: str) -> bool:
        return argument in self._meant

    def number(self, argument: str) -> str:
        """Return an argument that is a number, which Fortran passes by its address."""
        name = self._meant[argument]
        kind = "MPI_Aint" if mpi_functions.TYPES[argument] == "address" else "MPI_Fint"
        return f"*(const {kind} *){name}" if self.is_fortran else name

    def result(self, argument: str) -> str:
        """Return a number that MPI has set."""
        return f"*(const {'MPI_Fint' if self.is_fortran else 'int'} *){self._named[argument]}"

    def handle(self, argument: str, word: str, *, is_pointer: bool = False) -> str:
        """Return a handle as C has it; *word* is the part of its type's name."""
        name = self._meant.get(argument) or self._named[argument]
        if self.is_fortran:
            return f"PMPI_{word}_f2c(*(const MPI_Fint *){name})"
        return f"*({name})" if is_pointer or argument in self._pointed else name

    def has(self, name: str) -> bool:
        """Return whether the standard has an argument of this name."""
        return name in self._named

    def requests(self) -> str:
        """Return a call that keeps the handles of an array of requests."""
        function = "handles_in_fortran" if self.is_fortran else "handles_in_c"
        return f"{function}(t, n, {self._meant['requests']})"

    def element(self, argument: str, index: str) -> str:
        """Return the number at an index of an array that MPI has set."""
        kind = "MPI_Fint" if self.is_fortran else "int"
        return f"((const {kind} *){self._named[argument]})[{index}]"

    @property
    def first_index(self) -> int:
        """The index of the first request, as MPI counts."""
        return 1 if self.is_fortran else 0


_NUMBERS = {
    "count": ("count", "number"),
    "receive_count": ("count2",),
    "peer": ("dest", "target", "root"),
    "source": ("source",),
    "displacement": ("displacement",),
    "tag": ("tag",),
    "receive_tag": ("tag2",),
}
"""The fields of an entry that are numbers, with the meanings of their arguments."""
_HANDLES = {
    "comm": ("communicator", "Comm"),
    "win": ("window", "Win"),
    "file": ("file_of", "File"),
}
"""Arguments that are a communicator, a window or a file: their functions in recorder.h, and their
words in names of MPI."""


def _fill(number: int, function: mpi_functions.Prototype, of: _Arguments) -> Iterator[str]:
    """Yield the statements that fill the entry of a call."""
    persistent = " | PERSISTENT" if function.role & Role.PERSISTENT else ""
    yield f"c->function = {number}{persistent};"
    for field, candidates in _NUMBERS.items():
        yield from (f"c->{field} = {of.number(each)};" for each in candidates if each in of)
    for field, word, name in (("datatype", "Type", "datatype"), ("operation", "Op", "op")):
        if name in of:
            yield f"c->{field} = BITS({of.handle(name, word)});"
    yield f"c->group = {_group(function, of)};"
    if function.role & Role.COLLECTIVE and "comm" in of:
        yield "collective(c);"
    if _uses_request(function, of):
        handle = of.handle("request", "Request", is_pointer="request" in of)
        yield f"c->request = handle = BITS({handle});"
    if "requests" in of:
        yield f"n = {of.number('number')};"
        yield f"handles = {of.requests()};"
    if function.blocking:
        yield "stamp(t);"


def _uses_request(function: mpi_functions.Prototype, of: _Arguments) -> bool:
    """Return whether a function has one request, which another call has made."""
    return of.has("request") and not function.role & Role.OPENS


def _group(function: mpi_functions.Prototype, of: _Arguments) -> str:
    if function.name == "MPI_Abort":
        return "0"
    for argument, (look_up, word) in _HANDLES.items():
        if argument in of:
            return f"{look_up}({of.handle(argument, word)})"
    return "0"


def _after(function: mpi_functions.Prototype, of: _Arguments) -> Iterator[str]:
    """Yield the statements after a call that has succeeded."""
    name = function.name
    if name in ("MPI_Init", "MPI_Init_thread"):
        yield "initialised();"
    if name == "MPI_Finalize":
        yield "M.state = 2;"
    if name == "MPI_Comm_set_name":
        yield f"name_communicator(c->group, {of.handle('comm', 'Comm')});"
    if name == "MPI_Win_set_name":
        yield f"name_window(c->group, {of.handle('win', 'Win')});"
    if of.has(_MADE) and not function.role & Role.OPENS:
        yield f"made_communicator(c->group, {of.handle(_MADE, 'Comm', is_pointer=True)});"
    if function.role & Role.OPENS:
        yield f"open_request(t, c, BITS({of.handle('request', 'Request', is_pointer=True)}));"
    elif name == "MPI_Request_free":
        yield "close_request(handle, 1);"
    elif name == "MPI_Wait":
        yield "close_request(handle, 0);"
    elif name == "MPI_Test":
        yield f"if ({of.result('flag')}) close_request(handle, 0);"
    elif name == "MPI_Waitall":
        yield "close_all(handles, n);"
    elif name == "MPI_Testall":
        yield f"if ({of.result('flag')}) close_all(handles, n);"
    elif name in ("MPI_Waitany", "MPI_Testany"):
        yield f"close_at(handles, n, {of.result('index')} - {of.first_index});"
    elif name in ("MPI_Waitsome", "MPI_Testsome"):
        yield f"int done = {of.result('outcount')};"
        yield "for (int k = 0; done != MPI_UNDEFINED && k < done; k++)"
        at = f"{of.element('array_of_indices', 'k')} - {of.first_index}"
        yield f"  close_at(handles, n, {at});"


def _body(
    number: int, function: mpi_functions.Prototype, of: _Arguments, call: str, succeeded: str
) -> str:
    fill, after = [*_fill(number, function, of)], [*_after(function, of)]
    frees = any(each.is_pointed for each in function.arguments)
    lines = [
        "  char here;",
        "  uint64_t frame = (uint64_t)(uintptr_t)&here;",
        "  struct thread *t = thread();",
        "  struct call *c = enter(t, frame);",
    ]
    if _uses_request(function, of):
        lines.append("  uint64_t handle = 0;")
    if "requests" in of:
        lines.append("  uint64_t *handles = NULL;\n  int n = 0;")
    lines.append("  if (LIKELY(c != NULL)) {")
    lines += [f"    {each}" for each in [*fill, "begin(t, c, frame);"]]
    if frees:
        lines.append("    if (c->group > 0) forget_group(M.group[c->group - 1].handle);")
    lines += ["  }", f"  {call}", "  if (LIKELY(t->frame == frame)) {"]
    if after:
        lines.append(f"    if (LIKELY({succeeded})) {{")
        lines += [f"      {each}" for each in after]
        lines.append("    }")
    if "requests" in of:
        lines.append("    free_handles(t, handles);")
    return "\n".join([*lines, "    t->frame = 0;", "  }"])


def _c_wrapper(
    number: int, name: str, function: mpi_functions.Prototype, prototype: Prototype
) -> str:
    of = _Arguments(function, prototype.names, is_fortran=False)
    call = f"int error = P{name}({', '.join(prototype.names)});"
    body = _body(number, function, of, call, "error == MPI_SUCCESS")
    return f"int {name}({prototype.parameters}) {{\n{body}\n  return error;\n}}\n"


def _fortran_wrappers(number: int, function: mpi_functions.Prototype) -> Iterator[str]:
    """Yield the entries that compilers of Fortran call, of mpif.h and ``use mpi``, and of mpi_f08.

    All arguments are addresses. The lengths of texts follow them.
    """
    if function.kind == "init":
        arguments = tuple(
            each
            for each in function.arguments
            if each.standard_name not in _NO_ARGUMENTS_IN_FORTRAN
        )
        function = msgspec.structs.replace(function, arguments=arguments)
    names = [f"a{i}" for i in range(len(function.arguments))]
    lengths = [f"l{i}" for i, each in enumerate(function.arguments) if each.standard_name in TEXTS]
    parameters = ", ".join(
        [*(f"void *{each}" for each in names), "MPI_Fint *error"]
        + [f"size_t {each}" for each in lengths]
    )
    passed = ", ".join([*names, "error", *lengths])
    of = _Arguments(function, names, is_fortran=True)
    lower, upper = function.name.lower(), function.name.upper()
    for symbol, aliases in (
        (f"{lower}_", (lower, f"{lower}__", upper)),
        (f"{lower}_f08_", ()),
    ):
        call = (
            f"static void (*next)({parameters});\n"
            f'  if (next == NULL) next = (void (*)({parameters}))dlsym(RTLD_NEXT, "{symbol}");\n'
            f"  next({passed});"
        )
        body = _body(number, function, of, call, "(error == NULL || *error == MPI_SUCCESS)")
        yield f"void {symbol}({parameters}) {{\n{body}\n}}\n"
        for alias in aliases:
            yield f'void {alias}({parameters}) __attribute__((alias("{symbol}")));\n'
