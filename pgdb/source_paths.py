"""Source files of installed libraries, of the compiler and of Python's interpreter."""

from __future__ import annotations

from functools import lru_cache

from pgdb.patterns import pattern

_SYSTEM = pattern(
    r"\A/usr/(?:local/)?(?:include|lib|lib32|lib64)/|\A/opt/(?:intel|nvidia|rocm[^/]*|cray|ibm)/"
    r"|\A/(?:gnu|nix)/store/|/include/c\+\+/"
    r"|/(?:[Pp]ython-\d|cpython)[^/]*/(?:\./)?(?:Python|Modules|Objects|Parser|Include|Programs)/"
)
_PYTHON_LIBRARY = pattern(
    r"/(?:site|dist)-packages/|/lib(?:64)?/python\d[\d.t]*/|\A<frozen |\A<__array"
    r"|\A(?:src/)?mpi4py/"
)


def is_of_system(path: str) -> bool:
    """Return whether a source file belongs to an installed library, by its absolute path.

    Code of a header stands in the user's program, as templates and inline functions do. It is
    nevertheless not the place that the user wants to see first.

    >>> is_of_system("/usr/include/c++/12/bits/stl_vector.h"), is_of_system("/home/a/include/x.hpp")
    (True, False)
    """
    return _SYSTEM.search(path) is not None


@lru_cache(maxsize=4096)
def is_of_python_library(path: str) -> bool:
    """Return whether a Python file is of the standard library, or of an installed package."""
    return _PYTHON_LIBRARY.search(path) is not None
