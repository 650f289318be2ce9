"""The contents of core files: process, program, rank; and files that are something else."""

from __future__ import annotations

import gzip
import os
from pathlib import Path

import pytest

from pgdb.cores.core_file import (
    CompressedError,
    CoreFileError,
    environment_of_core,
    read_core,
)
from pgdb.cores.expanding import expand
from tests.support.cores import core, rank_variables
from tests.support.elves import elf


def written(folder: Path, data: bytes) -> str:
    """Write a file; return its name."""
    path = folder / "core.4711"
    path.write_bytes(data)
    return str(path)


@pytest.mark.parametrize("order", ["<", ">"])
@pytest.mark.parametrize("is_64", [True, False])
def test_a_core_says_its_process_its_program_and_its_rank(
    tmp_path: Path, order: str, is_64: bool
) -> None:
    data = core(order=order, is_64=is_64, environment=rank_variables(3, 8), signal=8)
    found = read_core(written(tmp_path, data))
    assert (found.pid, found.signal, found.command) == (4711, 8, "solver")
    assert found.program == "/opt/app/solver"
    assert found.arguments == "/opt/app/solver --mode=fast 7"
    assert found.build_id == "0123456789abcdef"
    assert found.missing_bytes == 0
    assert found.identity is not None
    assert (found.identity.rank, found.identity.size) == (3, 8)
    assert found.identity.job_key == "717"


def test_a_core_has_the_environment_of_its_process(tmp_path: Path) -> None:
    variables = {**rank_variables(3, 8), "MY_LEVEL": "7"}
    assert environment_of_core(written(tmp_path, core(environment=variables))) == variables
    assert environment_of_core(written(tmp_path, core())) == {}
    with pytest.raises(CoreFileError, match="not a core file"):
        environment_of_core(written(tmp_path, b"something else"))
    with pytest.raises(CoreFileError, match="cannot be read"):
        environment_of_core(str(tmp_path / "none"))


def test_variables_that_the_program_has_removed_are_known(tmp_path: Path) -> None:
    # Open MPI removes two of its variables, which shifts the pointers to all others.
    found = read_core(written(tmp_path, core(environment=rank_variables(2, 4), gaps=2)))
    assert found.identity is not None
    assert found.identity.rank == 2


def test_a_core_without_a_ranks_environment_has_no_rank(tmp_path: Path) -> None:
    assert read_core(written(tmp_path, core(environment={"HOME": "/"}))).identity is None
    assert read_core(written(tmp_path, core())).identity is None


def test_an_argument_that_looks_like_a_variable_is_none(tmp_path: Path) -> None:
    found = read_core(written(tmp_path, core(environment={"A": "1"}, program="/opt/PMI_RANK=3")))
    assert found.identity is None


def test_a_program_that_was_replaced_is_named_without_the_kernels_suffix(tmp_path: Path) -> None:
    found = read_core(written(tmp_path, core(program="/opt/app/solver (deleted)")))
    assert found.program == "/opt/app/solver"
    assert found.is_deleted


@pytest.mark.parametrize("share", [0.3, 0.6, 0.99])
def test_a_truncated_core_says_how_much_is_missing(tmp_path: Path, share: float) -> None:
    data = core(environment=rank_variables(0, 2))
    cut = int(len(data) * share)
    found = read_core(written(tmp_path, data[:cut]))
    assert found.missing_bytes == len(data) - cut
    assert found.pid == 4711


def test_each_prefix_of_a_core_is_read_or_refused(tmp_path: Path) -> None:
    data = core(environment=rank_variables(0, 2))
    for cut in range(1, len(data), 37):
        path = written(tmp_path, data[:cut])
        try:
            assert read_core(path).missing_bytes > 0
        except CoreFileError as error:
            assert "core file" in str(error)


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (b"", "is empty"),
        (b"#!/bin/sh\n", "is not a core file"),
        (elf("0123"), "is a program or a library"),
        (core()[:30], "is not a core file"),
    ],
)
def test_a_file_that_is_something_else_is_refused(tmp_path: Path, data: bytes, why: str) -> None:
    with pytest.raises(CoreFileError, match=why):
        read_core(written(tmp_path, data))


def test_a_file_that_cannot_be_opened_is_refused(tmp_path: Path) -> None:
    with pytest.raises(CoreFileError, match="No such file"):
        read_core(str(tmp_path / "core.1"))
    with pytest.raises(CoreFileError, match="a directory"):
        read_core(str(tmp_path))
    os.mkfifo(tmp_path / "core.2")
    with pytest.raises(CoreFileError, match="a named pipe"):
        read_core(str(tmp_path / "core.2"))


def test_a_compressed_core_is_expanded(tmp_path: Path) -> None:
    data = core(environment=rank_variables(1, 2)) + bytes(3 << 20)
    path = written(tmp_path, gzip.compress(data))
    with pytest.raises(CompressedError, match="gzip"):
        read_core(path)
    folder = tmp_path / "expanded"
    folder.mkdir()
    whole = expand(path, folder, 0)
    assert Path(whole).read_bytes() == data
    assert os.stat(whole).st_blocks * 512 < len(data)
    with pytest.raises(CoreFileError, match="TMPDIR names another folder"):
        expand(path, folder / "none", 0)


def test_a_compressed_core_that_is_cut_off_is_a_truncated_core(tmp_path: Path) -> None:
    data = core(environment=rank_variables(1, 2)) + os.urandom(1 << 20)
    packed = gzip.compress(data)
    folder = tmp_path / "expanded"
    folder.mkdir()
    whole = expand(written(tmp_path, packed[: len(packed) // 2]), folder, 0)
    assert data.startswith(Path(whole).read_bytes()[: 1 << 16])
    with pytest.raises(CoreFileError, match="is damaged"):
        expand(written(tmp_path, packed[:4] + b"\xff" * 40), folder, 1)


def test_without_the_program_a_compressed_core_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(CoreFileError, match="no program gzip here"):
        expand(written(tmp_path, gzip.compress(core())), tmp_path, 0)
