"""Files of arrays: NPZ, NPY, CSV, HDF5."""

from __future__ import annotations

import csv
import importlib
import os
from pathlib import Path
from typing import Any

import numpy
import pytest

from pgdb.errors import CommandError, UsageError
from pgdb.frontend.analysis.arrays import Arrays
from pgdb.frontend.store import array_files
from pgdb.frontend.system import user_files
from pgdb.ranks import RankSet


def arrays_of(by_rank: dict[int, numpy.ndarray[Any, Any]]) -> Arrays:
    return Arrays(expression="u", ranks=RankSet(by_rank), by_rank=by_rank)


EQUAL = arrays_of({2: numpy.arange(4.0).reshape(2, 2), 5: numpy.ones((2, 2))})
UNEVEN = arrays_of({2: numpy.arange(2), 17: numpy.arange(3) * 10, 18: numpy.array(7)})


def test_npz(tmp_path: Path) -> None:
    path = tmp_path / "u.npz"
    array_files.write_arrays(EQUAL, path)
    with numpy.load(path) as read:
        assert sorted(read) == ["ranks", "values"]
        assert read["ranks"].tolist() == [2, 5]
        numpy.testing.assert_array_equal(read["values"], EQUAL.stack())
    array_files.write_arrays(UNEVEN, path)
    with numpy.load(path) as read:
        assert sorted(read) == ["rank_17", "rank_18", "rank_2", "ranks"]
        assert read["rank_17"].tolist() == [0, 10, 20]
    assert os.listdir(tmp_path) == ["u.npz"]


def test_npy(tmp_path: Path) -> None:
    array_files.write_arrays(EQUAL, tmp_path / "u.npy")
    numpy.testing.assert_array_equal(numpy.load(tmp_path / "u.npy"), EQUAL.stack())
    with pytest.raises(CommandError, match="differs in shape"):
        array_files.write_arrays(UNEVEN, tmp_path / "uneven.npy")
    assert os.listdir(tmp_path) == ["u.npy"]


def test_csv(tmp_path: Path) -> None:
    path = tmp_path / "u.csv"
    array_files.write_arrays(EQUAL, path)
    rows = list(csv.reader(path.read_text(encoding="ascii").splitlines()))
    assert rows[:4] == [
        ["rank", "i0", "i1", "value"],
        ["2", "0", "0", "0.0"],
        ["2", "0", "1", "1.0"],
        ["2", "1", "0", "2.0"],
    ]
    assert len(rows) == 9
    array_files.write_arrays(UNEVEN, path)
    rows = list(csv.reader(path.read_text(encoding="ascii").splitlines()))
    assert rows[-2:] == [["17", "2", "20"], ["18", "", "7"]]


def test_csv_of_a_trace_counts_rows_as_traces_does(tmp_path: Path) -> None:
    path = tmp_path / "rows.csv"
    by_rank = {0: numpy.array([0.5, 0.25]), 3: numpy.array([4.0])}
    array_files.write_arrays(Arrays("trace:1:x", RankSet(by_rank), by_rank), path)
    assert list(csv.reader(path.read_text(encoding="ascii").splitlines())) == [
        ["rank", "row", "value"],
        ["0", "1", "0.5"],
        ["0", "2", "0.25"],
        ["3", "1", "4.0"],
    ]


def test_hdf5(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "u.h5"
    real = importlib.import_module

    def without(name: str) -> Any:
        if name == "h5py":
            raise ImportError(name)
        return real(name)

    with monkeypatch.context() as patch:
        patch.setattr(array_files.importlib, "import_module", without)
        with pytest.raises(CommandError, match="HDF5 needs the package h5py"):
            array_files.write_arrays(EQUAL, path)
    assert not path.exists()
    h5py = pytest.importorskip("h5py")
    array_files.write_arrays(EQUAL, path)
    with h5py.File(path) as read:
        numpy.testing.assert_array_equal(read["values"][()], EQUAL.stack())


def test_files_that_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "folder.npz").mkdir()
    os.mkfifo(tmp_path / "pipe.npz")
    for name, reason in (
        ("folder.npz", "it is a directory"),
        ("pipe.npz", "it is no regular file"),
        ("none/u.npz", "there is no directory"),
    ):
        with pytest.raises(CommandError, match=f"{name}: cannot be written: {reason}"):
            array_files.write_arrays(EQUAL, tmp_path / name)
    for name in ("u.txt", "u"):
        with pytest.raises(UsageError, match=r"must end in \.npz, \.npy, \.csv or \.h5"):
            array_files.write_arrays(EQUAL, tmp_path / name)


def test_a_failure_leaves_what_there_was(tmp_path: Path) -> None:
    path = tmp_path / "u.npz"
    path.write_text("before")

    def fail(file: Any) -> None:
        file.write(b"half")
        raise OSError(28, "No space left on device")

    with pytest.raises(CommandError, match=r"u\.npz: cannot be written: No space left on device"):
        user_files.replace_file(path, fail)
    assert path.read_text() == "before"
    assert os.listdir(tmp_path) == ["u.npz"]
    link = tmp_path / "link.npz"
    link.symlink_to(path)
    array_files.write_arrays(EQUAL, link)
    assert link.is_symlink()
    assert path.read_bytes().startswith(b"PK")
