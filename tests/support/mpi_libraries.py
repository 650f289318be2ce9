"""MPI libraries that are not as PGDB expects: changed copies, and static ones."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

from pgdb import elf
from tests.support.programs import Mpi, Program

_TIMEOUT_S = 60
_FOUND = re.compile(r"^\s*(\S+) => (/\S+)", re.MULTILINE)


def _output(*line: str | Path) -> str:
    return subprocess.run(
        line, check=True, capture_output=True, text=True, timeout=_TIMEOUT_S
    ).stdout


def changed_copy(program: Program, function: str, code: bytes, folder: Path) -> None:
    """Copy the MPI library of *program* to *folder*, with *code* at the beginning of *function*."""
    for name, path in _FOUND.findall(_output("ldd", program.path)):
        words = (line.split() for line in _output("nm", "-D", "--defined-only", path).splitlines())
        symbols = {each[2].partition("@")[0]: int(each[0], 16) for each in words if len(each) == 3}
        if (address := symbols.get(function)) is None:
            continue
        data = bytearray(Path(path).read_bytes())

        def read(offset: int, size_bytes: int, data: bytearray = data) -> bytes:
            return bytes(data[offset : offset + size_bytes])

        for part in elf.segments_of(elf.header(read), read):
            if part.kind == 1 and part.address <= address < part.address + part.size_bytes:
                place = address - part.address + part.offset
                data[place : place + len(code)] = code
                (folder / name).write_bytes(data)
                return
    raise AssertionError(f"no library of {program.path} has {function}")


def linked_statically(mpi: Mpi, source: Path, path: Path) -> None:
    """Build *source* as *path*, with the library of the machine's MPICH in it; skip where the
    machine has no such library."""
    compiler, *options = _output(mpi.compilers[".c"], "-show").split()
    folders = [each[2:] for each in options if each.startswith("-L")]
    archives = [Path(each, "libmpich.a") for each in folders]
    archive = next((each for each in archives if each.exists()), None)
    if archive is None:
        pytest.skip("this machine has no static library of MPICH")
    shared = archive.with_name("libmpich.so").resolve()
    needed = re.findall(r"NEEDED.*\[(\S+)\]", _output("readelf", "-d", shared))
    libraries = [f"-l:{each}" for each in needed if not each.startswith(("libc.", "ld-"))]
    includes = [each for each in options if each.startswith("-I")]
    line = [compiler, *includes, "-g", "-pthread", source, "-o", path, archive, *libraries, "-lm"]
    subprocess.run(line, check=True, timeout=_TIMEOUT_S)
