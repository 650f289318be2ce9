"""Several hosts on one machine: namespaces with an sshd each, joined by a bridge.

Each host has its own network, host name, System V IPC and /dev/shm (what killed jobs leave in it
goes too), on request also its own process ids with a /proc and a /tmp of its own. The bridge is in
a namespace of its own too, so that nothing is added to the machine's network and several runs of
the tests do not meet; the tests' own process is not on that network: a front end that is to reach
the hosts runs on one.

No namespace has a name: when its processes are gone so is everything. tests/support/ender.py sees
to that, also if the tests are killed.
"""

from __future__ import annotations

import os
import pwd
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from tests.support import ender
from tests.support.processes import command_of, kill_all, wait_until
from tests.support.programs import MPI_DIRECTORIES, ROOT

START_DEADLINE_S = 120.0
COMMAND_TIMEOUT_S = 120.0
NETWORK = "10.77.0"
"""Of every set of hosts: none is seen from outside of it."""
PASSED_VARIABLES = ("PGDB_TEST_*", "LD_PRELOAD")
"""Variables that ssh passes on: the marks by which tests find processes, and the library of
run_job."""

_TOOLS = ("hostname", "ip", "mount", "nsenter", "ssh", "ssh-keygen", "unshare")
_SSHD = "/usr/sbin/sshd"
_NAMESPACES = ("--net", "--mount", "--uts", "--ipc")

_SSHD_CONFIG = """\
Port 22
HostKey {directory}/host_key
AuthorizedKeysFile {directory}/key.pub
StrictModes no
PermitRootLogin prohibit-password
PasswordAuthentication no
KbdInteractiveAuthentication no
UsePAM no
UseDNS no
MaxStartups 200
MaxSessions 200
AcceptEnv {variables}
"""

_SSH_CONFIG = """\
Host *
  IdentityFile {directory}/key
  IdentitiesOnly yes
  UserKnownHostsFile {directory}/known_hosts
  GlobalKnownHostsFile /dev/null
  StrictHostKeyChecking yes
  BatchMode yes
  ConnectTimeout 10
  LogLevel ERROR
  SendEnv {variables}
"""

# This script runs in the new namespaces and keeps them. With SIGCHLD ignored the kernel reaps all
# children: the first process of a pid namespace is the parent of all its orphans. The start-up
# files of the user's shell are hidden: with pyenv they do a rehash under a lock, and a shell that a
# test has killed leaves the lock behind, for which every later ssh waits a minute.
_INIT = """\
set -e
hostname {name}
mount -t sysfs sysfs /sys
mount --bind {directory}/hosts /etc/hosts
mount --bind {directory}/ssh_config /etc/ssh/ssh_config
mount -t tmpfs -o mode=1777 tmpfs /dev/shm
ip link set lo up
for each in .bashrc .zshenv; do
    if [ -e {home}/$each ]; then mount --bind /dev/null {home}/$each; fi
done
{more}
echo ready
trap '' CHLD
exec cat
"""

# Shared folders of the machine's /tmp keep their paths.
_OWN_FILES = """\
own={directory}/tmp-{name}
mkdir $own
mount -t tmpfs -o mode=1777 tmpfs $own
for each in {shared}; do
    mkdir -p $own/$each
    mount --bind {temporary}/$each $own/$each
done
mount --move $own {temporary}
"""


class Hosts:
    """Hosts that can be reached from each other by ssh, by name."""

    def __init__(self, names: Sequence[str], directory: Path, *, own_pids: bool) -> None:
        self.names = tuple(names)
        self.directory = directory
        """Seen by all hosts: keys, configuration, logs."""
        self._own_pids = own_pids
        self._keepers: dict[str, subprocess.Popen[str]] = {}
        self._switch: subprocess.Popen[str] | None = None
        self._sshds: dict[str, subprocess.Popen[bytes]] = {}

    @property
    def ssh(self) -> Path:
        """An ssh that knows the hosts whoever runs it; a plain ``ssh`` on a host does too."""
        return self.directory / "ssh"

    @property
    def environment(self) -> dict[str, str]:
        """Variables that make every launcher use that ssh; `command` sets them by itself."""
        return {
            "OMPI_MCA_plm_rsh_agent": str(self.ssh),
            "PRTE_MCA_plm_ssh_agent": str(self.ssh),
            "HYDRA_LAUNCHER": "ssh",
            "HYDRA_LAUNCHER_EXEC": str(self.ssh),
            "I_MPI_HYDRA_BOOTSTRAP": "ssh",
            "I_MPI_HYDRA_BOOTSTRAP_EXEC": str(self.ssh),
            "OMPI_ALLOW_RUN_AS_ROOT": "1",
            "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
            "PRTE_ALLOW_RUN_AS_ROOT": "1",
            "PRTE_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
        }

    def address(self, host: str) -> str:
        """Return the host's address."""
        return f"{NETWORK}.{self._number(host)}"

    def command(self, host: str, argv: Sequence[object]) -> list[str]:
        """Return the command that runs *argv* on a host, in the present working directory.

        It turns into *argv*, but with own process ids it stays as the parent.
        """
        variables = [f"{name}={value}" for name, value in self.environment.items()]
        return [
            *self._enter(host),
            "env",
            f"--chdir={Path.cwd()}",
            *variables,
            *(str(word) for word in argv),
        ]

    def popen(self, host: str, argv: Sequence[object], **how: Any) -> subprocess.Popen[bytes]:
        """Start a process on a host; its input is empty and its session new if *how* is silent."""
        settings: dict[str, Any] = {"stdin": subprocess.DEVNULL, "start_new_session": True}
        return subprocess.Popen(self.command(host, argv), **(settings | how))

    def run(
        self, host: str, argv: Sequence[object], *, timeout_s: float = COMMAND_TIMEOUT_S
    ) -> str:
        """Run a command on a host to its end and return its output; it must succeed."""
        return _run(self.command(host, argv), timeout_s)

    def processes(self, host: str) -> dict[int, str]:
        """Return what runs on a host except for what makes it one: pid and command line."""
        keeper = self._keepers[host].pid
        ours = {keeper, *_children(keeper), *self._listener(host)}
        found = {}
        for pid in ender.members("net", self._inode(host)):
            with suppress(OSError):
                if pid not in ours:
                    found[pid] = command_of(pid)
        return found

    def sshd(self, host: str) -> int:
        """Return the process that takes a host's connections; with own process ids its parent."""
        return self._sshds[host].pid

    def cut(self, host: str) -> None:
        """Take the host's link away; its processes go on."""
        self._set_link(host, "down")

    def heal(self, host: str) -> None:
        """Give the host its link back."""
        self._set_link(host, "up")

    def crash(self, host: str) -> None:
        """Kill all of a host's processes at once, with its link down so that nobody hears of it.

        `restore` makes it a host again.
        """
        self.cut(host)
        keeper = self._keepers[host].pid
        spared = {keeper, *_children(keeper)}
        inode = self._inode(host)

        def is_dead() -> bool:
            left = set(ender.members("net", inode)) - spared
            for pid in left:
                ender.kill(pid, "net", inode)
            return not left

        wait_until(is_dead, f"all processes of {host} end")
        self._sshds.pop(host).wait()

    def stop_sshd(self, host: str) -> None:
        """Have the host take no new connections; those that there are stay."""
        for pid in self._listener(host):
            ender.kill(pid, "net", self._inode(host))
        self._sshds.pop(host).wait()

    def start_sshd(self, host: str) -> None:
        """Have the host take connections."""
        options = [_SSHD, "-D", "-e", "-f", self.directory / "sshd_config"]
        with open(self.directory / f"sshd-{host}.log", "ab") as log:
            self._sshds[host] = subprocess.Popen(
                [*self._enter(host), *map(str, options)],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )

        def is_up() -> bool:
            said = Path(log.name).read_text(encoding="utf-8", errors="replace")
            assert self._sshds[host].poll() is None, f"sshd of {host} has ended: {said}"
            # Of the host's own network: the process reads what its namespace has.
            keeper = self._keepers[host].pid
            return any(
                line.split()[1].endswith(":0016") and line.split()[3] == "0A"
                for line in Path(f"/proc/{keeper}/net/tcp").read_text().splitlines()[1:]
            )

        wait_until(is_up, f"sshd of {host} listens", START_DEADLINE_S)

    def restore(self) -> None:
        """Restore what `cut`, `crash` and `stop_sshd` have left, and end all that runs."""
        for host in self.names:
            self.heal(host)
            kill_all(lambda: self.processes(host), f"the processes of {host}")  # noqa: B023
            if host not in self._sshds or self._sshds[host].poll() is not None:
                self.start_sshd(host)
        for host in self.names:
            # The kernel does not retry an address for some seconds after a failure.
            flush = self.command(host, ["ip", "neigh", "flush", "all"])
            subprocess.run(flush, check=True, timeout=COMMAND_TIMEOUT_S)

    # -- how it is made ------------------------------------------------------------------------

    def start(self, report: Callable[[str], None], shared: Sequence[Path]) -> None:
        """Make the hosts; *report* passes the ender what it ends."""
        self._report = report
        self._write_files()
        self._switch = self._keep_namespaces(["--net"], "echo ready; exec cat")
        switch = ["nsenter", f"--target={self._switch.pid}", "--net", "ip", "-batch", "-"]
        lines = ["link add name bridge type bridge", "link set bridge up"]
        for host in self.names:
            self._keepers[host] = self._keep_host(host, shared)
            link = f"link-{host}"
            lines += [
                f"link add {link} type veth peer name eth0 netns {self._keepers[host].pid}",
                f"link set {link} master bridge up",
            ]
        _run(switch, COMMAND_TIMEOUT_S, "\n".join(lines))
        for host in self.names:
            inside = [
                "nsenter",
                f"--target={self._keepers[host].pid}",
                "--net",
                "ip",
                "-batch",
                "-",
            ]
            address = f"address add {self.address(host)}/24 dev eth0"
            _run(inside, COMMAND_TIMEOUT_S, f"{address}\nlink set eth0 up")
            self.start_sshd(host)

    def reap(self) -> None:
        """Wait for our own processes, which have been ended."""
        for keeper in (self._switch, *self._keepers.values()):
            if keeper is not None:
                _close(keeper)
        for sshd in self._sshds.values():
            sshd.wait()

    def _write_files(self) -> None:
        directory = self.directory
        for name in ("key", "host_key"):
            _run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(directory / name)])
        values = {"directory": directory, "variables": " ".join(PASSED_VARIABLES)}
        public = " ".join((directory / "host_key.pub").read_text().split()[:2])
        known = [f"{host},{self.address(host)} {public}" for host in self.names]
        addresses = [f"{self.address(host)} {host}" for host in self.names]
        files = {
            "sshd_config": _SSHD_CONFIG.format(**values),
            "ssh_config": _SSH_CONFIG.format(**values),
            "known_hosts": "\n".join([*known, ""]),
            "hosts": "\n".join(["127.0.0.1 localhost", "::1 localhost", *addresses, ""]),
            "ssh": f'#!/bin/sh\nexec {shutil.which("ssh")} -F {directory}/ssh_config "$@"\n',
        }
        for name, text in files.items():
            (directory / name).write_text(text, encoding="utf-8")
        self.ssh.chmod(0o755)

    def _keep_host(self, host: str, shared: Sequence[Path]) -> subprocess.Popen[str]:
        options, more = [*_NAMESPACES], ""
        if self._own_pids:
            options += ["--pid", "--fork", "--kill-child", "--mount-proc"]
            temporary = Path(tempfile.gettempdir())
            inside = [path.relative_to(temporary) for path in shared if _is_in(path, temporary)]
            more = _OWN_FILES.format(
                directory=self.directory,
                name=host,
                temporary=temporary,
                shared=" ".join(shlex.quote(str(each)) for each in inside) or "''",
            )
        home = shlex.quote(pwd.getpwuid(0).pw_dir)
        script = _INIT.format(name=host, directory=self.directory, home=home, more=more)
        return self._keep_namespaces(options, script)

    def _keep_namespaces(self, options: Sequence[str], script: str) -> subprocess.Popen[str]:
        """Start what holds new namespaces until its input ends."""
        process = subprocess.Popen(
            ["unshare", *options, "sh", "-c", script],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )
        assert process.stdout is not None
        if (said := process.stdout.readline()) != "ready\n":
            process.kill()
            more, _ = process.communicate()
            raise AssertionError(f"no host: {said}{more}")
        self._report(f"net {_inode(process.pid)}")
        return process

    def _enter(self, host: str) -> list[str]:
        keeper = self._keepers[host].pid
        # The keeper of own process ids is the parent of the first that has them.
        pids = [f"--pid=/proc/{keeper}/ns/pid_for_children"] if self._own_pids else []
        return ["nsenter", f"--target={keeper}", *_NAMESPACES, *pids, "--"]

    def _listener(self, host: str) -> set[int]:
        """Return the processes of the host's sshd, not those of its connections."""
        if host not in self._sshds:
            return set()
        first = self._sshds[host].pid
        return {first, *_children(first)} if self._own_pids else {first}

    def _set_link(self, host: str, state: str) -> None:
        assert self._switch is not None
        inside = ["nsenter", f"--target={self._switch.pid}", "--net"]
        _run([*inside, "ip", "link", "set", f"link-{host}", state])

    def _inode(self, host: str) -> str:
        return _inode(self._keepers[host].pid)

    def _number(self, host: str) -> int:
        return self.names.index(host) + 1


@contextmanager
def several_hosts(
    count: int = 4, *, own_pids: bool = False, shared: Sequence[Path] = ()
) -> Iterator[Hosts]:
    """Make hosts ``h1`` … as long as the context lasts; skip the test where that is impossible.

    With *own_pids* each has its own process ids, /proc and /tmp; of the machine's /tmp it sees
    PGDB, Python, the tests' MPIs and the directories *shared*.
    """
    if reason := _missing():
        pytest.skip(f"no hosts of our own: {reason}")
    # Where sshd locks up its unprivileged part; made when a system starts, which containers do not.
    Path("/run/sshd").mkdir(mode=0o755, exist_ok=True)
    directory = Path(tempfile.mkdtemp(prefix="pgdb-hosts-"))
    hosts = Hosts([f"h{number}" for number in range(1, count + 1)], directory, own_pids=own_pids)
    with ExitStack() as stack:
        stack.callback(hosts.reap)
        report = stack.enter_context(ender.ending(directory))
        hosts.start(report, [directory, *_always_shared(), *shared])
        yield hosts


def _missing() -> str:
    """Return what this machine lacks, or nothing."""
    if os.geteuid() != 0:
        return "namespaces take root"
    wanted = [name for name in _TOOLS if shutil.which(name) is None]
    if not os.access(_SSHD, os.X_OK):
        wanted.append(_SSHD)
    if wanted:
        return f"there is no {', '.join(wanted)}"
    return forbidden("mount -t sysfs sysfs /sys", *_NAMESPACES)


def forbidden(script: str, *namespaces: str) -> str:
    """Return why *script* cannot be run in new namespaces, as in many containers, or nothing."""
    done = subprocess.run(
        ["unshare", *namespaces, "sh", "-c", script],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=COMMAND_TIMEOUT_S,
        check=False,
    )
    return f"it is not permitted ({done.stdout.strip()})" if done.returncode else ""


def _always_shared() -> list[Path]:
    """Return what has to be at the same place everywhere for a job to start at all."""
    named = [os.environ[name] for name in MPI_DIRECTORIES.values() if name in os.environ]
    prefixes = [Path(directory).parent for directory in named]
    return [ROOT, Path(sys.prefix), Path(sys.base_prefix), *prefixes]


def _is_in(path: Path, directory: Path) -> bool:
    return path.is_dir() and path.is_relative_to(directory)


def _inode(pid: int) -> str:
    """Return the number of a process's network namespace."""
    return str(os.stat(f"/proc/{pid}/ns/net").st_ino)


def _children(pid: int) -> set[int]:
    with suppress(OSError):
        return set(map(int, Path(f"/proc/{pid}/task/{pid}/children").read_text().split()))
    return set()


def _close(process: subprocess.Popen[str]) -> None:
    """Kill a process and wait for it; its pipes are closed."""
    process.kill()
    process.communicate()


def _run(argv: Sequence[str], timeout_s: float = COMMAND_TIMEOUT_S, text: str = "") -> str:
    done = subprocess.run(
        argv,
        input=text,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=timeout_s,
        check=False,
    )
    assert done.returncode == 0, f"{shlex.join(argv)}: status {done.returncode}: {done.stdout}"
    return done.stdout
