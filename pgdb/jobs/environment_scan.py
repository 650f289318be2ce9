"""Find the ranks on this host by the environment that their launcher gave them.

The launcher is not asked, so this works on every host of a job, with a launcher that nobody
knows, and after the launcher's end. What tells one job's ranks from another's is a *selector*, a
string that means the same on all hosts of the job:

``key:KEY``
    what the launcher leaves in the environment of all ranks (:attr:`RankIdentity.job_key`);
``proxy:HOST:PORT PGID``
    the command line of the proxy above the rank: MPICH's hydra leaves nothing in the environment;
``slurm:JOB.STEP``, ``slurm:JOB``
    all ranks of one step of Slurm's, or inside of one job.

A rank is the topmost process that has the environment of one: what it starts inherits that.
PGDB's own processes are never ranks.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import pairwise

import msgspec

from pgdb.jobs import procfs
from pgdb.jobs.procfs import ProcessStat, RankIdentity
from pgdb.patterns import pattern
from pgdb.proctable import RankProcess

# What our aggregators' anchors have; all else that is ours has no rank's environment.
_OURS = "PGDB_WIRE_UP"
# slurm/slurm.h: the batch script and what else is no step of srun's has a number from here on,
# among them the shell of salloc with LaunchParameters=use_interactive_step.
_FIRST_SPECIAL_STEP = 0xFFFFFFF0
# They start ranks on their own host and may have a rank's environment themselves: Open MPI's
# daemons run as a step of Slurm's where there is a Slurm. Debian's is slurmstepd-wlm.
_DAEMON = pattern(
    r"(?:orted|prted|hydra_pmi_proxy|hydra_bstrap_proxy|pmi_proxy|slurmstepd|sshd)(?:[-.]\w+)?\Z"
)
_REMOTE_DAEMONS = ("orted", "prted", "hydra_pmi_proxy", "hydra_bstrap_proxy")
# ssh's options whose value is a word of its own (ssh(1)); rsh, blaunch and their like have less.
_SSH_TAKES_A_VALUE = frozenset(f"-{letter}" for letter in "BbcDEeFIiJLlmOoPpQRSWw")
# Programs that start another one and have no use for MPI themselves.
_SHELL = pattern(r"(?:ba|da|k|mk|pdk|z|tc|c|fi|busybox-)?sh\Z|busybox\Z")
_WRAPPER = pattern(
    r"""(?x)
    (?: time | timeout | env | nice | ionice | nohup | setsid | stdbuf | script | chrt
      | numactl | taskset | hwloc-bind | likwid-\w+ | strace | ltrace | perf | heaptrack
      | sudo | su | runuser | setpriv | unshare | nsenter | chroot
      | starter(?:-suid)? | apptainer | singularity | runc | crun | conmon | docker | podman
      | shifter | enroot | ch-run | pcocc | srun | xvfb-run | catchsegv | libtool )\Z
    """
)
_INTERPRETER = pattern(r"(?:python|perl|ruby|lua|tclsh|julia|guile|Rscript|R|node)[\d.]*\Z")
# Options whose value is a word of its own: bash's, and Python's.
_TAKES_A_VALUE = frozenset({"-o", "-O", "+O", "-W", "-X", "--rcfile", "--init-file"})
# Executables, no interpreters, of which a process has had an MPI library mapped.
_MPI_PROGRAMS: set[tuple[int, int, int]] = set()
_MPI_LIBRARY = pattern(r"/libp?mpi[\w+-]*\.so[\d.]*(?: \(deleted\))?\Z")


class RankGroup(msgspec.Struct, frozen=True):
    """The ranks of one job that live on this host."""

    key: str
    """The job's own selector; empty where nothing tells its ranks from those of another job."""
    size: int | None
    """Number of ranks in MPI_COMM_WORLD; None where nothing tells it."""
    processes: tuple[RankProcess, ...]
    """Least rank first, with the name that this host has for itself."""


class Processes:
    """The processes of this host at one moment; what is told of one of them is read once."""

    def __init__(self) -> None:
        self.parent_of = procfs.parents()
        """Every process with its parent."""
        self._children: dict[int, list[int]] = {}
        for pid, parent in self.parent_of.items():
            self._children.setdefault(parent, []).append(pid)
        self._environments: dict[int, Mapping[str, str] | None] = {}
        self._identities: dict[int, RankIdentity | None] = {}
        self._stats: dict[int, ProcessStat | None] = {}

    def children(self, pid: int) -> list[int]:
        """Return the pids whose parent is *pid*, in order."""
        return self._children.get(pid, [])

    def below(self, pid: int, enter: Callable[[int], bool] = lambda _: True) -> Iterator[int]:
        """Yield the descendants of *pid*, parents first, without those below a refused one."""
        pending = list(self.children(pid))
        for each in pending:  # grows while it is walked
            yield each
            if enter(each):
                pending.extend(self.children(each))

    def above(self, pid: int) -> Iterator[int]:
        """Yield the parent of *pid*, its parent and so on."""
        while (parent := self.parent_of.get(pid, 0)) > 0:
            yield parent
            pid = parent

    def environment(self, pid: int) -> Mapping[str, str] | None:
        """Return the environment that *pid* was executed with; None if it may not be read."""
        if pid not in self._environments:
            self._environments[pid] = procfs.environment(pid)
        return self._environments[pid]

    def identity(self, pid: int) -> RankIdentity | None:
        """Return the rank whose environment *pid* has, be it the rank or started by it."""
        if pid not in self._identities:
            self._identities[pid] = procfs.rank_environment(self.environment(pid) or {})
        return self._identities[pid]

    def stat(self, pid: int) -> ProcessStat | None:
        """Return who *pid* is and what state it is in."""
        if pid not in self._stats:
            self._stats[pid] = procfs.read_stat(pid)
        return self._stats[pid]

    def has_ended(self, pid: int) -> bool:
        """Return whether *pid* is gone, or only its exit status is left."""
        stat = self.stat(pid)
        return stat is None or stat.has_ended

    def start_time_ticks(self, pid: int) -> int:
        """Return when *pid* was started, 0 if it is gone."""
        stat = self.stat(pid)
        return stat.start_time_ticks if stat is not None else 0

    def name(self, pid: int) -> str:
        """Return the name of the program."""
        stat = self.stat(pid)
        return stat.comm if stat is not None else "process"

    def describe(self, pid: int) -> str:
        """Return name and pid, as in ``mpirun 4711``."""
        return f"{self.name(pid)} {pid}"

    def is_launcher(self, pid: int) -> bool:
        """Return whether *pid* is a launcher's program; a script of that name is none."""
        return not self.has_ended(pid) and procfs.is_launcher_name(self._program(pid))

    def is_daemon(self, pid: int) -> bool:
        """Return whether *pid* is one of those that launchers start on each host."""
        return bool(_DAEMON.match(self._program(pid)))

    def is_ours(self, pid: int) -> bool:
        """Return whether *pid* is a process of PGDB's that a launcher started, or below one."""
        return any(_OURS in (self.environment(each) or {}) for each in (pid, *self.above(pid)))

    def selector(self, pid: int) -> str:
        """Return what finds the job whose rank's environment *pid* has; empty if nothing does."""
        identity = self.identity(pid)
        if identity is None:
            return ""
        if identity.job_key is not None:
            step = _slurm_step(self.environment(pid) or {})
            return f"slurm:{step}" if identity.job_key == step else f"key:{identity.job_key}"
        for each in self.above(pid):
            words = procfs.command_line(each) or []
            if proxy := proxy_selector(words):
                return proxy
        return ""

    def rank_pid(self, pid: int) -> int:
        """Return the rank's own process, where *pid* may be one that inherited from it."""
        identity, selector = self.identity(pid), self.selector(pid)
        top = pid
        for each in self.above(pid):
            # A rank may run a job of its own, whose rank of that number is another one: then
            # the launcher in between is the outer rank's, and hydra's proxy below it tells.
            if self.identity(each) != identity or self.selector(each) != selector:
                break
            top = each
        return top

    def _program(self, pid: int) -> str:
        path = procfs.executable(pid)
        return os.path.basename(path) if path is not None else self.name(pid)


def proxy_selector(words: Iterable[str]) -> str:
    """Return the selector that the command line of a hydra_pmi_proxy has; empty if none.

    >>> proxy_selector(["hydra_pmi_proxy", "--control-port", "n1:4242", "--pgid", "0"])
    'proxy:n1:4242 0'
    """
    values = dict(pairwise(words))
    if "--control-port" not in values:
        return ""
    # MPI_Comm_spawn makes process group 1, a job of its own with the same launcher.
    return f"proxy:{values['--control-port']} {values.get('--pgid', '')}".rstrip()


def scan(selector: str) -> tuple[RankGroup, ...]:
    """Return the ranks on this host that *selector* means, by job, the oldest job first."""
    processes = Processes()
    kind, _, value = selector.partition(":")
    found = []
    for pid in processes.parent_of if value else ():
        if processes.identity(pid) is None:
            continue
        if kind == "slurm":
            job, _, step = value.partition(".")
            environment = processes.environment(pid) or {}
            if _slurm_job(environment) != job or (step and _slurm_step(environment) != value):
                continue
        elif processes.selector(pid) != selector:
            continue
        if is_rank(pid, processes) and procfs.on_this_host(pid):
            found.append(pid)
    return by_job(found, processes)


def is_rank(pid: int, processes: Processes) -> bool:
    """Return whether *pid* is a rank itself: not a helper, a daemon, a launcher, or of PGDB's."""
    identity = processes.identity(pid)
    if identity is None or processes.rank_pid(pid) != pid:
        return False
    if processes.is_launcher(pid) or processes.is_daemon(pid) or processes.is_ours(pid):
        return False
    if not processes.selector(pid).startswith("slurm:"):
        return True
    step = (processes.environment(pid) or {}).get("SLURM_STEP_ID", "")
    if step.isdecimal() and int(step) >= _FIRST_SPECIAL_STEP:
        return False
    # srun -n 1 ./script, with an mpirun in the script, which is not what anybody debugs.
    return not any(processes.is_launcher(each) for each in processes.below(pid))


def by_job(pids: Iterable[int], processes: Processes) -> tuple[RankGroup, ...]:
    """Sort ranks by the job they belong to, the oldest job first.

    Of two with one number in one job the older one counts.
    """
    host = os.uname().nodename
    jobs: dict[str, dict[int, RankProcess]] = {}
    sizes: dict[str, int | None] = {}
    for pid in sorted(pids, key=processes.start_time_ticks):
        identity = processes.identity(pid)
        if identity is None:
            continue
        key = processes.selector(pid)
        sizes.setdefault(key, identity.size)
        jobs.setdefault(key, {}).setdefault(
            identity.rank,
            RankProcess(
                rank=identity.rank,
                host=host,
                pid=pid,
                executable=procfs.executable(pid) or "",
            ),
        )
    return tuple(
        RankGroup(key=key, size=sizes[key], processes=tuple(job[rank] for rank in sorted(job)))
        for key, job in jobs.items()
    )


def scan_below(launcher: int, processes: Processes) -> tuple[RankGroup, ...]:
    """Return the ranks that *launcher* has on this host, by job, the oldest job first.

    They are the topmost processes below it that have an environment other than its own. Slurm
    starts ranks apart from srun: those are known by a port of its that their environment names.
    """
    inherited = processes.identity(launcher)

    def is_no_rank(pid: int) -> bool:
        identity = processes.identity(pid)
        return identity is None or identity == inherited or processes.is_daemon(pid)

    found = [
        pid
        for pid in processes.below(launcher, is_no_rank)
        if not is_no_rank(pid) and not processes.is_ours(pid)
    ]
    return by_job(found or _reporting_to(launcher, processes), processes)


def _reporting_to(launcher: int, processes: Processes) -> list[int]:
    ports = procfs.listening_ports(launcher) or frozenset()
    since = processes.start_time_ticks(launcher)
    return [
        pid
        for pid in (processes.parent_of if ports else ())
        if not ports.isdisjoint(launcher_ports(processes.environment(pid) or {}))
        and processes.start_time_ticks(pid) >= since
        and is_rank(pid, processes)
        and procfs.on_this_host(pid)
    ]


def launcher_ports(environment: Mapping[str, str]) -> set[int]:
    """Return the ports that a rank's environment gives as its launcher's."""
    texts = [environment.get("SLURM_SRUN_COMM_PORT", "")]
    # 1955790848.0;tcp://192.0.2.2:59781;tcp6://[fd00::2]:44909
    texts += [
        part.rpartition(":")[2]
        for part in environment.get("OMPI_MCA_orte_hnp_uri", "").split(";")[1:]
    ]
    return {int(text) for text in texts if text.isdecimal()}


def starts_daemons(pid: int) -> bool:
    """Return whether *pid*, such as an ssh or srun, was started to start a launcher's daemon."""
    words = procfs.command_line(pid) or [""]
    return os.path.basename(words[0]) not in _REMOTE_DAEMONS and any(
        daemon in word for word in words[1:] for daemon in _REMOTE_DAEMONS
    )


def remote_hosts(launcher: int, processes: Processes) -> tuple[str, ...]:
    """Return the other hosts on which *launcher*'s children start daemons, by ssh or its like.

    Tried with Open MPI 4.1.4 and 5.0.11, MPICH 5.0.2 and Intel MPI 2021.18: all run
    ``ssh OPTIONS HOST COMMAND``, and COMMAND has the daemon's name in it somewhere.
    """
    hosts: dict[str, None] = {}
    for pid in processes.children(launcher):
        # srun has no host among its words.
        if starts_daemons(pid) and not processes.is_launcher(pid):
            host = _host_of_ssh((procfs.command_line(pid) or [])[1:])
            if host and host != os.uname().nodename:
                hosts[host] = None
    return tuple(hosts)


def _host_of_ssh(words: list[str]) -> str:
    is_value = False
    for word in words:
        # A script around ssh has its own path there.
        if not is_value and not word.startswith(("-", "/")):
            return word.rpartition("@")[2]
        is_value = word in _SSH_TAKES_A_VALUE
    return ""


def program_of_rank(pid: int, program: str = "") -> int:
    """Return the process that is really rank *pid*'s program, *pid* itself if nothing is better.

    A launcher may have been given a script, ``time`` or a container's starter, which forked the
    program. It is the first process from *pid* downwards whose executable or script has the base
    name *program*; else the first that has mapped an MPI library; else what shells and known
    wrappers lead to, each with a single living child.
    """
    wanted = os.path.basename(program)
    # Mostly the rank's own process is the one, and a look at all others would be for nothing.
    if wanted in _program_names(pid) if wanted else _is_mpi_program(pid):
        return pid
    processes = Processes()
    below = [each for each in processes.below(pid) if not processes.has_ended(each)]
    if wanted:
        for each in below:
            if wanted in _program_names(each):
                return each
    for each in (pid, *below):
        if _is_mpi_program(each):
            return each
    while _is_wrapper(pid):
        living = [each for each in processes.children(pid) if not processes.has_ended(each)]
        if len(living) != 1:
            break
        pid = living[0]
    return pid


def executes(pid: int, program: str) -> bool:
    """Return whether a process executes the program, or as an interpreter the script, *program*."""
    return os.path.basename(program) in _program_names(pid)


def _program_names(pid: int) -> set[str]:
    path = procfs.executable(pid) or ""
    names = {os.path.basename(path)}
    if _SHELL.match(os.path.basename(path)) or _INTERPRETER.match(os.path.basename(path)):
        names.add(os.path.basename(_script((procfs.command_line(pid) or [])[1:])))
    return names


def _script(words: list[str]) -> str:
    """Return the script among an interpreter's arguments; empty if the program is no file."""
    skip = False
    for word in words:
        if skip:
            skip = False
        elif word in _TAKES_A_VALUE:
            skip = True
        elif re.match(r"-[A-Za-z]*[cm]\Z", word):
            return ""
        elif not word.startswith(("-", "+")):
            return word
    return ""


def _is_wrapper(pid: int) -> bool:
    name = os.path.basename(procfs.executable(pid) or "")
    return bool(_SHELL.match(name) or _WRAPPER.match(name))


def _is_mpi_program(pid: int) -> bool:
    # A library that is preloaded for measuring has MPI mapped into the shells as well.
    if _is_wrapper(pid):
        return False
    identity = _identity(pid)
    if identity in _MPI_PROGRAMS:
        return True
    is_one = any(map(_MPI_LIBRARY.search, procfs.mapped_files(pid)))
    # What a process has mapped takes as long to list as all else that is asked of it here.
    name = os.path.basename(procfs.executable(pid) or "")
    if is_one and identity is not None and not _INTERPRETER.match(name):
        _MPI_PROGRAMS.add(identity)
    return is_one


def _identity(pid: int) -> tuple[int, int, int] | None:
    try:
        status = os.stat(f"/proc/{pid}/exe")
    except OSError:
        return None
    return status.st_dev, status.st_ino, status.st_ctime_ns


def _slurm_job(environment: Mapping[str, str]) -> str:
    return environment.get("SLURM_JOB_ID", "")


def _slurm_step(environment: Mapping[str, str]) -> str:
    return f"{_slurm_job(environment)}.{environment.get('SLURM_STEP_ID', '')}"
