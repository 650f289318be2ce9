"""Source files of installed libraries and of the compiler, such as headers of C++ templates."""

from __future__ import annotations

from pgdb.patterns import pattern

_SYSTEM = pattern(
    r"\A/usr/(?:local/)?(?:include|lib|lib32|lib64)/|\A/opt/(?:intel|nvidia|rocm[^/]*|cray|ibm)/"
    r"|\A/(?:gnu|nix)/store/|/include/c\+\+/"
)


def is_of_system(path: str) -> bool:
    """Return whether a source file belongs to an installed library, by its absolute path.

    Code of a header stands in the user's program, as templates and inline functions do. It is
    nevertheless not the place that the user wants to see first.

    >>> is_of_system("/usr/include/c++/12/bits/stl_vector.h"), is_of_system("/home/a/include/x.hpp")
    (True, False)
    """
    return _SYSTEM.search(path) is not None
