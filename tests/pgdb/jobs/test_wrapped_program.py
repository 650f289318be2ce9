"""Signs that distinguish programs from the wrappers that start them."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from pgdb.jobs import procfs, wrapped_program
from pgdb.jobs.wrapped_program import Image
from tests.support.processes import wait_until

Run = Callable[..., Image]
SLEEP = os.path.realpath(shutil.which("sleep") or "")


@pytest.fixture
def image_of() -> Iterator[Run]:
    """Return a function that runs a command until it executes its first word."""
    processes = []

    def run(*words: str, cwd: Path | None = None) -> Image:
        process = subprocess.Popen(words, stdin=subprocess.PIPE, cwd=cwd)
        processes.append(process)
        meant = os.path.realpath(shutil.which(words[0]) or words[0])
        # Before it executes the command, the child is a copy of this process.
        wait_until(
            lambda: (
                procfs.executable(process.pid) == meant
                and procfs.command_line(process.pid) == list(words)
            ),
            f"{words} runs",
        )
        return Image(process.pid)

    yield run
    for process in processes:
        process.kill()
        process.communicate()


@pytest.fixture
def solver(tmp_path: Path) -> Path:
    """A program that mentions MPI."""
    path = tmp_path / "solver"
    shutil.copy(SLEEP, path)
    with path.open("ab") as file:
        file.write(b"\0MPI_Init\0")
    return path


def script_in(folder: Path, text: str) -> str:
    path = folder / "job.py"
    path.write_text(f"{text}\ninput()\n")
    return str(path)


def test_a_program_of_mpi(image_of: Run, solver: Path) -> None:
    image = image_of(str(solver), "60")
    assert image.mentions_mpi and not image.is_wrapper and image.title == "solver"
    for name in ("solver", str(solver), "./elsewhere/../solver"):
        assert image.is_named(name), name
    assert not image.is_named("other")


def test_a_path_means_this_very_file(image_of: Run, solver: Path, tmp_path: Path) -> None:
    other = tmp_path / "other" / "solver"
    other.parent.mkdir()
    shutil.copy(SLEEP, other)
    image = image_of(str(other), "60")
    assert image.is_named("solver") and image.is_named(str(other))
    assert not image.is_named(str(solver))


@pytest.mark.parametrize("words", [("timeout", "60"), ("env", "-i"), ("sh", "-c")])
def test_known_wrappers(image_of: Run, solver: Path, words: tuple[str, ...]) -> None:
    image = image_of(sys.executable, "-c", "input()")
    image.name, image.words = words[0], (*words, f"cd /; {solver} 60 && :")
    assert image.is_wrapper and image.names_mpi_program and image.names("bin/solver")


@pytest.mark.parametrize(
    ("text", "arguments", "starts"),
    [
        ("import sys", ("./solver",), True),
        ("import sys", ("data.txt",), False),
        ("import subprocess", (), True),
        ("import os; os.system", (), True),
        ("import numpy", (), False),
    ],
)
def test_a_script_that_starts_programs(
    image_of: Run, solver: Path, tmp_path: Path, text: str, arguments: tuple[str, ...], starts: bool
) -> None:
    (tmp_path / "data.txt").write_text("1 2 3")
    script = script_in(tmp_path, f"#{text}")
    image = image_of(sys.executable, script, *arguments, cwd=tmp_path)
    assert image.is_interpreter and not image.mentions_mpi
    assert image.may_start_programs is starts
    assert image.title.endswith(" running job.py") and image.is_named("job.py")


@pytest.mark.parametrize(
    ("code", "starts", "mentions"),
    [
        ("import subprocess", True, False),
        ("import time", False, False),
        ("from mpi4py import MPI; import subprocess", True, True),
    ],
)
def test_code_on_the_command_line_counts_as_a_script(
    image_of: Run, code: str, starts: bool, mentions: bool
) -> None:
    image = image_of(sys.executable, "-uc", f"input()  # {code}")
    assert image.script == "" and image.is_interpreter
    assert (image.may_start_programs, image.mentions_mpi) == (starts, mentions)


@pytest.mark.parametrize(
    ("strings", "starts"),
    [
        (b"\0execv\0", True),
        (b"\0posix_spawnp@GLIBC_2.15\0", True),
        (b"\0execution\0ecosystem\0", False),
        (b"\0system@GLIBC_2.2.5\0popen\0", False),
        (b"\0execv\0shmem_init\0", False),
    ],
)
def test_a_program_that_can_execute_others_may_be_a_wrapper(
    image_of: Run, tmp_path: Path, strings: bytes, starts: bool
) -> None:
    path = tmp_path / "tool"
    shutil.copy(SLEEP, path)
    with path.open("ab") as file:
        file.write(strings)
    assert image_of(str(path), "60").may_start_programs is starts


def test_a_script_of_mpi_is_the_program(image_of: Run, tmp_path: Path) -> None:
    image = image_of(sys.executable, script_in(tmp_path, "#from mpi4py import MPI"))
    assert image.mentions_mpi


def test_a_script_that_mentions_the_launchers_variables_is_no_program_of_mpi(
    image_of: Run, tmp_path: Path
) -> None:
    script = script_in(tmp_path, "#OMPI_COMM_WORLD_RANK")
    image = image_of(sys.executable, script, script)
    assert not image.mentions_mpi and not image.names_mpi_program


@pytest.mark.parametrize("mark", ["MPI_Send", "PMPI_Recv", "libmpi.so", "fort_mpi"])
def test_marks_are_found_at_the_ends_of_pieces(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mark: str
) -> None:
    monkeypatch.setattr(wrapped_program, "PIECE_BYTES", 128)
    for before in range(120, 136):
        program = tmp_path / str(before)
        program.write_bytes(b"\x7fELF" + before * b"\0" + mark.encode() + 200 * b"\0")
        assert wrapped_program._is_of_mpi(str(program)), before


@pytest.mark.parametrize("other", ["XMPI_Send", "XPMPI_Send", "MPI_send", "fort_mpich"])
def test_names_that_only_end_like_those_of_mpi_are_none(tmp_path: Path, other: str) -> None:
    program = tmp_path / "program"
    program.write_bytes(b"\x7fELF\0" + other.encode() + b"\0")
    assert not wrapped_program._is_of_mpi(str(program))
