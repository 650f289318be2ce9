"""Random programs with known arguments, built in one of the languages that call MPI."""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from pathlib import Path
from random import Random

import pytest

from tests.support.call_fortran import FLAGS, FortranGenerator
from tests.support.call_generator import Generator
from tests.support.call_python import PythonGenerator
from tests.support.call_truth import Truth
from tests.support.programs import Mpi

FORTRAN = ("mpif.h", "mpi", "mpi_f08")
"""The interfaces of Fortran, named as languages."""

PYTHON = "mpi4py"


def built(
    mpi: Mpi, language: str, flags: Sequence[str], random: Random, calls: int, directory: Path
) -> tuple[Path, dict[int, Truth]]:
    """Write a program and build it; skip the test where there is no compiler.

    :param language: ``c``, ``cpp``, an interface of Fortran, or ``mpi4py``.
    """
    more: tuple[str, ...] = ("-w",)
    suffix = f".{language}"
    generator: Generator
    if language == PYTHON:
        text, truth = PythonGenerator(random).program(calls)
        program = directory / f"{mpi.name}-calls.py"
        program.write_text(text, encoding="utf-8")
        return program, truth
    if language in FORTRAN:
        generator, suffix = FortranGenerator(random, language), ".f90"
        more += (*FLAGS, f"-J{directory}")
    else:
        generator = Generator(random, is_cpp=language == "cpp")
    compiler = mpi.compilers.get(suffix)
    if compiler is None:
        pytest.skip(f"this machine's {mpi.name} has no compiler for {suffix}")
    text, truth = generator.program(calls)
    name = "".join([mpi.name, "-", language.replace(".", ""), *flags]).replace(" ", "")
    source, program = directory / f"{name}{suffix}", directory / name
    source.write_text(text, encoding="utf-8")
    # MPICH's mpifort adds -O2 itself, so the flags come behind.
    words = [compiler, *mpi.flags, *more, *flags, "-o", str(program), str(source)]
    subprocess.run(words, check=True)
    return program, truth
