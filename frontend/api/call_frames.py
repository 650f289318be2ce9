"""Commands of GDB that select the frame from which a rank has called MPI."""

from __future__ import annotations

from collections.abc import Iterator

from pgdb.frontend.api import polls

_BELOW_PYTHON = (
    "torch::autograd::python::PythonEngine::execute",
    "pybind11::cpp_function::dispatcher",
)
"""Functions of C in which a Python function of PyTorch's waits for other ranks, outermost first."""


def lines_to(function: str, place: str) -> Iterator[tuple[str, ...]]:
    """Yield the ways to the caller of a function, each of one command or several.

    The frame of MPI's function is found in programs without symbols too, and below Python's
    frames; libraries whose frames have inner names leave the caller's name. mpi4py calls the
    functions for large counts, whose names end with ``_c``, where the library has them. Functions
    of PyTorch are functions of Python, whose frames GDB does not know.

    :param place: the name of the function that has made the call, empty if it is unknown.
    """
    is_of_mpi = "MPI_" in function
    names = [f"{start}{function}{end}" for end in ("", "_c") for start in ("P", "")]
    for each in names if is_of_mpi else _BELOW_PYTHON:
        yield f"frame function {each}", polls.UP
    if place and is_of_mpi:
        yield (f"frame function {place}",)
