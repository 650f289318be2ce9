"""Fortran arrays with bounds that are not set yet; the answers are of GDB 13.1."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

import pytest

from pgdb.backend.gdb import blocks, unset_bounds
from pgdb.errors import CommandError
from pgdb.overlay.messages import ReadBlock
from pgdb.records import Failure, Variable, Variables
from tests.fakes.table_gdb import TableGdb

FRAME = '^done,frame={level="0",addr="0x1",func="sweep",file="sweep.%s",line="3"}'
NAMES = '^done,variables=[{name="n",arg="1"},{name="a",arg="1"},{name="b",arg="1"},{name="i"}]'
SIZES = {"n": "4", "a": "0", "b": "0", "i": "4"}
SHAPES = {"a": "(-11010047, 0, 3)", "b": "(0, 3)"}


def gdb_at(suffix: str) -> TableGdb:
    """Return a GDB at a frame of a source file with *suffix*."""
    return TableGdb(
        {
            "-stack-info-frame": FRAME % suffix,
            "-stack-list-variables 0": NAMES,
            **calls_of("sizeof", SIZES),
            **calls_of("shape", SHAPES),
            '-data-evaluate-expression "n"': '^done,value="5"',
            '-data-evaluate-expression "b"': '^error,msg="Cannot access memory at address 0x0"',
        }
    )


def calls_of(function: str, values: Mapping[str, str]) -> dict[str, str]:
    return {
        f'-data-evaluate-expression "{function}({name})"': f'^done,value="{value}"'
        for name, value in values.items()
    }


def test_only_an_empty_array_with_a_huge_dimension_is_not_printed() -> None:
    gdb = gdb_at("f90")
    found = asyncio.run(unset_bounds.unset_arrays(gdb, ["n", "a", "b"]))
    assert found == {"a": SHAPES["a"]}
    assert SHAPES["a"] in unset_bounds.about("a", SHAPES["a"])


def test_a_size_that_no_process_has_is_reported_as_unset_bounds() -> None:
    refusal = "value requires {} bytes, which is more than max-value-size"
    large, impossible = (
        f"<error reading variable: {refusal.format(size)}>" for size in (1 << 39, 6275072000024)
    )
    listed = Variables(items=(Variable("a", large), Variable("b", impossible)), empty="")
    reworded = unset_bounds.reworded(listed)
    assert isinstance(reworded, Variables)
    assert reworded.items == (Variable("a", large), Variable("b", unset_bounds.UNSET))
    whole = refusal.format(6275072000024)
    failure = unset_bounds.reworded(Failure(message=whole), "b")
    assert failure == Failure(message=unset_bounds.about("b"))
    assert "b has an impossible size" in unset_bounds.about("b")
    other = Failure(message=refusal.format(2000000))
    assert unset_bounds.reworded(other, "b") is other


def test_a_variable_of_the_compiler_is_not_evaluated() -> None:
    gdb = gdb_at("f90")
    gdb.answers["-stack-list-variables 0"] = NAMES.replace('name="n"', 'name=".n"')
    gdb.answers |= calls_of("sizeof", {".n": "4"})
    listed = asyncio.run(unset_bounds.variables(gdb, "arguments"))
    assert isinstance(listed, Variables)
    assert listed.items[0] == Variable(".n", unset_bounds.NOT_SHOWN)


def test_variables_are_listed_without_such_arrays() -> None:
    gdb = gdb_at("F90")
    listed = asyncio.run(unset_bounds.variables(gdb, "arguments"))
    why = "<error reading variable: Cannot access memory at address 0x0>"
    assert listed == Variables(
        items=(Variable("n", "5"), Variable("a", unset_bounds.UNSET), Variable("b", why)),
        empty="No arguments.",
    )
    assert '-data-evaluate-expression "a"' not in gdb.asked


@pytest.mark.parametrize(("suffix", "which"), [("c", "arguments"), ("f90", "locals")])
def test_gdb_lists_everything_else_by_itself(suffix: str, which: str) -> None:
    assert asyncio.run(unset_bounds.variables(gdb_at(suffix), which)) is None


def test_an_array_of_an_impossible_size_is_not_a_matter_of_the_limit() -> None:
    numbers = blocks._Numbers(kind="<f8", shape=(1 << 30, 1 << 30))
    with pytest.raises(CommandError, match="a has an impossible size: its bounds are not set"):
        blocks._check_size(ReadBlock(expression="a", limit_bytes=1 << 20), numbers, 1 << 60)
