"""The C source of the flight recorder, for the MPI whose header a compiler finds."""

from __future__ import annotations

import ctypes
import re
from collections.abc import Iterator, Mapping, Sequence
from importlib.resources import files

import msgspec

from pgdb.mpi_recorder import layout
from pgdb.mpi_recorder.functions import FUNCTIONS, TEXTS, Function, Role

_ATTRIBUTE = re.compile(r"__attribute__\s*\(\((?:[^()]|\([^()]*\))*\)\)")
_PROTOTYPE = re.compile(r"\bint\s+(MPI_\w+)\s*\(([^;{}]*)\)\s*;")
_NAME = re.compile(r"(\w+)\s*(?:\[[^\]]*\]\s*)*\Z")
_HANDLES = {
    "comm": "Comm",
    "win": "Win",
    "freed_win": "Win",
    "fh": "File",
    "closed_fh": "File",
}
"""Arguments that are a communicator, a window or a file, and the word for it in names of MPI."""
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
        each = [] if parameters in ("", "void") else _split(parameters)
        names = [named[1] for part in each if (named := _NAME.search(part)) is not None]
        if len(names) == len(each):
            found[match[1]] = Prototype(parameters or "void", tuple(names))
    return found


def _split(parameters: str) -> list[str]:
    parts, depth = [""], 0
    for letter in parameters:
        depth += (letter in "([") - (letter in ")]")
        if letter == "," and not depth:
            parts.append("")
        else:
            parts[-1] += letter
    return [each.strip() for each in parts]


def header_source() -> str:
    """Return the C source that does not depend on the MPI: the layout, and the work of wrappers."""
    return files(__package__).joinpath("recorder.h").read_text("utf-8")


def generate(found: Mapping[str, Prototype]) -> str:
    """Return the source of the recorder for an MPI with these functions."""
    parts = [
        "#define _GNU_SOURCE\n#include <mpi.h>\n#include <dlfcn.h>",
        f"#define VERSION {layout.VERSION:#x}ull\n",
        header_source(),
        *(
            f'_Static_assert(sizeof(struct {name}) == {ctypes.sizeof(each)}, "{name}");'
            for name, each in layout.STRUCTURES.items()
        ),
        _constants(),
    ]
    for number, function in enumerate(FUNCTIONS, 1):
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
    """The arguments of one wrapper, as C expressions of their values."""

    def __init__(self, function: Function, names: Sequence[str], *, is_fortran: bool) -> None:
        self._names = dict(zip(function.arguments, names, strict=True))
        self.is_fortran = is_fortran

    def __contains__(self, argument: str) -> bool:
        return argument in self._names

    def number(self, argument: str) -> str:
        """Return an argument that is a number, which Fortran passes by its address."""
        name = self._names[argument]
        return f"*(const MPI_Fint *){name}" if self.is_fortran else name

    def result(self, argument: str) -> str:
        """Return a number that MPI has set."""
        return f"*(const {'MPI_Fint' if self.is_fortran else 'int'} *){self._names[argument]}"

    def handle(self, argument: str, word: str, *, is_pointer: bool = False) -> str:
        """Return a handle as C has it; *word* is the part of its type's name."""
        name = self._names[argument]
        if self.is_fortran:
            return f"PMPI_{word}_f2c(*(const MPI_Fint *){name})"
        return f"*({name})" if is_pointer else name

    def requests(self) -> str:
        """Return a call that keeps the handles of an array of requests."""
        name = self._names["array_of_requests"]
        function = "handles_in_fortran" if self.is_fortran else "handles_in_c"
        return f"{function}(c, n, {name})"

    def element(self, argument: str, index: str) -> str:
        """Return the number at an index of an array that MPI has set."""
        kind = "MPI_Fint" if self.is_fortran else "int"
        return f"((const {kind} *){self._names[argument]})[{index}]"

    @property
    def first_index(self) -> int:
        """The index of the first request, as MPI counts."""
        return 1 if self.is_fortran else 0


def _fill(number: int, function: Function, of: _Arguments) -> Iterator[str]:
    """Yield the statements that fill the entry of a call."""
    waits = "array_of_requests" in of
    fields = {
        "count": ("count", "sendcount"),
        "receive_count": ("recvcount",),
        "dest": ("dest",),
        "source": ("source",),
        "tag": ("tag", "sendtag"),
        "receive_tag": ("recvtag",),
        "root": ("root",),
    }
    yield f"c->function = {number};"
    for field, candidates in fields.items():
        name = next((each for each in candidates if each in of and not waits), None)
        none = "NO_COUNT" if field.endswith("count") else "NONE"
        yield f"c->{field} = {none if name is None else of.number(name)};"
    for field, word, candidates in (
        ("datatype", "Type", ("datatype", "sendtype", "recvtype")),
        ("operation", "Op", ("op",)),
    ):
        name = next((each for each in candidates if each in of), None)
        yield f"c->{field} = {0 if name is None else f'BITS({of.handle(name, word)})'};"
    yield "c->group_calls = 0;"
    yield "c->requests = 0;"
    yield f"c->group = {_group(function, of)};"
    if function.role & Role.COLLECTIVE and "comm" in of:
        yield "collective(c);"
    if "request" in of and not function.role & Role.OPENS:
        handle = of.handle("request", "Request", is_pointer=not _by_value(function))
        yield "c->requests = 1;"
        yield "handles = own->requests;"
        yield f"handles[0] = BITS({handle});"
    if waits:
        count = "incount" if "incount" in of else "count"
        yield f"n = {of.number(count)};"
        yield f"handles = {of.requests()};"


def _by_value(function: Function) -> bool:
    """Return whether a request is an argument by its value."""
    return function.name in ("MPI_Pready", "MPI_Parrived")


def _group(function: Function, of: _Arguments) -> str:
    if function.name in ("MPI_Abort",):
        return "0"
    for argument, word in _HANDLES.items():
        if argument not in of:
            continue
        is_pointer = argument.startswith(("freed", "closed")) or _frees(function)
        handle = of.handle(argument, word, is_pointer=is_pointer)
        look_up = {"Comm": "communicator", "Win": "window", "File": "file_of"}[word]
        return f"{look_up}({handle})"
    return "0"


def _frees(function: Function) -> bool:
    return function.name in ("MPI_Comm_free", "MPI_Comm_disconnect")


def _after(function: Function, of: _Arguments) -> Iterator[str]:
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
    if _MADE in of and "request" not in of:
        yield f"made_communicator(c->group, {of.handle(_MADE, 'Comm', is_pointer=True)});"
    if function.role & Role.OPENS:
        handle = of.handle("request", "Request", is_pointer=True)
        yield f"open_request(BITS({handle}), {_kind(function)}, c);"
    elif name == "MPI_Request_free":
        yield "close_request(handles[0], 1);"
    elif name == "MPI_Wait":
        yield "close_request(handles[0], 0);"
    elif name == "MPI_Test":
        yield f"if ({of.result('flag')}) close_request(handles[0], 0);"
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
    if "array_of_requests" in of:
        yield "free_handles(handles);"


def _kind(function: Function) -> str:
    name = function.name
    if function.role & Role.COLLECTIVE:
        kind = "COLLECTIVE"
    elif "source" in function.arguments and "dest" not in function.arguments:
        kind = "RECEIVE"
    else:
        kind = "RECEIVE" if name == "MPI_Imrecv" else "SEND"
    if function.role & Role.PERSISTENT:
        kind += " | PERSISTENT"
    return f"{kind} | PARTITIONED" if name in ("MPI_Psend_init", "MPI_Precv_init") else kind


def _body(number: int, function: Function, of: _Arguments, call: str, succeeded: str) -> str:
    fill, after = [*_fill(number, function, of)], [*_after(function, of)]
    frees = _group(function, of) if _frees(function) or function.name in _ENDS else ""
    lines = ["  struct call *c = enter();"]
    if any("handles" in each for each in fill):
        lines.append("  uint64_t *handles = NULL;")
    if any(each.startswith("n = ") for each in fill):
        lines.append("  int n = 0;")
    lines.append("  if (c != NULL) {")
    lines += [f"    {each}" for each in [*fill, "begin(c);"]]
    if frees:
        lines.append("    if (c->group > 0) forget_group(M.group[c->group - 1].handle);")
    lines += ["  }", f"  {call}"]
    if after:
        lines.append(f"  if (c != NULL && {succeeded}) {{")
        lines += [f"    {each}" for each in after]
        lines.append("  }")
    return "\n".join([*lines, "  leave(c);"])


_ENDS = ("MPI_Win_free", "MPI_File_close")


def _c_wrapper(number: int, name: str, function: Function, prototype: Prototype) -> str:
    of = _Arguments(function, prototype.names, is_fortran=False)
    call = f"int error = P{name}({', '.join(prototype.names)});"
    body = _body(number, function, of, call, "error == MPI_SUCCESS")
    return f"int {name}({prototype.parameters}) {{\n{body}\n  return error;\n}}\n"


def _fortran_wrappers(number: int, function: Function) -> Iterator[str]:
    """Yield the entries that compilers of Fortran call, of mpif.h and ``use mpi``, and of mpi_f08.

    All arguments are addresses. The lengths of texts follow them.
    """
    if "argc" in function.arguments:
        arguments = tuple(
            each for each in function.arguments if each not in _NO_ARGUMENTS_IN_FORTRAN
        )
        function = msgspec.structs.replace(function, arguments=arguments)
    names = [f"a{i}" for i in range(len(function.arguments))]
    lengths = [f"l{i}" for i, each in enumerate(function.arguments) if each in TEXTS]
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
