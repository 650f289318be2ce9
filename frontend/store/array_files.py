"""Numbers of many ranks, or one global array, written to a file: NPZ, NPY, CSV, HDF5.

A file is written under another name and renamed when it is complete, so that a failure keeps the
old file. Only regular files are replaced.
"""

from __future__ import annotations

import csv
import importlib
import io
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

from pgdb.errors import CommandError
from pgdb.frontend.system.user_files import check_suffix, replace_file

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from pgdb.frontend.analysis.arrays import Arrays

FORMATS = (".npz", ".npy", ".csv", ".h5")
"""Formats of numbers of ranks, by suffix of the file."""
_ROWS_AT_ONCE = 1 << 16


def write_arrays(arrays: Arrays, path: Path) -> None:
    """Write the numbers of each rank, in the format of the file's suffix.

    ``.npz`` and ``.h5`` hold ``ranks``, and ``values`` with the ranks along the first index if all
    shapes are equal, otherwise one array ``rank_N`` for each rank. ``.npy`` holds the values only.
    ``.csv`` has a line ``rank,i0,i1,…,value`` for each number, with indices from 0;
    of a trace a line ``rank,row,value``, with rows from 1.

    :raises UsageError: if the suffix names no format.
    :raises CommandError: if the file cannot be written, or cannot hold the numbers.
    """
    check_suffix(path, FORMATS)
    match path.suffix:
        case ".npy":
            write_array(arrays.stack(), path)
        case ".csv":
            replace_file(path, lambda file: _write_csv(arrays, file))
        case suffix:
            write_named(_named(arrays), path, suffix)


def write_array(values: NDArray[Any], path: Path) -> None:
    """Write one array as NPY.

    :raises CommandError: if the file cannot be written.
    """
    import numpy

    replace_file(path, lambda file: numpy.save(file, values, allow_pickle=False))


def write_named(named: Mapping[str, NDArray[Any]], path: Path, suffix: str = ".npz") -> None:
    """Write several arrays by name, as NPZ or as HDF5.

    :raises CommandError: if the file cannot be written, or if h5py is missing for HDF5.
    """
    if suffix == ".h5":
        _write_hdf5(named, path)
    else:
        replace_file(path, lambda file: _write_npz(named, file))


def _write_npz(named: Mapping[str, NDArray[Any]], file: BinaryIO) -> None:
    import numpy

    numpy.savez(file, **named)  # type: ignore[arg-type]  # no name of ours is "allow_pickle"


def _named(arrays: Arrays) -> dict[str, NDArray[Any]]:
    import numpy

    ranks = numpy.array(list(arrays.by_rank), dtype=numpy.int64)
    if len(arrays.forms) == 1:
        return {"ranks": ranks, "values": arrays.stack()}
    return {
        "ranks": ranks,
        **{f"rank_{rank}": values for rank, values in arrays.by_rank.items()},
    }


def _write_hdf5(named: Mapping[str, NDArray[Any]], path: Path) -> None:
    try:
        h5py = importlib.import_module("h5py")
    except ImportError:
        raise CommandError(
            f"{path}: HDF5 needs the package h5py, which is not installed; install "
            "'pgdb-mpi[hdf5]', or write .npz"
        ) from None

    def write(file: BinaryIO) -> None:
        with h5py.File(file, "w") as data:
            for name, values in named.items():
                data.create_dataset(name, data=values)

    replace_file(path, write)


def _write_csv(arrays: Arrays, file: BinaryIO) -> None:
    import numpy

    most = max((values.ndim for values in arrays.by_rank.values()), default=0)
    text = io.TextIOWrapper(file, encoding="ascii", newline="")
    rows = csv.writer(text)
    first = 1 if arrays.is_of_trace else 0
    names = ["row"] if first and most == 1 else [f"i{dimension}" for dimension in range(most)]
    rows.writerow(["rank", *names, "value"])
    for rank, values in arrays.by_rank.items():
        flat = values.ravel()
        # A rank with fewer dimensions has empty last columns.
        empty = [""] * (most - values.ndim)
        for start in range(0, values.size, _ROWS_AT_ONCE):
            part = flat[start : start + _ROWS_AT_ONCE].tolist()
            places: list[tuple[int, ...]] = [()]
            if values.ndim:
                numbers = numpy.arange(start, start + len(part))
                indices = numpy.unravel_index(numbers, values.shape)
                places = list(zip(*((each + first).tolist() for each in indices), strict=True))
            rows.writerows(
                (rank, *place, *empty, number) for place, number in zip(places, part, strict=True)
            )
    text.flush()
    text.detach()
