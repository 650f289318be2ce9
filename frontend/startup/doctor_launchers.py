"""Checks of the launchers on this host, and of Slurm."""

from __future__ import annotations

import ctypes.util
import glob
import os
import re
import shutil
import sys
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path

from pgdb.errors import StartError
from pgdb.frontend.startup.doctor_findings import Finding, Host, ask, last_line
from pgdb.jobs.launchers import Family, Launcher, find_launcher
from pgdb.jobs.placement import (
    mpi4py_environment,
    mpi_library,
    overlay_line,
    scrubbed_environment,
)

MPI_TIMEOUT_S = 60.0
"""Longest wait for two processes to start with MPI, in seconds; Open MPI 5 usually takes 1-2 s."""

_LAUNCHER_WORDS = ("mpirun", "mpiexec", "mpiexec.hydra")
# Open MPI 5's mpirun reads them as well (tried: 5.0.11).
ROOT_VARIABLES = ("OMPI_ALLOW_RUN_AS_ROOT", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM")
MPI_PROGRAM = (
    "from mpi4py import MPI; w = MPI.COMM_WORLD; "
    "print('pgdb-size', w.Get_size(), flush=True) if w.Get_rank() == 0 else None"
)


def check_launchers(host: Host) -> Iterator[Finding]:
    """Check each launcher in PATH once."""
    found: dict[tuple[Path, str], Launcher] = {}
    for word in _launcher_words(host.search_path):
        try:
            launcher = find_launcher(word)
        except StartError as error:
            # MPICH has an mpiexec.gforker, other MPIs other launchers, which hardly anybody uses.
            if word in _LAUNCHER_WORDS:
                message, _, remedy = str(error).partition("; ")
                yield Finding("launcher", "warning", message, remedy)
            continue
        found.setdefault((launcher.path.resolve().parent, launcher.version), launcher)
    if not found and shutil.which("srun", path=host.search_path) is None:
        yield Finding(
            "launcher",
            "problem",
            "there is no mpirun, mpiexec or srun in PATH",
            "load the MPI module of this site, install an MPI, or pip install "
            "'pgdb-mpi[embedded]' (MPICH)",
        )
    for launcher in found.values():
        yield from check_launcher(launcher, host.environment)


def _launcher_words(search_path: str) -> list[str]:
    """Return the launchers in PATH by their names, those with a suffix by their paths."""
    words = [word for word in _LAUNCHER_WORDS if shutil.which(word, path=search_path)]
    for directory in search_path.split(os.pathsep):
        for name in ("mpirun", "mpiexec"):
            words += sorted(glob.glob(f"{glob.escape(directory or '.')}/{name}.*"))
    by_file: dict[str, str] = {}
    for word in words:
        path = shutil.which(word, path=search_path)
        if path is not None and not path.endswith((".sh", ".py", ".bat")):
            by_file.setdefault(os.path.realpath(path), word)
    return list(by_file.values())


def check_launcher(launcher: Launcher, environment: Mapping[str, str]) -> Iterator[Finding]:
    """Check one launcher: start two processes with it."""
    topic, where = launcher.version, str(launcher.path)
    library = mpi_library(launcher)
    if library is not None:
        where += f", library {library}"
    if fault := _try_mpi(launcher, environment):
        yield Finding(
            topic,
            "warning",
            f"{where}; mpi4py does not come up with it: {fault}",
            "PGDB then continues without MPI after some seconds; "
            "--wire-up direct spares it the attempt",
        )
    else:
        yield Finding(topic, "ok", f"{where}; mpi4py comes up with it (size 2)")
    asks_root = launcher.family in (Family.OPEN_MPI_4, Family.OPEN_MPI_5) and os.geteuid() == 0
    if asks_root and any(environment.get(name) != "1" for name in ROOT_VARIABLES):
        yield Finding(
            topic,
            "warning",
            "you are root, and it will not start a job for root",
            f"export {' '.join(f'{name}=1' for name in ROOT_VARIABLES)}, or be another user",
        )
    if launcher.family is Family.OPEN_MPI_5:
        yield _about_pmix(topic, launcher)


def _about_pmix(topic: str, launcher: Launcher) -> Finding:
    """Return how jobs of Open MPI 5, which has no table for debuggers, are found."""
    prefix = launcher.path.resolve().parent.parent
    beside = (found for name in ("lib", "lib64") for found in prefix.glob(f"{name}/**/libpmix.so*"))
    library = next((str(path) for path in beside), ctypes.util.find_library("pmix"))
    if library is None:
        message = "without libpmix its jobs are found by a scan of /proc on their hosts"
        return Finding(topic, "warning", message, "install the PMIx library (Debian: libpmix2)")
    return Finding(topic, "note", f"its jobs are found through PMIx ({library})")


def _try_mpi(launcher: Launcher, environment: Mapping[str, str]) -> str:
    """Start two processes of mpi4py the way aggregators are started; return the failure, if any."""
    with tempfile.TemporaryDirectory(prefix="pgdb-doctor-") as directory:
        ours = scrubbed_environment(environment) | mpi4py_environment(launcher, Path(directory))
        ours |= dict.fromkeys(ROOT_VARIABLES, "1")
        line = overlay_line(launcher, 2, [sys.executable, "-P", "-c", MPI_PROGRAM])
        status, said = ask(*line, environment=ours, timeout_s=MPI_TIMEOUT_S)
    sizes = re.findall(r"pgdb-size (\d+)", said)
    if status == 0 and sizes == ["2"]:
        return ""
    if sizes:
        return f"instead of one job of 2 there are {len(sizes)} of {sizes[0]}"
    return last_line(said) or f"exit status {status}"


def check_slurm(host: Host) -> Iterator[Finding]:
    """Check whether Slurm answers, and whether its srun can start aggregators."""
    if shutil.which("sinfo", path=host.search_path) is None:
        yield Finding("Slurm", "note", "not here")
        return
    status, said = ask("sinfo", "--noheader", "--format=%D %T")
    if status:
        yield Finding(
            "Slurm",
            "warning",
            f"sinfo has no answer: {last_line(said)}",
            "is SLURM_CONF right, and slurmctld up? Jobs of other launchers do not need it",
        )
        return
    _, version = ask("sinfo", "--version")
    nodes = ", ".join(line.strip() for line in said.splitlines()) or "none"
    _, help_text = ask("srun", "--help")
    if "--overlap" in help_text:
        yield Finding("Slurm", "ok", f"{version.strip()}; nodes: {nodes}")
    else:
        yield Finding(
            "Slurm",
            "warning",
            f"{version.strip()} has no srun --overlap, without which no aggregator starts beside "
            "a job's step",
            "start the job with mpirun inside of the allocation",
        )
