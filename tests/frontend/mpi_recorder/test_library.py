"""The recorder's library in the cache."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from pgdb.frontend.mpi_recorder import library

COMPILER = """#!/bin/sh
case $* in
    *-E*) echo 'int MPI_Send(const void *buf, int count, MPI_Datatype datatype,'
        echo 'int dest, int tag, MPI_Comm comm);' ;;
    *-show*) echo cc ;;
    *)
        while [ "$1" != -o ]; do shift; done
        echo ours >"$2"
        OTHER
        ;;
esac
"""


def built(directory: Path, monkeypatch: pytest.MonkeyPatch, other: str = ":") -> Path:
    """Build the library with a compiler that does *other* as well."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(directory / "cache"))
    compiler = directory / "mpicc"
    compiler.write_text(COMPILER.replace("OTHER", other))
    compiler.chmod(0o755)
    return asyncio.run(library.build(str(compiler)))


def test_a_library_is_built_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = built(tmp_path, monkeypatch)
    assert found.read_text() == "ours\n"
    assert [each.name for each in found.parent.iterdir()] == [library.LIBRARY]
    found.write_text("in use\n")
    assert built(tmp_path, monkeypatch) == found
    assert found.read_text() == "in use\n"


def test_a_library_that_another_session_has_built_meanwhile_stays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Programs have it in use: replaced, it would be a file without a name.
    other = f'echo theirs >"${{2%/*}}/{library.LIBRARY}"'
    assert built(tmp_path, monkeypatch, other).read_text() == "theirs\n"
