"""Arrays of real ranks: read from memory, written, drawn, and put together."""

from __future__ import annotations

import csv
from pathlib import Path

import numpy
import pytest

import pgdb
from pgdb.errors import CommandError
from pgdb.frontend.analysis.layouts import Layout
from tests.conftest import Build
from tests.support.programs import Mpi
from tests.support.terminal import ex, run_json, run_pgdb

pytestmark = [pytest.mark.mpi, pytest.mark.any_mpi]

RANKS = 4
RUN_TIMEOUT_S = 120.0
NX, NY = 11, 9
WHOLE = numpy.add.outer(100.0 * numpy.arange(NX), numpy.arange(NY))


def test_api(mpi: Mpi, build: Build, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = build("fields2d.c")
    monkeypatch.setattr("pgdb.frontend.analysis.arrays.PIECE_BYTES", 1 << 20)
    with pgdb.launch(mpi.line(RANKS, program, "2", "300000")) as session:
        session.break_at("look")
        session.continue_(timeout_s=RUN_TIMEOUT_S).check()
        local = session.array("local").check()
        assert {rank: float(each) for rank, each in local.by_rank.items() if rank < 3} == {
            0: 0.0,
            1: 1.5,
            2: 3.0,
        }
        assert numpy.isnan(local.by_rank[3])

        # u is a variable of main: one rank stays where it does not see it.
        session.ranks("1-3").select_frame("up")
        some = session.array("u")
        assert list(some.by_rank) == [1, 2, 3]
        (error,) = some.failures.errors
        assert str(error.record.message) == (  # type: ignore[union-attr]
            'No symbol "u" in current context. The frame of main has it: frame function main.'
        )
        layout = Layout(dims=(NX, NY), grid=(2, 2), halo=(1,))
        part = some.assemble(layout)
        assert part.missing[:6, :5].all()
        assert part.missing_count == 30
        numpy.testing.assert_array_equal(part.values[6:], WHOLE[6:])

        session[0].select_frame("up")
        whole = session.array("u").check().assemble(layout)
        numpy.testing.assert_array_equal(whole.values, WHOLE)
        assert (whole.missing_count, whole.conflict_count) == (0, 0)
        flat = session.array("flat[0]@nx*ny").check().assemble(Layout(dims=(NX, NY), grid=(2, 2)))
        numpy.testing.assert_array_equal(flat.values, WHOLE)
        cyclic = session.array("part[0]@parts").check()
        line = cyclic.assemble(Layout(dims=(22,), grid=(RANKS,), kind="cyclic"))
        numpy.testing.assert_array_equal(line.values, numpy.arange(22.0))
        assert [each.size for each in session.array("uneven[0]@rank+1").by_rank.values()] == [
            1,
            2,
            3,
            4,
        ]

        # 2.4 MB on each rank, in pieces of 1 MiB.
        big = session.array("big[0]@rows").check()
        expected = numpy.arange(RANKS)[:, None] + numpy.arange(300000) / 1000.0
        numpy.testing.assert_array_equal(big.stack(), expected)

        written = session.dump("fixed", tmp_path / "fixed.npz")
        assert written.ok
        with numpy.load(tmp_path / "fixed.npz") as read:
            assert read["values"].shape == (RANKS, 3, 4)
            assert (read["values"][3] == 30 + numpy.arange(12).reshape(3, 4)).all()
        with pytest.raises(CommandError, match="cannot be written: there is no directory"):
            session.dump("fixed", tmp_path / "none" / "fixed.npz")
        assert not session.dump("nosuch", tmp_path / "nosuch.npz").by_rank
        assert not (tmp_path / "nosuch.npz").exists()

        # A stale halo: rank 2's copy of the last row of rank 0.
        session[2].execute("set var u[0][2] = 77").check()
        stale = session.array("u").assemble(layout)
        assert [(each.index, each.ranks) for each in stale.conflicts] == [((5, 1), (0, 2))]

        session[1].continue_(wait=False)
        rest = session.array("rank")
        assert list(rest.by_rank) == [0, 2, 3]
        assert str(rest.missing.running) == "1"


def test_commands(mpi: Mpi, build: Build, tmp_path: Path) -> None:
    program = build("fields2d.c")
    line = mpi.line(RANKS, program)
    begin = ("break look", "continue", "up")
    u = "decompose u --dims 11,9 --grid 2,2"
    finished = run_json(
        "launch",
        *ex(
            *begin,
            "plot local",
            f"{u} --halo 1",
            f"{u} --halo 1 -o {tmp_path}/u.npy",
            f"dump rank {tmp_path}/rank.csv",
            u,
            "set array-limit 100",
            f"dump big[0]@1000 {tmp_path}/big.npz",
            "plot nosuch",
            "dump argv x.npz",
        ),
        *line,
    )
    assert finished.status == 1, finished.out
    plot, global_array, saved, dumped = finished.of_type("arrays")
    assert plot["forms"] == [{"ranks": "0-3", "dtype": "float64", "shape": []}]
    assert "NaN on [3]" in plot["text"]
    assert (global_array["shape"], global_array.get("absent", 0)) == ([NX, NY], 0)
    assert "1000 1001 1002" in global_array["text"]
    assert saved["file"] == f"{tmp_path}/u.npy"
    numpy.testing.assert_array_equal(numpy.load(tmp_path / "u.npy"), WHOLE)
    rows = list(csv.reader((tmp_path / "rank.csv").read_text(encoding="ascii").splitlines()))
    assert rows == [["rank", "value"], *([str(rank), str(rank)] for rank in range(RANKS))]
    assert dumped["size_bytes"] == 4 * RANKS
    errors = [each["message"] for each in finished.of_type("error")]
    assert len(errors) == 2
    assert errors[0].startswith("u does not fit: 6x5 elements are expected of rank 0")
    assert "more than array-limit, 100 bytes" in errors[1]
    messages = [each["classes"][0]["record"]["message"] for each in finished.of_type("answer")[-2:]]
    assert messages[0] == 'No symbol "nosuch" in current context.'
    assert messages[1].startswith("argv points to pointers")


def test_screens(mpi: Mpi, build: Build, tmp_path: Path) -> None:
    program = build("fields2d.c")
    chart = tmp_path / "map.py"
    chart.write_text(
        "def place(rank, own):\n"
        "    return slice(rank * 3, rank * 3 + 3), slice(0, 4)\n"
        "def broken(rank, own):\n"
        "    return [][rank]\n",
        encoding="utf-8",
    )
    finished = run_pgdb(
        "launch",
        "--batch",
        *ex(
            "break look",
            "continue",
            "plot fixed --heat",
            "plot local --hist",
            f"decompose fixed --dims 12,4 --map {chart}:place",
            f"decompose fixed --dims 12,4 --map {chart}:broken",
            f"decompose fixed --dims 12,4 --map {chart}:none",
        ),
        *mpi.line(RANKS, program),
    )
    assert max(map(len, finished.out.splitlines()[3:])) < 200
    assert "  3 |" in finished.out
    assert "NaN | 1 " in finished.out
    assert "\n 0  1  2  3\n 4  5  6  7\n 8  9 10 11\n10 11 12 13\n" in finished.out
    assert "the map failed for rank 0: IndexError" in finished.out
    assert "has no function 'none'" in finished.out
