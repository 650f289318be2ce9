"""Launch lines whose launcher's kind the user names."""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path

import pytest

from pgdb.errors import StartError, UsageError
from pgdb.jobs.launcher_kinds import launcher_for_own, read_launch_line, rights_lost
from pgdb.jobs.launchers import Family, Launcher


def program_in(folder: Path, name: str, text: str = "exit 1") -> str:
    path = folder / name
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    return str(path)


@pytest.mark.parametrize(
    ("kind", "family", "options"),
    [
        ("mpich", Family.MPICH, ("-n", "2", "-genv", "A", "1")),
        ("intel", Family.INTEL, ("-n", "2", "-perhost", "1")),
        ("slurm", Family.SLURM, ("-n2", "-l")),
        ("openmpi", Family.OPEN_MPI_4, ("-n", "2", "--mca", "a", "b")),
    ],
)
def test_a_wrapper_has_the_options_of_the_kind_that_is_named(
    kind: str, family: Family, options: tuple[str, ...], tmp_path: Path
) -> None:
    version = 'echo "mpirun (Open MPI) 4.1.4"'
    wrapper = program_in(tmp_path, "mpirun", version if kind == "openmpi" else "exit 1")
    line = read_launch_line([wrapper, *options, "./app", "-n"], kind, environment={})
    assert line.launcher.family is family
    (program,) = line.programs
    assert (program.word, program.arguments) == ("./app", ("-n",))
    assert line.rank_count == 2


def test_another_launcher_runs_the_first_program_in_its_line(tmp_path: Path) -> None:
    charmrun, app = program_in(tmp_path, "charmrun"), program_in(tmp_path, "app")
    line = read_launch_line([charmrun, "+p4", "++quiet", "4", app, charmrun], "other")
    assert line.launcher.family is Family.OTHER and line.rank_count is None
    assert line.held(("hold", "--")) == (
        charmrun,
        "+p4",
        "++quiet",
        "4",
        "hold",
        "--",
        app,
        charmrun,
    )
    line = read_launch_line([charmrun, app, "--", app, "2"], "other")
    assert line.held(("hold", "--")) == (charmrun, app, "hold", "--", app, "2")
    with pytest.raises(UsageError, match="put -- before the program"):
        read_launch_line([charmrun, "+p4", "./none"], "other")
    with pytest.raises(StartError, match="not an executable program"):
        read_launch_line([str(tmp_path / "none"), app], "other")


def test_the_workers_of_an_agent_below_a_launcher_are_held(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program_in(tmp_path, "mpirun", 'echo "mpirun (Open MPI) 4.1.4"')
    program_in(tmp_path, "torchrun")
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    before = ("mpirun", "-n", "2", "torchrun", "--nnodes=2", "--nproc-per-node=2")
    line = read_launch_line([*before, "train.py", "7"])
    python = line.programs[0].word
    assert line.launcher.family is Family.OPEN_MPI_4 and line.rank_count is None
    assert line.argv == (*before, "--no_python", python, "-u", "train.py", "7")
    held = line.held(("hold", "--"))
    assert held[6:] == ("--no_python", "hold", "--", python, "-u", "train.py", "7")


def test_the_interpreter_of_torchruns_workers_is_written_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    torchrun = tmp_path / "torchrun"
    torchrun.write_text(f"#!{sys.executable}\n")
    torchrun.chmod(0o755)
    before = (str(torchrun), "--standalone", "--nproc_per_node", "4")
    line = read_launch_line([*before, "train.py", "--lr", "1"])
    python = sys.executable if "python" in Path(sys.executable).name else "python3"
    assert line.argv == (*before, "--no_python", python, "-u", "train.py", "--lr", "1")
    assert line.programs[0].arguments == ("-u", "train.py", "--lr", "1")
    assert line.rank_count == 4 and line.on_this_host_only
    modules = ([sys.executable, "-m", "torch.distributed.run"], ["accelerate", "launch"])
    program_in(tmp_path, "accelerate")
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    for words in modules:
        other = read_launch_line([*words, "--num-processes=2", "--quiet", "train.py"])
        assert other.argv[: len(words)] == tuple(words)
        assert other.argv[-5:] == ("--quiet", "--no_python", other.argv[-3], "-u", "train.py")
        assert other.rank_count == 2
    # The line that results means the same.
    assert read_launch_line(line.argv).argv == line.argv
    module = read_launch_line([*before, "-m", "job.train"])
    assert module.argv == (*before, "--no_python", python, "-u", "-m", "job.train")
    several = read_launch_line([*before, "--nnodes=2", "train.py"])
    assert several.rank_count is None and not several.on_this_host_only
    with pytest.raises(UsageError, match="no script follows"):
        read_launch_line(before)


def test_our_own_processes_need_a_real_launcher(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = Launcher(tmp_path / "charmrun", Family.OTHER, "charmrun")
    program_in(tmp_path, "mpiexec", 'echo "mpirun (Open MPI) 4.1.4"')
    monkeypatch.setenv("PATH", f"{tmp_path}:{Path(shutil.which('sh') or '').parent}")
    own = launcher_for_own(other)
    assert own.family is not Family.OTHER and own.path.name in ("mpirun", "mpiexec", "srun")
    assert launcher_for_own(own) == own
    monkeypatch.setenv("PATH", str(tmp_path / "none"))
    with pytest.raises(StartError, match="--overlay-launcher"):
        launcher_for_own(other)


def test_rights_that_a_program_loses_are_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = Path(program_in(tmp_path, "solver"))
    monkeypatch.setattr(os, "geteuid", lambda: path.stat().st_uid + 1)
    assert rights_lost(path) == ""
    path.chmod(0o4755)
    assert rights_lost(path).startswith("solver has a set-user-ID bit; the kernel runs it without")
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    assert rights_lost(path) == ""
