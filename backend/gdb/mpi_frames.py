"""Separation of the user's frames of a stack from the frames inside an MPI library.

A rank that waits inside MPI spins: its inner frames change all the time, and differ between MPIs.
So they are folded at the MPI call, which gets its name in the standard. The object file of a
frame's address decides whose code the frame is, not the function's name alone: a user's own
``mpi_exchange``, the wrapper of a measuring tool and a reduction function that MPI calls back stay
visible.
"""

from __future__ import annotations

import enum
import os
from bisect import bisect_right
from collections.abc import Sequence
from functools import cached_property, lru_cache
from typing import NamedTuple

from msgspec.structs import replace

from pgdb.backend.gdb.decode import MPI_CALL, is_readable
from pgdb.backend.python.glue import is_interpreter
from pgdb.backend.sbd.rank_files import MappedFile
from pgdb.patterns import pattern
from pgdb.records import Frame

# Libraries with MPI calls, of Open MPI, MPICH, Intel, Cray, MVAPICH, IBM, Fujitsu; not every
# lib…mpi…: libmpiP.so is a profiler, and libmpi_mine.so may be the user's. Our recorder of MPI
# calls stands between the program and MPI.
_MPI_LIBRARY = pattern(
    r"libpgdb-mpi-recorder\.so\Z|libp?f?mpi(?:ch)?(?:cxx|fort|f90|java|gf|gc4)?"
    r"(?:_(?:cxx|mpifh|usempi|java|ilp64|abi|mt|dbg|ibm|cray|gnu|intel|nvidia|pgi|amd|aocc)\w*)?"
    r"(?:-[\d.]+)?\.so[\d.]*\Z"
)
# Parts and dependencies of these libraries.
_RUNTIME_LIBRARY = pattern(
    r"(?:lib(?:open-(?:pal|rte)|oshmem|ompi\w*|prrte|pmix|pmi2?|event(?:_\w+)?|hwloc|uc[cmpst]"
    r"|uc[cmpst]_\w+|fabric|psm\w*|hfi\w*|opx|ibverbs|rdmacm|mlx\d|efa|xpmem|cxi|ugni|dmapp"
    r"|hcoll|ocoms|sharp\w*|mxm|fca|portals|yaksa|mpcp\w*|mpi_shm_heap_proxy)"
    r"|mca_\w+|lib[\w.-]+-fi)(?:-[\d.]+)?\.so[\d.]*\Z"
)
_C_RUNTIME = pattern(r"(?:lib(?:c|pthread|rt|dl|m|stdc\+\+|c\+\+|gcc_s)|ld)[.-]")
_SYSTEM_DIRECTORIES = ("/lib/", "/lib64/", "/usr/lib/", "/usr/lib64/")
_MOST_OWNERS = 4096
_VERSION = pattern(r"(\.so)[\d.]*\Z")

_C_NAME = pattern(r"P?MPI_([A-Z]\w*?)(?:_c)?\Z")
_FORTRAN_NAME = pattern(r"p?mpi_([a-z][a-z0-9_]*?)(?:_f08(?:ts)?)?_{0,2}\Z")
_INTERNAL_NAMES = {
    "ompi_mpi_init": "PMPI_Init",
    "ompi_mpi_finalize": "PMPI_Finalize",
    "ompi_mpi_abort": "PMPI_Abort",
}


class Owner(enum.Enum):
    """The owner of an object file's code."""

    USER = "user"
    """The program, or a library of the user's."""
    MPI = "mpi"
    """A library with MPI calls."""
    RUNTIME = "runtime"
    """A part or dependency of an MPI library."""
    C_RUNTIME = "c runtime"
    """A library of every program: the C library and the like."""
    SYSTEM = "system"
    """Another library of the system, which may serve the user or MPI."""
    UNKNOWN = "unknown"


class Place(NamedTuple):
    """A frame and its program counter's address and owner."""

    frame: Frame
    address: int
    owner: Owner

    @property
    def call(self) -> str:
        """Name of the MPI call that the frame is, empty if it is none."""
        if self.owner is Owner.MPI:
            return mpi_name(self.frame.function)
        return self.frame.function if MPI_CALL.match(self.frame.function) else ""


class Objects:
    """The object files that a process has mapped."""

    def __init__(self, mapped: Sequence[MappedFile], executable: str) -> None:
        self._mapped = sorted(mapped, key=lambda each: each.start)
        self._starts = [each.start for each in self._mapped]
        self._executable = executable
        self._owners: dict[tuple[int, str], Owner] = {}
        self.has_mpi = any(owner_of(each.path) is Owner.MPI for each in self._mapped)
        """Whether an MPI library is among the files; else MPI is linked statically, or absent."""

    @cached_property
    def has_python(self) -> bool:
        """Whether an interpreter of Python is among the files."""
        return any(is_interpreter(each.path) for each in self._mapped)

    @cached_property
    def has_torch(self) -> bool:
        """Whether the Python library of PyTorch is among the files."""
        return any("/libtorch_python." in each.path for each in self._mapped)

    @property
    def is_python(self) -> bool:
        """Whether the program itself is the interpreter."""
        return is_interpreter(self._executable)

    def path(self, address: int) -> str:
        """Return the path of the file with the code at *address*, empty if it is in none."""
        at = bisect_right(self._starts, address) - 1
        is_inside = at >= 0 and address < self._mapped[at].end
        return self._mapped[at].path if is_inside else ""

    def has(self, address: int) -> bool:
        """Return whether *address* is in a mapped file."""
        at = bisect_right(self._starts, address) - 1
        return at >= 0 and address < self._mapped[at].end

    def owner(self, address: int, library: str) -> Owner:
        """Return the owner of the code at *address*; *library* is GDB's name for its library, if
        any."""
        owner = self._owners.get((address, library))
        if owner is None:
            if len(self._owners) >= _MOST_OWNERS:
                self._owners.clear()
            owner = self._owners[address, library] = self._owner(address, library)
        return owner

    def _owner(self, address: int, library: str) -> Owner:
        at = bisect_right(self._starts, address) - 1
        if at >= 0 and address < self._mapped[at].end:
            path = self._mapped[at].path
            return Owner.USER if path == self._executable else owner_of(path)
        return owner_of(library)


@lru_cache(maxsize=4096)
def owner_of(path: str) -> Owner:
    """Return the owner of a library, by its name and directory."""
    name = os.path.basename(path)
    if not name:
        return Owner.UNKNOWN
    if _MPI_LIBRARY.match(name):
        return Owner.MPI
    if _RUNTIME_LIBRARY.match(name):
        return Owner.RUNTIME
    if _C_RUNTIME.match(name):
        return Owner.C_RUNTIME
    return Owner.SYSTEM if path.startswith(_SYSTEM_DIRECTORIES) else Owner.USER


@lru_cache(maxsize=4096)
def mpi_name(function: str) -> str:
    """Return the name of the MPI call that a function of an MPI library is, empty if it is none.

    All names of a call give the same result: those of the profiling layer, of Fortran and of
    Fortran
    2008, and those for large counts.

    >>> mpi_name("pmpi_recv__"), mpi_name("MPI_Recv"), mpi_name("mpi_comm_rank_f08_")
    ('PMPI_Recv', 'PMPI_Recv', 'PMPI_Comm_rank')
    >>> mpi_name("MPI::Comm::Send"), mpi_name("MPIR_Wait_impl")
    ('MPI::Comm::Send', '')
    """
    if match := _C_NAME.match(function):
        name = match[1]
        # Some Fortran compilers write capitals.
        return f"PMPI_{name.capitalize() if name.isupper() else name}"
    if match := _FORTRAN_NAME.match(function):
        return f"PMPI_{match[1].capitalize()}"
    return function if function.startswith("MPI::") else ""


def internal_name(function: str) -> str:
    """Return the MPI call that an internal function implements, or the function itself."""
    return _INTERNAL_NAMES.get(function, function)


def find_mpi_call(places: Sequence[Place], *, has_mpi: bool) -> int | None:
    """Return the index in *places*, innermost first, of the MPI call that contains the inner
    frames.

    Without an MPI library (*has_mpi*) MPI is linked into the program; then its frames are
    recognized by their names, and a user's function by its readable source file.
    """
    found = None
    is_in_mpi = False
    for at, place in enumerate(places):
        if has_mpi and place.owner is Owner.USER:
            break
        if not has_mpi and not place.call and is_readable(place.frame.fullname):
            break
        if place.frame.language:
            break
        if place.owner is Owner.MPI:
            found, is_in_mpi = at, True
        elif place.call and not is_in_mpi:
            found = at
    return found


def find_callback(places: Sequence[Place], *, has_mpi: bool) -> int | None:
    """Return the index in *places*, innermost first, of the MPI call that has called the user's
    innermost function; None for none."""
    first = next((at for at, each in enumerate(places) if each.owner is Owner.MPI), None)
    if not has_mpi or first is None or all(each.owner is not Owner.USER for each in places[:first]):
        return None
    at = find_mpi_call(places[first:], has_mpi=has_mpi)
    return None if at is None else first + at


def named(frame: Frame, name: str) -> Frame:
    """Return the frame of an MPI call under its standard *name*.

    The result omits the place inside the call, and the library's version and directory.
    """
    return replace(
        frame,
        function=name,
        file="",
        fullname="",
        line=0,
        library=_VERSION.sub(r"\1", os.path.basename(frame.library)),
        offset="",
    )


def is_of_runtime(places: Sequence[Place]) -> bool:
    """Return whether an MPI library has started a thread for itself."""
    if any(each.owner is Owner.USER for each in places):
        return False
    outer = (each.owner for each in reversed(places))
    start = next((owner for owner in outer if owner is not Owner.C_RUNTIME), None)
    return start in (Owner.MPI, Owner.RUNTIME)
