"""Start PGDB's own processes by a launcher: its line, its MPI, their environment.

One line starts aggregators on all hosts of a job. If another host of the job cannot be reached, a
line for one host starts them there alone.
"""

from __future__ import annotations

import os
import platform
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path

from pgdb.errors import StartError
from pgdb.jobs import procfs
from pgdb.jobs.launch_lines import options_of
from pgdb.jobs.launchers import Family, Launcher, identify
from pgdb.patterns import pattern

OVERLAY_STEP_NAME = "pgdb"
"""Value of ``srun --job-name`` for PGDB's own steps; the job listing omits them."""

MAX_HOSTS_IN_LINE = 256
"""Most hosts in a line; more go into a file. The kernel accepts no argument above 128 KiB."""


def overlay_line(
    launcher: Launcher,
    per_host: int,
    program: Sequence[str],
    *,
    hosts: Sequence[str] = (),
    host_file: Path | None = None,
    exported: Sequence[str] = (),
    slurm_job: str = "",
    bootstrap: Sequence[str] = (),
) -> tuple[str, ...]:
    """Return the line that starts *program*, one of PGDB's own, *per_host* times on every host.

    Without *hosts* the line starts them on this host alone; more than :data:`MAX_HOSTS_IN_LINE`
    hosts are written to *host_file*. The processes are not bound to cores and may outnumber them.
    mpirun and mpiexec give their input to the first process; srun gives it to all, and starts them
    in the allocation *slurm_job* if given. *exported* names the variables that must reach the other
    hosts;
    *bootstrap* are options for reaching them. Run the line with :func:`scrubbed_environment`.

    :raises OSError: if *host_file* cannot be written.
    """
    count = per_host * max(1, len(hosts))
    number = ("-n", str(count))
    in_file = host_file is not None and len(hosts) > MAX_HOSTS_IN_LINE
    if in_file and host_file is not None:
        form = _HOST_FILE_FORMS.get(launcher.family, "{host}")
        entries = (form.format(host=host, slots=per_host) for host in hosts)
        host_file.write_text("".join(f"{entry}\n" for entry in entries), encoding="utf-8")
    file = str(host_file) if in_file else ""
    match launcher.family:
        case Family.OPEN_MPI_4 | Family.OPEN_MPI_5:
            placement = _open_mpi_placement(launcher.family, per_host, hosts, file)
            if hosts:
                placement += tuple(word for name in exported for word in ("-x", name))
        case Family.MPICH | Family.INTEL:
            placement = _hydra_placement(launcher.family, per_host, hosts, file)
        case Family.SLURM:
            placement = _slurm_placement(per_host, hosts, file, slurm_job)
    return (str(launcher.path), *bootstrap, *placement, *number, *program)


_HOST_FILE_FORMS = {
    Family.OPEN_MPI_4: "{host} slots={slots}",
    Family.OPEN_MPI_5: "{host} slots={slots}",
    Family.MPICH: "{host}:{slots}",
}


def _with_slots(hosts: Sequence[str], per_host: int) -> str:
    return ",".join(f"{host}:{per_host}" for host in hosts)


def _open_mpi_placement(
    family: Family, per_host: int, hosts: Sequence[str], file: str
) -> tuple[str, ...]:
    # For Open MPI 4 "none" means no host file, not even the installation's; for 5 it is a file
    # name.
    is_4 = family is Family.OPEN_MPI_4
    alone = ("--default-hostfile", "none") if is_4 else ()
    binding = ("--bind-to", "none", *(("--oversubscribe",) if is_4 else ()), *alone)
    if not hosts:
        return (*binding, *(() if is_4 else ("--map-by", ":OVERSUBSCRIBE")))
    where = ("--hostfile", file) if file else ("--host", _with_slots(hosts, per_host))
    mapping = f"ppr:{per_host}:node" + ("" if is_4 else ":OVERSUBSCRIBE")
    return (*binding, *where, "--map-by", mapping)


def _hydra_placement(
    family: Family, per_host: int, hosts: Sequence[str], file: str
) -> tuple[str, ...]:
    is_intel = family is Family.INTEL
    binding = ("-genv", "I_MPI_PIN", "off") if is_intel else ("-bind-to", "none")
    if not hosts:
        return ("-launcher", "fork", "-hosts", "localhost", *binding)
    listed = ",".join(hosts) if is_intel else _with_slots(hosts, per_host)
    where = ("-f", file) if file else ("-hosts", listed)
    return (*where, *(("-ppn", str(per_host)) if is_intel else ()), *binding)


def _slurm_placement(
    per_host: int, hosts: Sequence[str], file: str, slurm_job: str
) -> tuple[str, ...]:
    # The step runs beside the job's own, which has all of the memory and the devices.
    placement = [f"--job-name={OVERLAY_STEP_NAME}"]
    placement += ["--overlap", "--overcommit", "--cpu-bind=none"]
    placement += ["--mem=0", "--gres=none", "--mpi=none"]
    if slurm_job:
        placement.append(f"--jobid={slurm_job}")
    if hosts:
        # srun reads a name with a slash as a file of names.
        placement += ["-w", file or ",".join(hosts), "-N", str(len(hosts))]
        placement.append(f"--ntasks-per-node={per_host}")
    return tuple(placement)


# Variables by which a launcher reaches other hosts; they served the job's ranks, so they serve
# ours.
_BOOTSTRAP_VARIABLES = pattern(
    r"""(?x)
    (?: OMPI_MCA_(?: plm_ | oob_ | orte_launch_agent ) | PRTE_MCA_(?: plm_ | oob_ | prte_launch )
      | HYDRA_(?: LAUNCHER | IFACE ) | I_MPI_HYDRA_(?: BOOTSTRAP | IFACE )
      | SLURM_CONF\Z )
    """
)
_BOOTSTRAP_MCA = pattern(r"(?:plm_|oob_|orte_launch_agent|prte_launch)")
_BOOTSTRAP_OPTIONS = frozenset(
    {"launcher", "launcher-exec", "bootstrap", "bootstrap-exec", "iface", "prefix"}
)
_MCA_OPTIONS = frozenset({"mca", "gmca", "prtemca"})


def bootstrap_environment(launcher_pid: int) -> dict[str, str]:
    """Return the variables by which a running launcher reaches its job's other hosts."""
    environment = procfs.environment(launcher_pid) or {}
    return {name: value for name, value in environment.items() if _BOOTSTRAP_VARIABLES.match(name)}


def bootstrap_options(launcher: Launcher, command: Sequence[str]) -> tuple[str, ...]:
    """Return the options in a launcher's line *command* for reaching other hosts."""
    if launcher.family is Family.SLURM:
        return ()
    found: list[str] = []
    for option, words in options_of(launcher, command):
        is_mca = option.name in _MCA_OPTIONS and _BOOTSTRAP_MCA.match(option.value or "")
        if is_mca or option.name in _BOOTSTRAP_OPTIONS:
            found += words
    return tuple(found)


# Intel's script has 3 KB.
_SCRIPT_READ_BYTES = 65536

_LIBRARY_NAMES = {
    Family.OPEN_MPI_4: ("libmpi.so.40", "libmpi.so.20", "libmpi.so.12"),
    Family.OPEN_MPI_5: ("libmpi.so.40",),
    # Debian's MPICH 4.0 names its library libmpich.so.12. Names without a number are Open MPI's
    # there, or linker scripts.
    Family.MPICH: ("libmpi.so.12", "libmpich.so.12"),
    Family.INTEL: ("libmpi.so.12",),
}


def mpi_library(launcher: Launcher) -> Path | None:
    """Return the MPI library in the installation of *launcher*.

    None for srun, which serves any MPI, and for an installation with an unusual layout.
    """
    binary = _binary(launcher)
    if launcher.family is Family.SLURM or binary is None:
        return None
    prefix = binary.parent.parent
    multiarch = f"lib/{platform.machine()}-linux-gnu"
    for directory in ("lib", "lib64", "lib/release", multiarch):
        for name in _LIBRARY_NAMES[launcher.family]:
            library = prefix / directory / name
            if library.is_file():
                return library
    return None


def _binary(launcher: Launcher) -> Path | None:
    """Return the program behind *launcher*, through links and wrapper scripts."""
    path = launcher.path.resolve()
    try:
        with path.open("rb") as file:
            start = file.read(_SCRIPT_READ_BYTES)
    except OSError:
        return None
    if not (start.startswith(b"#!") and b"mpiexec.hydra" in start):
        return path
    # Intel's mpirun runs the first mpiexec.hydra in PATH, which may be MPICH's, unless an Intel
    # environment script beside it changes PATH first. Its --version shows which one it is.
    in_path = shutil.which("mpiexec.hydra")
    for hydra in (path.with_name("mpiexec.hydra"), Path(in_path) if in_path else path):
        try:
            if hydra != path and identify(hydra).version == launcher.version:
                return hydra.resolve()
        except StartError:
            continue
    return path


def mpi4py_environment(launcher: Launcher, directory: Path) -> dict[str, str]:
    """Return the variables that make mpi4py use the MPI of *launcher*; empty if unknown.

    For Debian's MPICH the function makes a link in *directory*, which must outlive the processes.
    """
    library = mpi_library(launcher)
    if library is None:
        return {}
    # MPI4PY_MPIABI must not be set: with it mpi4py 4.1.2 ignores MPI4PY_LIBMPI.
    variables = {}
    if library.name == "libmpich.so.12":
        # mpi4py's module needs a library named libmpi.so.12. With MPI4PY_LIBMPI alone the dynamic
        # linker does not use the loaded one, whose SONAME is libmpich.so.12 (tried with mpi4py
        # 4.1.2).
        link = directory / "libmpi.so.12"
        link.unlink(missing_ok=True)
        link.symlink_to(library)
        library = link
        paths = (str(directory), os.environ.get("LD_LIBRARY_PATH", ""))
        variables["LD_LIBRARY_PATH"] = ":".join(path for path in paths if path)
    variables["MPI4PY_LIBMPI"] = str(library)
    return variables


# Variables that launchers set in a rank's environment (seen with Open MPI 4.1.4 and 5.0.11, MPICH
# 4.0.2 and 5.0.2, Intel MPI 2021.18, Slurm 22.05).
_OF_A_RANK = pattern(
    r"""(?x)
    (?: PMI_ | PMIX_(?!MCA_|PREFIX\Z) | MPI_LOCAL | HYDI_ | HYDRA_BSTRAP_
      | HYDRA_(?:LAUNCH_TYPE|IP_VERSION)\Z | MPIR_CVAR_CH3_INTERFACE_HOSTNAME\Z
      | I_MPI_(?:INFO_ | PIN_INFO\Z | PIN_MAPPING\Z | HYDRA_UUID\Z | INTERNAL_)
      | OMPI_(?!MCA_|ALLOW_) | OPAL_USER_PARAMS_GIVEN\Z | PRTE_(?:LAUNCHED|SHARED_FS)\Z
      | SLURM_(?:PROCID|LOCALID|NODEID|GTIDS|TASK_PID|LAUNCH_NODE_IPADDR|PRIO_PROCESS)\Z
      | SLURM_(?:STEP | SRUN_COMM_ | PMI) | SRUN_DEBUG\Z | FLUX_TASK_ )
    """
)
# The user's wishes for placing the job's ranks do not apply to ours, and some cannot be overridden
# in the line (a rank file, a mapping policy).
_OF_PLACEMENT = pattern(
    r"""(?x)
    (?: OMPI_MCA_(?:orte_default_hostfile | orte_rankfile | rmaps_ | hwloc_base_)
      | PRTE_MCA_(?:prte_default_hostfile | rmaps_ | hwloc_)
      | HYDRA_(?:HOST_FILE | BINDING | MAPPING)\Z
      | I_MPI_(?:HYDRA_HOST | PERHOST\Z | PIN(?:_|\Z))
      | SLURM_(?:NTASKS | NPROCS\Z | CPUS_PER_TASK\Z | CPU_BIND | MEM_ | GPUS | GRES
               | DISTRIBUTION\Z | HINT\Z | THREADS_PER_CORE\Z | TRES_PER_TASK\Z | EXACT\Z) )
    """
)
# orterun and prterun set them in a rank; outside of one they are the user's own.
_OF_OPEN_MPI_RANK = pattern(
    r"""(?x)
    OMPI_MCA_(?:ess | initial_wdir | mpi_oversubscribe | mpi_yield_when_idle
      | orte_(?!base_help) | pmix\Z | shmem_RUNTIME | cpu_type | num_procs | PREFIXES)
    | (?: OPAL | PMIX | PRTE )_PREFIX\Z
    """
)


def scrubbed_environment(env: Mapping[str, str]) -> dict[str, str]:
    """Return *env* for PGDB's own processes, without the variables of an MPI job around us.

    The user's wishes for placing the job's ranks are removed too. Other settings of the user's
    stay, such as ``OMPI_MCA_btl``, OMPI_ALLOW_RUN_AS_ROOT, SLURM_CONF and SLURM_JOB_ID.
    """
    patterns = [_OF_A_RANK, _OF_PLACEMENT]
    if "OMPI_COMM_WORLD_RANK" in env:
        patterns.append(_OF_OPEN_MPI_RANK)
    return {
        name: value
        for name, value in env.items()
        if not any(pattern.match(name) for pattern in patterns)
    }


def absolute_parts(search_path: str) -> str:
    """Return a search path without the parts that mean the working directory.

    An empty part means it, as an extra colon makes one. The dynamic linker interprets a part that
    begins with ``$``.

    >>> absolute_parts(":/opt/lib:.:lib:")
    '/opt/lib'
    """
    parts = search_path.split(os.pathsep)
    return os.pathsep.join(part for part in parts if part.startswith(("/", "$")))
