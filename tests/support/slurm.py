"""A Slurm of the tests' own: slurmctld, some slurmd and munged on this machine, nothing shared.

Each node has a host name and a /dev/shm of its own, all else is this machine's, unless it is to run
on hosts of tests/support/hosts.py. Key, sockets, state and logs are in one directory, and what is
left of it all is ended by tests/support/ender.py, also if the tests are killed.
"""

from __future__ import annotations

import os
import random
import shutil
import socket
import subprocess
import sys
import tempfile
import uuid
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

import pytest

from tests.support import ender
from tests.support.hosts import Hosts, forbidden
from tests.support.processes import kill_all, processes_with, wait_until

START_DEADLINE_S = 120.0
END_DEADLINE_S = 60.0
CANCEL_PATIENCE_S = 20.0
COMMAND_TIMEOUT_S = 120.0
CORES = 8
"""The resources that each node claims to have, whatever the machine has."""
_MARK = "PGDB_TEST_SLURM"
_PROGRAMS = ("munged", "slurmctld", "slurmd", "srun", "sinfo", "squeue", "scancel", "unshare")
_PATH = f"{os.environ['PATH']}:/usr/sbin:/sbin"

# KillWait and Waittime: a job that is cancelled is over at once. linuxproc and task/none need no
# cgroup, which a container often may not write to. config_overrides: what is written here counts,
# not what the machine has. The other times: Slurm takes what is slow for down, and a node that does
# not answer in time has no part in the tests that follow.
CONFIG = """\
ClusterName=pgdb
FirstJobId={first_job}
SlurmctldHost={machine}({address})
SlurmctldPort={port}
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
AuthInfo=socket={directory}/munge.socket
CredType=cred/munge
StateSaveLocation={directory}/state
SlurmdSpoolDir={directory}/spool-%n
TmpFS={directory}/tmp-%n
SlurmctldPidFile={directory}/slurmctld.pid
SlurmdPidFile={directory}/slurmd-%n.pid
SlurmctldLogFile={directory}/slurmctld.log
SlurmdLogFile={directory}/slurmd-%n.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
MpiDefault=none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
SlurmdParameters=config_overrides
SchedulerParameters=batch_sched_delay=0,sched_interval=1
ReturnToService=2
KillWait=1
Waittime=0
MessageTimeout=60
TCPTimeout=30
BatchStartTimeout=120
UnkillableStepTimeout=300
"""
_NODE = """\
NodeName={name} NodeAddr={address} Port={port} CPUs={cores} RealMemory=1000
"""
# Open MPI takes ranks under one host name for neighbours and has them share memory that Slurm's
# nodes do not: 4.1.4 crashes. So each node is a host by its name and its /dev/shm.
_OWN_HOST = """\
hostname {name}
mount --bind {directory}/hosts /etc/hosts
mount -t tmpfs -o mode=1777 tmpfs /dev/shm
"""
_SLURMD = """\
set -e
{more}
exec {slurmd} -D -N {name}
"""
# Nothing here uses cgroups, but slurmd 22.05 looks for them and does not start without: not on our
# hosts, and not in a container whose version 2 it may not write to. Where it is set to version 1 it
# does not look.
_CGROUP_CONFIG = "CgroupPlugin=cgroup/v1\n"
_PARTITION = "PartitionName=tests Nodes=ALL Default=YES MaxTime=INFINITE OverSubscribe=YES\n"


class Slurm:
    """A Slurm that runs."""

    def __init__(self, nodes: Sequence[str], directory: Path, hosts: Hosts | None) -> None:
        self.nodes = tuple(nodes)
        self.directory = directory
        """Configuration, state and logs."""
        self._hosts = hosts
        self._mark = uuid.uuid4().hex
        self._daemons: list[subprocess.Popen[bytes]] = []

    @property
    def environment(self) -> dict[str, str]:
        """Variables that make Slurm's commands, and PGDB, use this one."""
        return {"SLURM_CONF": str(self.directory / "slurm.conf"), _MARK: self._mark}

    def command(self, argv: Sequence[object]) -> list[str]:
        """Return what runs one of Slurm's commands, or PGDB: on the first host if it has hosts."""
        return self._on(self.nodes[0], argv)

    def run(self, *argv: object) -> str:
        """Run one of Slurm's commands to its end and return its output; it must succeed."""
        done = subprocess.run(
            self.command(argv),
            env=os.environ | self.environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=COMMAND_TIMEOUT_S,
            check=False,
        )
        words = " ".join(map(str, argv))
        assert done.returncode == 0, f"{words}: status {done.returncode}: {done.stdout}"
        return done.stdout

    def cancel_all(self) -> None:
        """End all jobs and wait until they are gone.

        pytest shows the printed states and logs if the test has failed: a job can end for reasons
        of Slurm's own.
        """
        print(self.run("scontrol", "--oneliner", "show", "jobs"), self._logs(), sep="\n")
        self.run("scancel", "--user=root")
        try:
            wait_until(self._has_no_job, "all jobs end", CANCEL_PATIENCE_S)
        except AssertionError:
            # A step that is cancelled as it starts can stand for ever, and all of Slurm with it
            # (seen once, with 22.05).
            print(f"killed what Slurm has not ended: {self._of_steps()}", file=sys.stderr)
            kill_all(self._of_steps, "the steps of Slurm's jobs")
            wait_until(self._has_no_job, "all jobs end", END_DEADLINE_S)

    def _has_no_job(self) -> bool:
        return not self.run("squeue", "--noheader")

    def _of_steps(self) -> dict[int, str]:
        """Return pid and command line of what a step's own daemon has started, and of that."""
        found = processes_with(f"{_MARK}={self._mark}")
        sessions = {}
        for pid in found:
            with suppress(ProcessLookupError):
                sessions[pid] = os.getsid(pid)
        of_steps = {sessions[pid] for pid in sessions if found[pid].startswith("slurmstepd:")}
        return {pid: found[pid] for pid, session in sessions.items() if session in of_steps}

    # -- how it is made ------------------------------------------------------------------------

    def start(self) -> None:
        """Start the daemons and wait until all nodes take jobs."""
        (self.directory / "state").mkdir()
        for node in self.nodes:
            (self.directory / f"spool-{node}").mkdir()
            (self.directory / f"tmp-{node}").mkdir()
        (self.directory / "munge.key").write_bytes(os.urandom(1024))
        (self.directory / "munge.key").chmod(0o400)
        self._write_config()
        # --force: the directory's parent is writable to all, as /tmp is.
        self._spawn(
            "munged",
            self._path("munged"),
            "--foreground",
            "--force",
            f"--key-file={self.directory}/munge.key",
            f"--socket={self.directory}/munge.socket",
            f"--pid-file={self.directory}/munged.pid",
            f"--log-file={self.directory}/munged.log",
            f"--seed-file={self.directory}/munge.seed",
        )
        wait_until(self._has_munge, "munged listens", START_DEADLINE_S)
        self._spawn("slurmctld", *self.command([self._path("slurmctld"), "-D", "-i"]))
        for node in self.nodes:
            namespaces, more = ["--mount"], ""
            if self._hosts is None:
                namespaces += ["--uts", "--ipc"]
                more = _OWN_HOST.format(name=node, directory=self.directory)
            script = _SLURMD.format(name=node, more=more, slurmd=self._path("slurmd"))
            words = self._on(node, ["unshare", *namespaces, "sh", "-c", script])
            self._spawn(f"slurmd-{node}", *words)
        wait_until(self._is_up, "all nodes of Slurm are idle", START_DEADLINE_S)

    def stop(self) -> None:
        """End all jobs and daemons; whatever is left is ended by the caller."""
        with suppress(AssertionError, subprocess.TimeoutExpired):
            self.cancel_all()
        # The controller first: it would take nodes that go for nodes that are down.
        for daemon in (*self._daemons[1:], *self._daemons[:1]):
            daemon.terminate()
            try:
                daemon.wait(END_DEADLINE_S)
            except subprocess.TimeoutExpired:
                daemon.kill()
                daemon.wait()

    def _has_munge(self) -> bool:
        assert self._daemons[0].poll() is None, f"munged has ended:\n{self._logs()}"
        with socket.socket(socket.AF_UNIX) as trial, suppress(OSError):
            trial.connect(str(self.directory / "munge.socket"))
            return True
        return False

    def _is_up(self) -> bool:
        for daemon in self._daemons:
            assert daemon.poll() is None, f"{daemon.args!r} has ended:\n{self._logs()}"
        with suppress(AssertionError):  # the controller does not answer yet
            states = self.run("sinfo", "--noheader", "--Node", "--format=%t").split()
            return states == ["idle"] * len(self.nodes)
        return False

    def _logs(self) -> str:
        """Return the end of what the daemons have said."""
        logs = sorted(self.directory.glob("*.log"))
        return "\n".join(f"{log.name}: …{log.read_text()[-500:]}" for log in logs)

    def _write_config(self) -> None:
        if self._hosts is None:
            machine = socket.gethostname().partition(".")[0]
            addresses = ["127.0.0.1"] * len(self.nodes)
        else:
            machine = self.nodes[0]
            addresses = [self._hosts.address(node) for node in self.nodes]
        port, *ports = _free_ports(1 + len(self.nodes))
        text = CONFIG.format(
            machine=machine,
            address=addresses[0],
            port=port,
            directory=self.directory,
            first_job=_first_job(),
        )
        for name, address, each in zip(self.nodes, addresses, ports, strict=True):
            text += _NODE.format(name=name, address=address, port=each, cores=CORES)
        (self.directory / "slurm.conf").write_text(text + _PARTITION, encoding="utf-8")
        (self.directory / "cgroup.conf").write_text(_CGROUP_CONFIG, encoding="utf-8")
        names = " ".join(["localhost", machine, *self.nodes])
        (self.directory / "hosts").write_text(f"127.0.0.1 {names}\n", encoding="utf-8")

    def _on(self, node: str, argv: Sequence[object]) -> list[str]:
        if self._hosts is not None:
            return self._hosts.command(node, argv)
        return [str(word) for word in argv]

    def _path(self, program: str) -> str:
        path = shutil.which(program, path=_PATH)
        assert path is not None, f"there is no {program}"
        return path

    def _spawn(self, name: str, *command: str) -> None:
        with open(self.directory / f"{name}.out.log", "ab") as log:
            self._daemons.append(
                subprocess.Popen(
                    command,
                    env=os.environ | self.environment,
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=log,
                    start_new_session=True,
                )
            )


@contextmanager
def private_slurm(nodes: int = 2, *, hosts: Hosts | None = None) -> Iterator[Slurm]:
    """Run a Slurm as long as the context lasts; skip the test where that is impossible.

    With *hosts* these are its nodes, and the first is where its commands are to be run; they
    must share the machine's /tmp.
    """
    if reason := _missing():
        pytest.skip(f"no Slurm of our own: {reason}")
    directory = Path(tempfile.mkdtemp(prefix="pgdb-slurm-"))
    directory.chmod(0o755)  # munged insists that all can reach its socket
    names = hosts.names if hosts else [f"n{number}" for number in range(1, nodes + 1)]
    slurm = Slurm(names, directory, hosts)
    with ExitStack() as stack:
        report = stack.enter_context(ender.ending(directory))
        report(f"env {_MARK}={slurm.environment[_MARK]}")
        stack.callback(slurm.stop)
        slurm.start()
        yield slurm


def _missing() -> str:
    """Return what this machine lacks, or nothing."""
    if os.geteuid() != 0:
        return "its daemons take root"
    wanted = [name for name in _PROGRAMS if shutil.which(name, path=_PATH) is None]
    if wanted:
        return f"there is no {', '.join(wanted)}"
    return forbidden("mount -t tmpfs tmpfs /dev/shm", "--uts", "--ipc", "--mount")


def _first_job() -> int:
    """Return the number of a Slurm's first job, which is no number of another Slurm's here.

    PGDB finds the ranks of a job by its number. Two workers have a Slurm each, on one
    host: with equal numbers a session attached to the ranks of the other worker's job. The numbers
    are greater than any pid, and below Slurm's limit (MaxJobId).
    """
    return 10_000_000 + 1000 * random.SystemRandom().randrange(50_000)


def _free_ports(count: int) -> list[int]:
    """Return ports that nobody listens at.

    They are below those that the kernel gives out, so that none is taken for somebody's connection
    before the daemons listen at it.
    """
    found: list[int] = []
    for port in random.sample(range(10000, 30000), 1000):
        with socket.socket() as trial, suppress(OSError):
            trial.bind(("", port))
            found.append(port)
        if len(found) == count:
            return found
    raise AssertionError("no port is free")
