"""Ranks in functions without symbols: of a stripped program, a stripped library, made code."""

from __future__ import annotations

import re
import subprocess
import time
from pathlib import Path

import pytest

import pgdb
from pgdb.frontend.analysis.calltree import CallTree
from pgdb.records import Frame, Stack
from tests.support.programs import Builder, Mpi, Program

pytestmark = pytest.mark.mpi
RANKS = 5
DEADLINE_S = 60.0


@pytest.fixture(params=["-pie", "-no-pie"])
def stripped(mpi: Mpi, builder: Builder, request: pytest.FixtureRequest) -> Program:
    library = builder.build_library("stripped.c", "-DLIBRARY", "-O1", *mpi_flags(mpi))
    folder = library.parent
    flags = ("-Wl,--no-as-needed", request.param)
    program = builder.build(mpi, "stripped.c", *flags, str(library), f"-Wl,-rpath,{folder}")
    bare = program.path.with_name("bare")
    subprocess.run(["strip", "-o", bare, program.path], check=True)
    return Program(path=bare, source=program.source)


def mpi_flags(mpi: Mpi) -> tuple[str, ...]:
    """Return the flags with which the library finds mpi.h, which it needs nothing else of."""
    shown = subprocess.run(
        [mpi.compilers[".c"], "-E", "-x", "c", "-", "-include", "mpi.h"],
        input="", capture_output=True, text=True, check=True,
    ).stdout  # fmt: skip
    found = re.search(r'"(/[^"]*)/mpi\.h"', shown)
    assert found
    return (f"-I{found[1]}", "-s")


def unnamed(frames: tuple[Frame, ...]) -> list[str]:
    """Return the names that PGDB has made up, innermost first.

    Where the C library's debug information is not installed, it has such names as well.
    """
    made = [each.function for each in frames if "+0x" in each.function]
    return [each for each in made if not each.startswith("libc.")]


def own_names(names: list[str]) -> list[str]:
    """Return the names of functions of the program itself."""
    return [each for each in names if each.startswith("bare+")]


def symbol_of(program: Path, address: str) -> str:
    line = ["addr2line", "-f", "-e", str(program), address]
    return subprocess.run(line, capture_output=True, text=True, check=True).stdout.split("\n")[0]


def test_functions_without_symbols(mpi: Mpi, stripped: Program) -> None:
    with pgdb.launch(mpi.line(RANKS, stripped)) as session:
        session.continue_(wait=False)
        whole = stripped.path.with_name("stripped")

        def stacks() -> dict[int, tuple[Frame, ...]]:
            session.wait(timeout_s=1)
            session.interrupt()
            found = {}
            for rank in range(RANKS):
                record = session[rank].backtrace().for_rank(rank)
                assert isinstance(record, Stack)
                found[rank] = record.frames
            return found

        def are_there() -> bool:
            """Return whether all ranks have come to the function of the program that waits.

            GDB finds no caller of made code for certain: nothing describes it.
            """
            names = [unnamed(frames) for frames in found.values()]
            return all(len(each) >= 2 + (rank < 4) for rank, each in enumerate(names)) and (
                len({own_names(each)[0] for each in names}) == 1
            )

        found = stacks()
        deadline = time.monotonic() + DEADLINE_S
        while not are_there():
            assert time.monotonic() < deadline, found
            session.continue_(wait=False)
            found = stacks()

        names = {rank: unnamed(frames) for rank, frames in found.items()}
        assert "??" not in {each.function for frames in found.values() for each in frames}
        # All wait in one function of the program, and were called by different ones.
        own = {rank: own_names(each) for rank, each in names.items()}
        assert symbol_of(whole, own[0][0].rpartition("+")[2]) == "wait_here"
        assert [symbol_of(whole, each.rpartition("+")[2]) for each in own[0]][1:3] == [
            "early",
            "main",
        ]
        assert {symbol_of(whole, each.rpartition("+")[2]) for each in own[1][1:11]} == {"fall"}
        assert [each.partition("+")[0] for each in names[2]][1] == "stripped.so"
        assert names[2][1] != names[3][1]
        assert names[4][1].startswith("[anon]+0x")

        tree = session.tree()
        assert isinstance(tree, CallTree)
        assert sorted(map(str, (leaf.ranks for leaf in tree.leaves))) == list("01234")
        exact = session.tree(by="pc")
        (main,) = {
            place.offset
            for node in exact.nodes
            for place in node.frames
            if place.function == own[0][0] and "0" in str(node.ranks)
        }
        assert re.fullmatch(r"\+\d+", main)

        # A selected frame, and a stop, have the same name.
        level = next(each.level for each in found[0] if each.function == own[0][0])
        chosen = session[0].select_frame(f"frame {level}").for_rank(0)
        assert isinstance(chosen, Stack) and chosen.frames[0].function == own[0][0]
