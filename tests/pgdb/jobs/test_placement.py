"""Starting PGDB's own processes: the line of each launcher, its MPI, their environment."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from pgdb.jobs import placement
from pgdb.jobs.launch_lines import TABLES, parse_launch_line
from pgdb.jobs.launchers import Family, Launcher, find_launcher
from pgdb.jobs.placement import (
    MAX_HOSTS_IN_LINE,
    bootstrap_environment,
    bootstrap_options,
    mpi4py_environment,
    mpi_library,
    overlay_line,
    scrubbed_environment,
)

VERSIONS = {
    Family.OPEN_MPI_4: "mpirun (Open MPI) 4.1.4",
    Family.OPEN_MPI_5: "mpirun (Open MPI) 5.0.11",
    Family.MPICH: "HYDRA build details:\n    Version:            4.0.2",
    Family.INTEL: "Intel(R) MPI Library for Linux* OS, Version 2021.18.1 Build 20260626",
    Family.SLURM: "slurm-wlm 22.05.8",
}
OPEN_MPIS = (Family.OPEN_MPI_4, Family.OPEN_MPI_5)
HYDRAS = (Family.MPICH, Family.INTEL)
HOSTS = ("node1", "node2", "10.0.0.3")
MANY = tuple(f"node{number}" for number in range(MAX_HOSTS_IN_LINE + 1))

# PGDB_TEST_LAUNCHERS=/path/mpiexec:… adds launchers of wheels or of own builds.
REAL = [
    "mpirun.openmpi",
    "mpirun.mpich",
    *filter(None, os.environ.get("PGDB_TEST_LAUNCHERS", "").split(":")),
]


def script(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    return path


def fake(directory: Path, family: Family) -> Launcher:
    """Return a launcher that only prints the version text of *family*."""
    name = "srun" if family is Family.SLURM else "mpirun"
    path = script(directory / name, f"cat <<'END'\n{VERSIONS[family]}\nEND")
    return find_launcher(str(path))


def known(family: Family) -> Launcher:
    return Launcher(Path("/mpi/bin/mpirun"), family, VERSIONS[family])


def value_of(line: tuple[str, ...], option: str) -> str:
    """Return the word after the only occurrence of an option."""
    assert line.count(option) == 1, line
    return line[line.index(option) + 1]


# -- the line ----------------------------------------------------------------------------------


@pytest.mark.parametrize("hosts", [(), HOSTS], ids=["here", "hosts"])
@pytest.mark.parametrize("family", TABLES)
def test_the_overlay_line_is_one_that_pgdb_itself_understands(
    tmp_path: Path, family: Family, hosts: tuple[str, ...]
) -> None:
    script(tmp_path / "tool", "exit 0")
    words = overlay_line(
        fake(tmp_path, family),
        3,
        [str(tmp_path / "tool"), "-n"],
        hosts=hosts,
        host_file=tmp_path / "hosts",
        exported=["PGDB_A"],
        slurm_job="7.0",
    )
    line = parse_launch_line(words, environment={})
    assert [line.argv[each.index] for each in line.programs] == [str(tmp_path / "tool")]
    assert line.programs[0].arguments == ("-n",)
    assert (line.rank_count, line.doubts) == (3 * max(1, len(hosts)), ())
    if hosts:
        assert not line.on_this_host_only
    assert not (tmp_path / "hosts").exists(), "few hosts need no file"


@pytest.mark.parametrize("family", OPEN_MPIS)
def test_open_mpi_gets_the_hosts_with_slots_and_what_to_export(family: Family) -> None:
    line = overlay_line(known(family), 2, ["tool"], hosts=HOSTS, exported=["A", "B"])
    assert value_of(line, "--host") == "node1:2,node2:2,10.0.0.3:2"
    assert value_of(line, "-n") == "6"
    assert value_of(line, "--bind-to") == "none"
    assert [line[at + 1] for at, word in enumerate(line) if word == "-x"] == ["A", "B"]
    assert value_of(line, "--map-by").startswith("ppr:2:node")
    # Each family has its own word for more processes than cores, and refuses the other's.
    is_4 = family is Family.OPEN_MPI_4
    assert ("--oversubscribe" in line) is is_4
    assert value_of(line, "--map-by").endswith(":OVERSUBSCRIBE") is not is_4
    # A host file of the installation would add its hosts; version 5 would look for a file named
    # "none".
    assert ("--default-hostfile" in line) is is_4


@pytest.mark.parametrize("family", OPEN_MPIS)
def test_open_mpi_on_this_host_needs_no_export_and_no_host(family: Family) -> None:
    line = overlay_line(known(family), 2, ["tool"], exported=["A"])
    assert not {"-x", "--host", "--hostfile"} & set(line)


def test_the_hydras_get_the_number_of_ranks_on_each_host_in_their_own_ways() -> None:
    mpich = overlay_line(known(Family.MPICH), 2, ["tool"], hosts=HOSTS)
    assert value_of(mpich, "-hosts") == "node1:2,node2:2,10.0.0.3:2"
    assert value_of(mpich, "-bind-to") == "none"
    assert "-ppn" not in mpich
    intel = overlay_line(known(Family.INTEL), 2, ["tool"], hosts=HOSTS)
    assert value_of(intel, "-hosts") == "node1,node2,10.0.0.3"
    assert value_of(intel, "-ppn") == "2"
    assert intel[intel.index("I_MPI_PIN") - 1] == "-genv"
    assert value_of(intel, "I_MPI_PIN") == "off"
    for line in (mpich, intel):
        assert value_of(line, "-n") == "6"
        assert "-launcher" not in line, "the user's own way to other hosts is taken"


@pytest.mark.parametrize("family", HYDRAS)
def test_the_hydras_need_no_ssh_on_this_host(family: Family) -> None:
    line = overlay_line(known(family), 2, ["tool"])
    assert (value_of(line, "-launcher"), value_of(line, "-hosts")) == ("fork", "localhost")


def test_srun_runs_beside_the_job_on_just_its_hosts() -> None:
    line = overlay_line(known(Family.SLURM), 2, ["tool"], hosts=HOSTS, slurm_job="17")
    assert {"--overlap", "--overcommit", "--mem=0", "--gres=none", "--mpi=none"} <= set(line)
    assert {"--jobid=17", "--cpu-bind=none", "--ntasks-per-node=2"} <= set(line)
    assert (value_of(line, "-w"), value_of(line, "-N")) == ("node1,node2,10.0.0.3", "3")
    assert value_of(line, "-n") == "6"


def test_srun_without_a_job_stays_in_its_own_allocation() -> None:
    line = overlay_line(known(Family.SLURM), 2, ["tool"])
    assert not [word for word in line if word.startswith("--jobid")]
    assert "-w" not in line


@pytest.mark.parametrize("family", TABLES)
def test_a_bootstrap_comes_before_all_else(family: Family) -> None:
    line = overlay_line(known(family), 1, ["tool", "--x"], hosts=HOSTS, bootstrap=["--b", "c"])
    assert line[:3] == ("/mpi/bin/mpirun", "--b", "c")
    assert line[-2:] == ("tool", "--x")


@pytest.mark.parametrize(
    ("family", "option", "entry"),
    [
        (Family.OPEN_MPI_4, "--hostfile", "{} slots=2"),
        (Family.OPEN_MPI_5, "--hostfile", "{} slots=2"),
        (Family.MPICH, "-f", "{}:2"),
        (Family.INTEL, "-f", "{}"),
        (Family.SLURM, "-w", "{}"),
    ],
)
def test_many_hosts_go_into_a_file(tmp_path: Path, family: Family, option: str, entry: str) -> None:
    file = tmp_path / "hosts"
    line = overlay_line(known(family), 2, ["tool"], hosts=MANY, host_file=file)
    assert file.read_text().splitlines() == [entry.format(host) for host in MANY]
    # srun reads a name with a slash as a file name.
    assert value_of(line, option) == str(file) and "/" in str(file)
    assert value_of(line, "-n") == str(2 * len(MANY))
    assert not [word for word in line if MANY[-1] in word]
    assert not {"--host", "-hosts"} & set(line)
    if family is Family.INTEL:
        assert value_of(line, "-ppn") == "2"
    if family is Family.SLURM:
        assert value_of(line, "-N") == str(len(MANY))


@pytest.mark.parametrize("family", TABLES)
def test_as_many_hosts_as_a_line_takes_need_no_file(tmp_path: Path, family: Family) -> None:
    file = tmp_path / "hosts"
    line = overlay_line(known(family), 1, ["tool"], hosts=MANY[:-1], host_file=file)
    assert not file.exists()
    assert [word for word in line if MANY[-2] in word and MANY[0] in word]


def test_without_a_place_for_a_file_many_hosts_stay_in_the_line() -> None:
    line = overlay_line(known(Family.MPICH), 1, ["tool"], hosts=MANY)
    assert value_of(line, "-hosts").count(",") == len(MANY) - 1


def test_a_host_file_that_cannot_be_written_is_reported(tmp_path: Path) -> None:
    with pytest.raises(OSError, match="nowhere"):
        file = tmp_path / "nowhere" / "hosts"
        overlay_line(known(Family.MPICH), 1, ["tool"], hosts=MANY, host_file=file)


# -- the way to other hosts --------------------------------------------------------------------

BOOTSTRAP = {
    "OMPI_MCA_plm_rsh_agent": "my-ssh",
    "OMPI_MCA_oob_tcp_if_include": "eth1",
    "OMPI_MCA_orte_launch_agent": "orted-there",
    "PRTE_MCA_plm_rsh_agent": "my-ssh",
    "PRTE_MCA_prte_launch_agent": "prted-there",
    "HYDRA_LAUNCHER": "ssh",
    "HYDRA_LAUNCHER_EXEC": "/usr/bin/ssh",
    "HYDRA_IFACE": "eth1",
    "I_MPI_HYDRA_BOOTSTRAP": "ssh",
    "I_MPI_HYDRA_BOOTSTRAP_EXEC": "my-ssh",
    "I_MPI_HYDRA_IFACE": "eth1",
    "SLURM_CONF": "/etc/slurm.conf",
}


def test_the_way_to_other_hosts_is_read_from_a_running_launcher() -> None:
    others = {
        "HOME": "/nowhere",
        "OMPI_MCA_btl": "self",
        "HYDRA_HOST_FILE": "hosts",
        "SLURM_CONFIG": "x",
        "I_MPI_FABRICS": "shm",
        "PMI_RANK": "1",
    }
    environment = BOOTSTRAP | others | {"PATH": os.environ["PATH"]}
    argv = ["sh", "-c", "echo up; read line"]
    pipe = subprocess.PIPE
    with subprocess.Popen(argv, env=environment, stdin=pipe, stdout=pipe) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"up\n"  # /proc has no environment during the exec
        found = bootstrap_environment(process.pid)
    assert found == BOOTSTRAP


def test_a_launcher_that_has_ended_names_no_way() -> None:
    process = subprocess.Popen(["true"])
    process.wait()
    assert bootstrap_environment(process.pid) == {}


@pytest.mark.parametrize(
    ("family", "text", "found"),
    [
        (Family.OPEN_MPI_4, "--mca plm_rsh_agent my-ssh -n 4", "--mca plm_rsh_agent my-ssh"),
        (Family.OPEN_MPI_4, "-mca oob_tcp_if_include eth1 -n 4", "-mca oob_tcp_if_include eth1"),
        (Family.OPEN_MPI_4, "--prefix /opt/ompi --mca btl self", "--prefix /opt/ompi"),
        (Family.OPEN_MPI_5, "--prtemca plm_rsh_agent a -n 4", "--prtemca plm_rsh_agent a"),
        (Family.MPICH, "-launcher ssh -launcher-exec a -n 4", "-launcher ssh -launcher-exec a"),
        (Family.MPICH, "-iface eth1 -ppn 2", "-iface eth1"),
        (Family.INTEL, "-bootstrap ssh -n 4 -bootstrap-exec a", "-bootstrap ssh -bootstrap-exec a"),
        (Family.SLURM, "--prefix x -launcher ssh", ""),
        (Family.OPEN_MPI_4, "-n 4", ""),
    ],
)
def test_the_way_to_other_hosts_is_read_from_the_jobs_line(
    family: Family, text: str, found: str
) -> None:
    line = ["mpirun", *text.split(), "./app"]
    assert bootstrap_options(known(family), line) == tuple(found.split())


@pytest.mark.parametrize("line", [[], ["mpirun"], ["mpirun", "./app"], ["mpirun", "--mca"]])
def test_a_line_that_says_nothing_of_the_way_is_no_error(line: list[str]) -> None:
    assert bootstrap_options(known(Family.OPEN_MPI_4), line) == ()


@pytest.mark.parametrize("text", ["--prefix out", "--mca plm_x y", "-iface eth9 1"])
def test_the_arguments_of_the_program_say_nothing_of_the_way(text: str) -> None:
    line = ["mpirun", "-n", "2", "./app", *text.split()]
    assert bootstrap_options(known(Family.OPEN_MPI_4), line) == ()


def test_the_hydras_options_may_have_two_dashes() -> None:
    line = ["mpirun", "--launcher", "ssh", "./app"]
    assert bootstrap_options(known(Family.MPICH), line) == ("--launcher", "ssh")


# -- its MPI -----------------------------------------------------------------------------------


def installation(root: Path, family: Family, *libraries: str) -> Launcher:
    launcher = fake(root / "bin", family)
    for name in libraries:
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_bytes(b"")
    return launcher


def test_the_library_is_the_one_of_the_launchers_own_prefix(tmp_path: Path) -> None:
    launcher = installation(
        tmp_path / "a", Family.OPEN_MPI_5, "lib64/libmpi.so.40", "lib/libmpi.so"
    )
    assert mpi_library(launcher) == tmp_path / "a" / "lib64" / "libmpi.so.40"
    assert mpi4py_environment(launcher, tmp_path) == {
        "MPI4PY_LIBMPI": str(tmp_path / "a" / "lib64" / "libmpi.so.40")
    }


def test_the_library_of_another_mpi_in_the_same_prefix_is_not_taken(tmp_path: Path) -> None:
    launcher = installation(tmp_path, Family.MPICH, "lib/libmpi.so.40", "lib/libmpi.so")
    assert mpi_library(launcher) is None
    assert mpi4py_environment(launcher, tmp_path) == {}


def test_debians_mpich_gets_the_link_it_needs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LD_LIBRARY_PATH", "/before")
    launcher = installation(tmp_path / "a", Family.MPICH, "lib/libmpich.so.12")
    for _ in range(2):
        variables = mpi4py_environment(launcher, tmp_path)
        assert (tmp_path / "libmpi.so.12").readlink() == tmp_path / "a/lib/libmpich.so.12"
    assert variables == {
        "MPI4PY_LIBMPI": str(tmp_path / "libmpi.so.12"),
        "LD_LIBRARY_PATH": f"{tmp_path}:/before",
    }


@pytest.mark.parametrize("family", HYDRAS)
def test_a_script_that_runs_another_hydra_has_that_ones_library(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, family: Family
) -> None:
    # Intel's mpirun does that when its directory is not the first in PATH.
    mpirun = script(tmp_path / "intel" / "bin" / "mpirun", 'mpiexec.hydra "$@"')
    for name, each in (("intel", Family.INTEL), ("mpich", Family.MPICH)):
        script(tmp_path / name / "bin" / "mpiexec.hydra", f"cat <<'END'\n{VERSIONS[each]}\nEND")
        library = tmp_path / name / "lib" / "libmpi.so.12"
        library.parent.mkdir()
        library.write_bytes(b"")
    root = tmp_path / ("intel" if family is Family.INTEL else "mpich")
    monkeypatch.setenv("PATH", f"{root / 'bin'}:{os.environ['PATH']}")
    launcher = find_launcher(str(mpirun))
    assert launcher.family is family
    assert mpi_library(launcher) == root / "lib" / "libmpi.so.12"


def test_srun_says_nothing_about_the_mpi(tmp_path: Path) -> None:
    launcher = Launcher(Path("/usr/bin/srun"), Family.SLURM, "Slurm 22.05.8")
    assert mpi_library(launcher) is None
    assert mpi4py_environment(launcher, tmp_path) == {}


# -- their environment ----------------------------------------------------------------------


def test_the_environment_of_a_surrounding_rank_is_scrubbed() -> None:
    kept = {
        "PATH": "/bin",
        "OMPI_ALLOW_RUN_AS_ROOT": "1",
        "OMPI_MCA_btl_tcp_if_include": "eth0",
        "SLURM_CONF": "/etc/slurm.conf",
        "SLURM_JOB_ID": "1",
        "SLURM_JOB_NODELIST": "n1",
        "I_MPI_FABRICS": "shm",
        "PMIX_MCA_gds": "hash",
    }
    dropped = [
        *("OMPI_COMM_WORLD_RANK", "OMPI_UNIVERSE_SIZE", "OMPI_MCA_ess", "OMPI_MCA_orte_hnp_uri"),
        *("PMIX_RANK", "PMIX_NAMESPACE", "PMIX_SERVER_URI4", "OPAL_PREFIX", "PRTE_LAUNCHED"),
        *("PMI_RANK", "PMI_FD", "MPI_LOCALRANKID", "HYDI_CONTROL_FD", "I_MPI_HYDRA_UUID"),
        *("SLURM_PROCID", "SLURM_STEP_ID", "SLURM_LOCALID", "SLURM_NTASKS", "SLURM_CPU_BIND"),
    ]
    assert scrubbed_environment(kept | dict.fromkeys(dropped, "1")) == kept


def test_outside_of_a_rank_what_the_user_set_for_open_mpi_stays() -> None:
    kept = {"OPAL_PREFIX": "/opt/ompi", "OMPI_MCA_pmix": "ext3x", "PMIX_PREFIX": "/opt/pmix"}
    placement = {"OMPI_MCA_rmaps_base_mapping_policy": "ppr:1:node", "HYDRA_HOST_FILE": "hosts"}
    assert scrubbed_environment(kept | placement) == kept


# -- real launchers --------------------------------------------------------------------------


@pytest.fixture
def root_allowed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OMPI_ALLOW_RUN_AS_ROOT", "1")
    monkeypatch.setenv("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1")


def real_launcher(word: str) -> Launcher:
    if shutil.which(word) is None:
        pytest.skip(f"{word} is not installed")
    return find_launcher(word)


@pytest.mark.mpi
@pytest.mark.parametrize("word", REAL)
@pytest.mark.parametrize("where", ["here", "by name", "by file"])
def test_overlay_processes_come_up_as_one_mpi_job(
    word: str, where: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, root_allowed: None
) -> None:
    launcher = real_launcher(word)
    pytest.importorskip("mpi4py", reason="mpi4py is not installed")
    monkeypatch.setattr(placement, "MAX_HOSTS_IN_LINE", 0 if where == "by file" else 1)
    text = "from mpi4py import MPI; w = MPI.COMM_WORLD; print(f'{w.size}:{w.rank}\\n', end='')"
    line = overlay_line(
        launcher,
        3,
        [sys.executable, "-c", text],
        hosts=[] if where == "here" else [socket.gethostname()],
        host_file=tmp_path / "hosts",
        exported=["MPI4PY_LIBMPI"],
    )
    assert (tmp_path / "hosts").exists() is (where == "by file")
    done = subprocess.run(
        line,
        env=scrubbed_environment(os.environ) | mpi4py_environment(launcher, tmp_path),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert sorted(done.stdout.split()) == ["3:0", "3:1", "3:2"], done.stderr


@pytest.mark.mpi
def test_srun_starts_the_overlay(root_allowed: None) -> None:
    if shutil.which("srun") is None:
        pytest.skip("srun is not installed")
    if subprocess.run(["srun", "--version"], capture_output=True, timeout=60).returncode:
        pytest.skip("srun is installed, but no Slurm answers here")
    launcher = find_launcher("srun")
    done = subprocess.run(
        overlay_line(launcher, 3, ["printenv", "SLURM_PROCID"]),
        env=scrubbed_environment(os.environ),
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert sorted(done.stdout.split()) == ["0", "1", "2"], done.stderr
