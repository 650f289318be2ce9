"""Debuggers derived from GDB, and scripts around a GDB: the vendors' commands pass and merge."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from tests.conftest import Build, StartJob
from tests.support.programs import ROOT, Mpi
from tests.support.terminal import Finished, assert_untouched, ex, run_json, run_pgdb

pytestmark = [pytest.mark.mpi, pytest.mark.any_mpi, pytest.mark.gdb]

FAKES = ROOT / "tests" / "fakes" / "gpu"
COMMANDS = ("break hit", "continue", "print hit_count >= 0")


def texts(finished: Finished, command: str) -> dict[str, str]:
    """Return the text of each class of the answer to a command."""
    return {each["ranks"]: each["text"] for each in finished.answer(command)["classes"]}


def launch(gdb: Path | str, mpi: Mpi, build: Build, *commands: str) -> Finished:
    """Launch four ranks under a GDB, and carry out the commands."""
    line = mpi.line(4, build("storm.c"))
    finished = run_json("launch", "--gdb", str(gdb), *ex(*commands), *line)
    assert texts(finished, "print hit_count >= 0") == {"0-3": "hit_count >= 0 = 1"}, finished.out
    return finished


def test_nvidias_debugger(mpi: Mpi, build: Build) -> None:
    finished = launch(
        FAKES / "cuda-gdb",
        mpi,
        build,
        "info cuda kernels",
        "cuda thread (7)",
        "set cuda break_on_launch application",
        "show cuda break_on_launch",
        "info cuda nosuch",
        *COMMANDS,
    )
    assert finished.objects[0]["gdb"] == "14.2"
    kernels = texts(finished, "info cuda kernels")
    assert kernels.keys() == {"0,2", "1,3"}
    assert "   0    1 Active 0x00ffffff (240,1,1) (128,1,1) scale(n=64, part=...)" in kernels["0,2"]
    assert "   1    1 Active 0x00ffffff (240,1,1)" in kernels["1,3"]
    assert "thread (7,0,0), device 1" in texts(finished, "cuda thread (7)")["1,3"]
    assert texts(finished, "show cuda break_on_launch") == {
        "0-3": "Break on every kernel launch is set to 'application'."
    }
    assert "Unrecognized option: 'nosuch'." in texts(finished, "info cuda nosuch")["0-3"]
    # The stop says where on the GPU it is, so that ranks on other devices are one class.
    (stop,) = finished.answer("continue")["classes"]
    assert stop["record"]["breakpoint"] == 1
    assert stop["record"]["detail"] == "CUDA kernel 0, grid 1, block (0,0,0), thread (1,0,0)"


def test_an_exception_in_a_kernel_stops_the_other_ranks(mpi: Mpi, build: Build) -> None:
    line = mpi.line(2, build("crash.c"), "1")
    finished = run_json(
        "launch", "--gdb", FAKES / "cuda-gdb", *ex("continue", "info cuda kernels"), *line
    )
    stops = {each["ranks"]: each["record"] for each in finished.answer("continue")["classes"]}
    assert stops.keys() == {"0", "1"}, stops
    assert stops["1"]["signal"] == "CUDA_EXCEPTION_14"
    assert stops["1"]["detail"].startswith("triggered in fault(double*, Part) at heat.cu:71; CUDA")
    # Plain cuda-gdb looks at the kernel after its Ctrl-C.
    assert stops["0"]["reason"] == "interrupted"
    assert stops["0"]["detail"] == "CUDA kernel 0, grid 1, block (0,0,0), thread (0,0,0)"


def test_ranks_on_one_gpu_step_one_after_the_other(
    mpi: Mpi, build: Build, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    runs = tmp_path / "runs"
    monkeypatch.setenv("PGDB_TEST_GPU_RUNS", str(runs))
    monkeypatch.setenv("PGDB_TEST_GPU_DEVICE", "0")
    steps = ("next", "next")
    line = mpi.line(3, build("storm.c"))
    finished = run_json("launch", "--gdb", FAKES / "cuda-gdb", *ex(*COMMANDS[:2], *steps), *line)
    assert [each["ranks"] for each in finished.answers("next")[-1]["classes"]] == ["0-2"]
    # Their stops are reported together all the same.
    assert [len(each["classes"]) for each in finished.of_type("stop")[-2:]] == [1, 1]
    assert finished.of_type("stop")[-1]["classes"][0]["ranks"] == "0-2"
    said = [each.split() for each in runs.read_text(encoding="utf-8").splitlines()]
    stepped = said[-2 * 3 * len(steps) :]
    for (begin, rank), (end, same) in zip(stepped[::2], stepped[1::2], strict=True):
        assert (begin, end, rank) == ("running", "stopped", same), stepped


def test_a_debugger_of_gpus_is_not_forked(start_job: StartJob, build: Build) -> None:
    with start_job(2, build("storm.c")) as job:
        commands = ex("info cuda kernels", "python print(os.getppid())", *COMMANDS, "delete")
        finished = run_json("attach", "--gdb", FAKES / "cuda-gdb", *commands, job.pid)
        assert finished.status == 0, finished.out
        assert texts(finished, "info cuda kernels").keys() == {"0", "1"}
        assert "nursery" not in finished.out
        # Each GDB has a debugger of its own around it, and no nursery.
        assert texts(finished, "python print(os.getppid())").keys() == {"0", "1"}
        assert_untouched(job.ranks)


def test_merged_text_shows_the_column_that_differs(mpi: Mpi, build: Build) -> None:
    line = mpi.line(4, build("storm.c"))
    command = ("-ex", "info cuda kernels")
    shown = run_pgdb("launch", "--batch", "--gdb", FAKES / "cuda-gdb", *command, *line).out
    assert shown.count("GridDim") == 1, shown
    assert "[0,2] 0" in shown, shown
    assert "[1,3] 1" in shown, shown


def test_amds_debugger(mpi: Mpi, build: Build) -> None:
    finished = launch(
        FAKES / "rocgdb", mpi, build, "info lanes", "lane 2", "info agents", *COMMANDS
    )
    assert finished.objects[0]["gdb"] == "14.2"
    lanes = texts(finished, "info lanes")
    assert lanes.keys() == {"0,2", "1,3"}
    assert "scale.hip:11" in lanes["1,3"]
    assert "Lane 1:1:1:1/2" in texts(finished, "lane 2")["0-3"]
    assert texts(finished, "info agents").keys() == {"0,2", "1,3"}


def test_intels_debugger(mpi: Mpi, build: Build) -> None:
    finished = launch(FAKES / "gdb-oneapi", mpi, build, "info devices", *COMMANDS)
    assert finished.objects[0]["gdb"] == "15.2"
    assert texts(finished, "info devices").keys() == {"0,2", "1,3"}


WRAPPERS = {
    "prints words": 'echo "Loading module gdb"; echo "(more)" >&2; exec gdb "$@"',
    "is GDB's parent": 'gdb "$@"',
    "has no version": 'case " $* " in *" --version "*) exit 3;; esac; exec gdb "$@"',
}


@pytest.mark.parametrize("how", WRAPPERS)
def test_a_script_around_a_gdb(start_job: StartJob, build: Build, tmp_path: Path, how: str) -> None:
    path = tmp_path / "site-gdb"
    path.write_text(f"#!/bin/sh\n{WRAPPERS[how]}\n")
    path.chmod(0o755)
    with start_job(2, build("storm.c")) as job:
        finished = run_json("attach", "--gdb", path, *ex(*COMMANDS, "delete"), job.pid)
        assert finished.status == 0, finished.out
        assert texts(finished, "print hit_count >= 0") == {"0-1": "hit_count >= 0 = 1"}
        assert_untouched(job.ranks)


def test_rusts_script_around_gdb(mpi: Mpi, build: Build) -> None:
    name = shutil.which("rust-gdb") or pytest.skip("this machine has no rust-gdb")
    if subprocess.run([name, "--version"], capture_output=True, check=False).returncode:
        pytest.skip("this machine's rust-gdb does not start")
    launch(name, mpi, build, *COMMANDS)
