"""Parts of arrays in memory are those that NumPy itself has: slices, and fields of structures."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy
import pytest

from pgdb.backend.gdb.python_parts import PATH
from pgdb.backend.python import reader, values
from pgdb.backend.python.objects import UnknownError
from pgdb.errors import UsageError
from pgdb.patterns import pattern
from tests.support.programs import ROOT
from tests.support.python_processes import running
from tests.support.terminal import ex, run_json

pytestmark = pytest.mark.skipif(not reader.program(), reason="py-spy is not installed")
PROGRAM = ROOT / "tests" / "programs" / "python_parts.py"


def test_parts_are_those_of_numpy(tmp_path: Path) -> None:
    written = tmp_path / "parts"
    with running(sys.executable, PROGRAM, str(written)) as process:
        process.look()
        frame = next(each for each in process.frames if each.name == "main")
        found = process.interpreter

        def numbers(text: str) -> tuple[list[int], list[float]]:
            place = found.resolve(values.parse(text), frame)
            assert not isinstance(place, int) and not place.structure
            low, high = place.extent
            data = found.objects.read(place.address + low, high - low)
            dtype, plain = values.elements(place, data, low)
            return list(place.shape), numpy.frombuffer(plain, dtype).astype(float).tolist()

        lines = [each.split("|") for each in written.read_text().splitlines()]
        assert len(lines) > 20
        for text, shape, held in lines:
            assert numbers(text) == (json.loads(shape), json.loads(held)), text
        for text, says in {
            "grid[:,:,0]": "2 dimensions only",
            "cells['none']": "no field 'none'; they have id, mass, at, swapped, name, spin",
            "cells['name']": "has no numbers",
            "records.none": "no attribute 'none'",
            "PARTS[1:2]": "parts of a list cannot be named",
            "grid[9]": "outside of 4",
        }.items():
            with pytest.raises(UnknownError, match=says.replace("'", ".")):
                found.resolve(values.parse(text), frame)
        with pytest.raises(UsageError, match="a step other than 0"):
            values.parse("grid[::0]")


def test_an_expression_with_slices_is_one_of_python() -> None:
    whole = pattern(rf"{PATH}\Z")
    for text in ("u[:,0]", "u[1:-1, ::2]", "u[:]", "u[-3:]['a'][0].b", "u['x:y']", "u[1:2]"):
        assert whole.match(text), text
    for text in ("u[a:b]", "u[", "u[]"):
        assert not whole.match(text), text


@pytest.mark.gdb
@pytest.mark.any_mpi
def test_commands_take_parts_of_arrays(tmp_path: Path) -> None:
    with running(sys.executable, PROGRAM, str(tmp_path / "parts")) as process:
        process.wait()
        done = run_json(
            "attach",
            "--pids",
            str(process.pid),
            *ex(
                "stat py:cells['mass']", "print py:cells[1]", "stat py:cells", "print py:line[2:4]"
            ),
            *ex("assert py:grid[:,1] < 11", "print py:cells[1:]['spin']", "detach"),
        )
    mass, refused = done.of_type("stat")
    assert (mass["count"], mass["low"], mass["high"]) == (3, 1.5, 4.0)
    assert "py:cells['FIELD'] names a field" in refused["errors"][0]["text"]
    assert [each["ok"] for each in done.of_type("assert")] == [True]
    texts = {each["command"]: each["classes"][0]["text"] for each in done.of_type("answer")}
    assert texts["print py:cells[1]"] == "py:cells[1] = (0, 2.5, [3.0, 4.0, 5.0], -2, '', (8, 0))"
    assert (
        texts["print py:line[2:4]"] == "py:line[2:4] = numpy.ndarray of int16, shape (2,) = {2, 3}"
    )
    shown = "py:cells[1:]['spin'] = numpy.ndarray of (up, down), shape (2,) = {(8, 0), (9, 0)}"
    assert texts["print py:cells[1:]['spin']"] == shown
