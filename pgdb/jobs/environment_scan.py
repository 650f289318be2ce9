"""Find the ranks on this host by the environment that their launcher gave them.

The scan does not need the launcher. So it works on every host of a job, with an unknown launcher,
and after the launcher's end. A *selector* is a string that means one job on all of its hosts:

``key:KEY``
    the text that the launcher leaves in the environment of all ranks
    (:attr:`RankIdentity.job_key`);
``proxy:HOST:PORT PGID``
    the command line of the proxy above the rank: MPICH's hydra leaves nothing in the environment.
    The selectors of MPICH's and Intel's hydra have ``spawned N`` behind them for the Nth world of
    MPI_Comm_spawn on the host;
``slurm:JOB.STEP``, ``slurm:JOB``
    all ranks of one Slurm step, or of one Slurm job;
``worlds:FAMILY``, ``spawned:FAMILY``
    the ranks of all worlds of one launcher, or of those of MPI_Comm_spawn
    (:mod:`pgdb.jobs.world_keys`).

A rank is the topmost process that has a rank's environment: its children inherit the environment.
PGDB's own processes are never ranks.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import pairwise

import msgspec

from pgdb.jobs import procfs, world_keys
from pgdb.jobs.procfs import ProcessStat
from pgdb.jobs.rank_environment import RankIdentity, rank_environment
from pgdb.patterns import pattern
from pgdb.proctable import RankProcess

# The anchors of our aggregators have it; no other process of PGDB's has a rank's environment.
_OURS = "PGDB_WIRE_UP"
# slurm/slurm.h: steps that srun did not start have a number from here on. These are the batch
# script and, among others, the shell of salloc with LaunchParameters=use_interactive_step.
_FIRST_SPECIAL_STEP = 0xFFFFFFF0
# Daemons start ranks on their own host and may have a rank's environment themselves: Open MPI's run
# as a Slurm step if there is Slurm. Debian's is slurmstepd-wlm.
_DAEMON = pattern(
    r"(?:orted|prted|hydra_pmi_proxy|hydra_bstrap_proxy|pmi_proxy|slurmstepd|sshd)(?:[-.]\w+)?\Z"
)
_REMOTE_DAEMONS = ("orted", "prted", "hydra_pmi_proxy", "hydra_bstrap_proxy")
# ssh's options whose value is a word of its own (ssh(1)); rsh, blaunch and the like have fewer.
_SSH_TAKES_A_VALUE = frozenset(f"-{letter}" for letter in "BbcDEeFIiJLlmOoPpQRSWw")
# Programs that start another one and do not use MPI themselves.
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
# Executables, except interpreters, of which a process has mapped an MPI library.
_MPI_PROGRAMS: set[tuple[int, int, int]] = set()
MPI_LIBRARY = pattern(r"/libp?mpi[\w+-]*\.so[\d.]*(?: \(deleted\))?\Z")


class RankGroup(msgspec.Struct, frozen=True):
    """The ranks of one job on this host."""

    key: str
    """The job's own selector; empty if its ranks cannot be distinguished from another job's."""
    size: int | None
    """Number of ranks in MPI_COMM_WORLD; None if unknown."""
    processes: tuple[RankProcess, ...]
    """The ranks, least first, with this host's own name for itself."""


class Processes:
    """The processes of this host at one moment; each fact about a process is read once."""

    def __init__(self) -> None:
        self.parent_of = procfs.parents()
        """Every process with its parent."""
        self._children: dict[int, list[int]] = {}
        for pid, parent in self.parent_of.items():
            self._children.setdefault(parent, []).append(pid)
        self._environments: dict[int, Mapping[str, str] | None] = {}
        self._identities: dict[int, RankIdentity | None] = {}
        self._stats: dict[int, ProcessStat | None] = {}
        self._spawned_numbers: dict[tuple[str, int], Mapping[int, int]] = {}

    def children(self, pid: int) -> list[int]:
        """Return the pids whose parent is *pid*, in order."""
        return self._children.get(pid, [])

    def below(self, pid: int, enter: Callable[[int], bool] = lambda _: True) -> Iterator[int]:
        """Yield the descendants of *pid*, parents first, except those below a refused one."""
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
        """Return the rank in the environment of *pid*, which a child of the rank inherits."""
        if pid not in self._identities:
            self._identities[pid] = rank_environment(self.environment(pid) or {})
        return self._identities[pid]

    def stat(self, pid: int) -> ProcessStat | None:
        """Return identity and state of the process *pid*."""
        if pid not in self._stats:
            self._stats[pid] = procfs.read_stat(pid)
        return self._stats[pid]

    def has_ended(self, pid: int) -> bool:
        """Return whether *pid* is gone, or a zombie."""
        stat = self.stat(pid)
        return stat is None or stat.has_ended

    def start_time_ticks(self, pid: int) -> int:
        """Return the start time of *pid*, 0 if it is gone."""
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
        """Return whether *pid* is a launcher's program; a script with a launcher's name is not."""
        return not self.has_ended(pid) and procfs.is_launcher_name(self._program(pid))

    def is_daemon(self, pid: int) -> bool:
        """Return whether *pid* is a daemon that launchers start on each host."""
        return bool(_DAEMON.match(self._program(pid)))

    def is_ours(self, pid: int) -> bool:
        """Return whether a launcher started *pid*, or an ancestor of it, as a process of PGDB's."""
        return any(_OURS in (self.environment(each) or {}) for each in (pid, *self.above(pid)))

    def selector(self, pid: int) -> str:
        """Return the selector of the job in the environment of *pid*; empty if there is none."""
        identity = self.identity(pid)
        if identity is None:
            return ""
        if identity.job_key is not None:
            step = _slurm_step(self.environment(pid) or {})
            if identity.job_key == step:
                return f"slurm:{step}"
            selector = f"key:{identity.job_key}"
            if "PMI_SPAWNED" not in (self.environment(pid) or {}):
                return selector
            # Intel's hydra gives all worlds the same key.
            return self._numbered(selector, self._below_daemon(pid)[0], self.parent_of, 0)
        own, proxy = self._below_daemon(pid, lambda each: bool(self._proxy_selector(each)))
        selector = self._proxy_selector(proxy) if proxy else ""
        if not selector:
            return ""
        return self._numbered(selector, own, self.children(proxy), proxy)

    def _proxy_selector(self, pid: int) -> str:
        return proxy_selector(procfs.command_line(pid) or [])

    def _below_daemon(
        self, pid: int, is_daemon: Callable[[int], bool] | None = None
    ) -> tuple[int, int]:
        """Return the process through which *pid* descends from a daemon, and the daemon, or 0."""
        for each in self.above(pid):
            if (is_daemon or self.is_daemon)(each):
                return pid, each
            pid = each
        return pid, 0

    def _numbered(self, selector: str, pid: int, candidates: Iterable[int], proxy: int) -> str:
        """Return the selector of a daemon's child: that of its job, with the number of its world.

        Nothing in the environments below hydra distinguishes the worlds of MPI_Comm_spawn (MPICH
        5.0.2, Intel MPI 2021.18).
        """
        if "PMI_SPAWNED" not in (self.environment(pid) or {}):
            return selector
        # The hosts of a job can share their process ids, with a proxy each.
        cache = selector, proxy
        if cache not in self._spawned_numbers:
            starts = []
            for each in sorted(candidates, key=self._age):
                identity, parent = self.identity(each), self.parent_of.get(each, 0)
                if identity is None or "PMI_SPAWNED" not in (self.environment(each) or {}):
                    continue
                key = identity.job_key
                if key is None or (f"key:{key}" == selector and self.is_daemon(parent)):
                    local = identity.rank if identity.local_rank is None else identity.local_rank
                    starts.append((each, (parent, identity.size), (identity.rank, local)))
            self._spawned_numbers[cache] = world_keys.in_order(starts)
        number = self._spawned_numbers[cache].get(pid, 0)
        return f"{selector} spawned {number}" if number else selector

    def _age(self, pid: int) -> tuple[int, int]:
        return self.start_time_ticks(pid), pid

    def rank_pid(self, pid: int) -> int:
        """Return the rank's own process for *pid*, which may be a descendant of it."""
        identity, selector = self.identity(pid), self.selector(pid)
        top = pid
        for each in self.above(pid):
            # A rank may run a job of its own, with another rank of that number. Then the outer
            # rank's launcher is in between, and the hydra proxy below that launcher decides.
            if self.identity(each) != identity or self.selector(each) != selector:
                break
            top = each
        return top

    def _program(self, pid: int) -> str:
        path = procfs.executable(pid)
        return os.path.basename(path) if path is not None else self.name(pid)


def proxy_selector(words: Iterable[str]) -> str:
    """Return the selector in the command line of a hydra_pmi_proxy; empty if there is none.

    >>> proxy_selector(["hydra_pmi_proxy", "--control-port", "n1:4242", "--pgid", "0"])
    'proxy:n1:4242 0'
    """
    values = dict(pairwise(words))
    if "--control-port" not in values:
        return ""
    # MPI_Comm_spawn makes process group 1, a job of its own with the same launcher.
    return f"proxy:{values['--control-port']} {values.get('--pgid', '')}".rstrip()


def scan(selector: str) -> tuple[RankGroup, ...]:
    """Return the ranks of *selector* on this host, by job, the oldest job first."""
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
        elif world_keys.is_of_worlds(selector):
            if not world_keys.matches(processes.selector(pid), selector):
                continue
        elif processes.selector(pid) != selector:
            continue
        if is_rank(pid, processes) and procfs.on_this_host(pid):
            found.append(pid)
    return by_job(found, processes)


def is_rank(pid: int, processes: Processes) -> bool:
    """Return whether *pid* is a rank itself: not a helper, a daemon, a launcher, or a process of
    PGDB's."""
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
    # srun -n 1 ./script with an mpirun in the script: nobody debugs the script.
    return not any(processes.is_launcher(each) for each in processes.below(pid))


def by_job(pids: Iterable[int], processes: Processes) -> tuple[RankGroup, ...]:
    """Group ranks by job, the oldest job first.

    If two processes of one job have the same rank, the older one counts.
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
    """Return the ranks of *launcher* on this host, by job, the oldest job first.

    They are the topmost processes below it with an environment other than its own. Slurm starts
    ranks apart from srun; their environment names a port of srun's.
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
    """Return the ports of the launcher in a rank's environment."""
    texts = [environment.get("SLURM_SRUN_COMM_PORT", "")]
    # Example: 1955790848.0;tcp://192.0.2.2:59781;tcp6://[fd00::2]:44909
    texts += [
        part.rpartition(":")[2]
        for part in environment.get("OMPI_MCA_orte_hnp_uri", "").split(";")[1:]
    ]
    return {int(text) for text in texts if text.isdecimal()}


def starts_daemons(pid: int) -> bool:
    """Return whether *pid*, such as an ssh or srun, starts a launcher's daemon."""
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
        # The words of srun name no host.
        if starts_daemons(pid) and not processes.is_launcher(pid):
            host = _host_of_ssh((procfs.command_line(pid) or [])[1:])
            if host and host != os.uname().nodename:
                hosts[host] = None
    return tuple(hosts)


def _host_of_ssh(words: list[str]) -> str:
    is_value = False
    for word in words:
        # A script around ssh may have its own path as a word.
        if not is_value and not word.startswith(("-", "/")):
            return word.rpartition("@")[2]
        is_value = word in _SSH_TAKES_A_VALUE
    return ""


def program_of_rank(pid: int, program: str = "") -> int:
    """Return the process that runs the program of rank *pid*; *pid* itself if no other one fits
    better.

    A launcher may have been given a script, ``time`` or a container's starter, which forked the
    program. The result is the first process from *pid* downwards whose executable or script has
    the base name *program*; else the first that has mapped an MPI library; else the end of a
    chain of wrappers, each with a single living child: shells and known wrappers, and processes
    whose command line names the child, or that wait for a child that is no tool of the system.
    """
    wanted = os.path.basename(program)
    # Mostly *pid* itself runs the program; then no other process is read.
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
    while True:
        living = [each for each in processes.children(pid) if not processes.has_ended(each)]
        if len(living) != 1 or not (_is_wrapper(pid) or _is_wrapper_of(pid, living[0])):
            return pid
        pid = living[0]


def executes(pid: int, program: str) -> bool:
    """Return whether a process executes *program*, or is an interpreter of the script *program*."""
    return os.path.basename(program) in _program_names(pid)


def _program_names(pid: int) -> set[str]:
    path = procfs.executable(pid) or ""
    names = {os.path.basename(path)}
    if _SHELL.match(os.path.basename(path)) or _INTERPRETER.match(os.path.basename(path)):
        names.add(os.path.basename(_script((procfs.command_line(pid) or [])[1:])))
    return names


def _script(words: list[str]) -> str:
    """Return the script among an interpreter's arguments; empty if there is no script file."""
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


def _is_wrapper_of(pid: int, child: int) -> bool:
    """Return whether *pid* looks like a wrapper, known to nobody, that has started *child*."""
    words = " ".join((procfs.command_line(pid) or [])[1:]).split()
    if _program_names(child) & {os.path.basename(word) for word in words}:
        return True
    is_tool = (procfs.executable(child) or "/usr/").startswith(("/usr/", "/bin/", "/sbin/"))
    return not is_tool and procfs.waits_for_child(pid)


def _is_mpi_program(pid: int) -> bool:
    # A preloaded measuring library maps MPI into shells as well.
    if _is_wrapper(pid):
        return False
    identity = _identity(pid)
    if identity in _MPI_PROGRAMS:
        return True
    is_one = any(map(MPI_LIBRARY.search, procfs.mapped_files(pid)))
    # Listing the mappings of a process takes as long as all other reads here together.
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
