"""What the tests share: the MPIs, programs and jobs, and the check that nothing is left behind.

A test that is marked ``mpi`` or ``gdb`` fails if it leaves a process of PGDB's behind.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
from collections.abc import Generator, Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Protocol

import hypothesis
import pytest

from tests.support.hosts import Hosts, several_hosts
from tests.support.programs import (
    LEAVE_DEADLINE_S,
    Builder,
    Job,
    Mpi,
    Program,
    find_mpi,
    kill_all,
    processes_with,
    run_job,
    wait_until,
)
from tests.support.slurm import Slurm, private_slurm
from tests.support.terminal import LEAVE_S, LEAVING_S

_RUN = f"{os.getpid()}-{os.urandom(6).hex()}"
_RUN_VARIABLE = "PGDB_TEST_RUN"
OURS = ("pgdb.backend", "hold.py", "keeper.py", "gdb -nx -q -i=mi3")
"""Parts of the command lines of what PGDB starts."""

# For every process that a test starts, directly or not: so that other people's are not counted
# among those that it has left behind.
os.environ[_RUN_VARIABLE] = _RUN
# Open MPI refuses to run anything as root without these (4.1 asks for the first two, 5 for the
# others), and tests run as root in containers.
for _name in ("OMPI", "PRTE"):
    os.environ[f"{_name}_ALLOW_RUN_AS_ROOT"] = "1"
    os.environ[f"{_name}_ALLOW_RUN_AS_ROOT_CONFIRM"] = "1"


# What a script starts in the background ignores Ctrl-C; tests that send it would wait for ever.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# How long an example takes says something of the machine only.
hypothesis.settings.register_profile(
    "shared machine",
    deadline=None,
    suppress_health_check=[hypothesis.HealthCheck.too_slow],
)
hypothesis.settings.load_profile("shared machine")

MPIS = ("openmpi", "mpich")
LIVE_TIMEOUT_S = 1200.0
"""For one live test. A minute on a quiet machine may become many on one that is shared."""


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add our own options."""
    parser.addoption(
        "--every-mpi",
        action="store_true",
        help="run tests that are marked any_mpi under every MPI, and not the first there is alone",
    )


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Give the live tests more time than the others; leave out what other MPIs would repeat."""
    for item in items:
        if any(item.get_closest_marker(mark) for mark in ("mpi", "gdb")):
            item.add_marker(pytest.mark.timeout(LIVE_TIMEOUT_S))
    if config.getoption("--every-mpi"):
        return
    first = _first_mpi()
    repeated = [
        item
        for item in items
        if isinstance(item, pytest.Function)
        and item.get_closest_marker("any_mpi")
        and hasattr(item, "callspec")
        and item.callspec.params.get("mpi", first) != first
    ]
    config.hook.pytest_deselected(items=repeated)
    gone = set(repeated)
    items[:] = [item for item in items if item not in gone]


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Say of a live test that fails what else the machine was doing."""
    report = yield
    if report.failed and any(item.get_closest_marker(mark) for mark in ("mpi", "gdb")):
        report.sections.append((f"the machine after {call.when}", _busiest()))
    return report


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Say how long the processes of sessions took to end."""
    if took_s := sorted(LEAVING_S):
        late = sum(each > LEAVE_S for each in took_s)
        terminalreporter.write_line(
            f"nothing of {len(took_s)} sessions was left {took_s[-1]:.1f} s after their end or "
            f"grace time, of half of them {took_s[len(took_s) // 2]:.1f} s"
            + (f"; LATE, after more than {LEAVE_S:g} s: {late}" if late else "")
        )


def _busiest() -> str:
    """Return the load and the processes that have computed most of late."""
    columns = ("pid", "ppid", "etimes", "cp", "stat", "args")
    line = ["ps", "-eo", ",".join(columns), "--sort=-cp"]
    done = subprocess.run(line, capture_output=True, text=True, check=False)
    shown = [each[:160] for each in done.stdout.splitlines()[:16]]
    return "\n".join([f"load {Path('/proc/loadavg').read_text().strip()}", *shown])


def _first_mpi() -> str:
    """Return the name of the first MPI that there is, or of the last."""
    for name in MPIS[:-1]:
        with contextlib.suppress(pytest.skip.Exception):
            return find_mpi(name).name
    return MPIS[-1]


class Build(Protocol):
    """The fixture ``build``."""

    def __call__(self, name: str, *flags: str) -> Program:
        """Return the program of the source file *name* in tests/programs or examples."""
        ...


class StartJob(Protocol):
    """The fixture ``start_job``."""

    def __call__(
        self, ranks: int, program: Program, *args: str, in_mpi: bool = True
    ) -> AbstractContextManager[Job]:
        """Run a job without a debugger as long as the context lasts."""
        ...


def our_processes() -> dict[int, str]:
    """Return pid and command line of PGDB's processes that this run of the tests has started."""
    found = processes_with(f"{_RUN_VARIABLE}={_RUN}")
    return {
        pid: line
        for pid, line in found.items()
        if pid != os.getpid() and any(part in line for part in OURS)
    }


@pytest.fixture(autouse=True)
def _nothing_left(request: pytest.FixtureRequest) -> Iterator[None]:
    """Fail a live test that leaves a process of PGDB's behind, and end that process."""
    if not any(request.node.get_closest_marker(mark) for mark in ("mpi", "gdb")):
        yield
        return
    before = set(our_processes())
    yield
    try:
        wait_until(
            lambda: not set(our_processes()) - before,
            "all of our processes end",
            LEAVE_DEADLINE_S,
        )
    except AssertionError:
        left = {pid: line for pid, line in our_processes().items() if pid not in before}
        kill_all(lambda: set(our_processes()) - before, "our processes")
        if left:
            pytest.fail(f"left behind after {LEAVE_DEADLINE_S:g} s: {left}", pytrace=False)


@pytest.fixture(autouse=True)
def _hosts_are_whole(request: pytest.FixtureRequest) -> Iterator[None]:
    """Mend what a test has broken of the hosts that all tests share."""
    yield
    for name in {"four_hosts", "bare_hosts"} & set(request.fixturenames):
        hosts: Hosts = request.getfixturevalue(name)
        hosts.restore()


@pytest.fixture(autouse=True)
def _jobs_are_gone(request: pytest.FixtureRequest) -> Iterator[None]:
    """End the jobs that a test has left in the Slurm that all tests share."""
    yield
    if "slurm" in request.fixturenames:
        slurm: Slurm = request.getfixturevalue("slurm")
        slurm.cancel_all()


@pytest.fixture(scope="session")
def four_hosts(builder: Builder) -> Iterator[Hosts]:
    """Hosts h1 to h4, for all tests; a test that leaves processes on them ends them itself."""
    with several_hosts(4, shared=[builder.directory]) as hosts:
        yield hosts


@pytest.fixture(scope="session")
def slurm() -> Iterator[Slurm]:
    """A Slurm of two nodes, for all tests; a test ends the jobs that it has submitted."""
    with private_slurm(2) as slurm:
        yield slurm


@pytest.fixture(scope="session")
def builder(tmp_path_factory: pytest.TempPathFactory) -> Builder:
    """What builds the programs, once for all tests."""
    return Builder(tmp_path_factory.mktemp("programs"))


@pytest.fixture(scope="session", params=MPIS)
def mpi(request: pytest.FixtureRequest) -> Mpi:
    """Each MPI of this machine; MPICH is that of the directory PGDB_TEST_MPICH if it is set."""
    return find_mpi(request.param)


@pytest.fixture
def build(builder: Builder, mpi: Mpi) -> Build:
    """Build programs for the MPI."""

    def build_one(name: str, *flags: str) -> Program:
        return builder.build(mpi, name, *flags)

    return build_one


@pytest.fixture
def start_job(builder: Builder, mpi: Mpi) -> StartJob:
    """Run jobs of the MPI that no debugger has started."""

    def start(
        ranks: int, program: Program, *args: str, in_mpi: bool = True
    ) -> AbstractContextManager[Job]:
        line = mpi.line(ranks, program, *args)
        return run_job(builder, line, program, ranks, in_mpi=in_mpi)

    return start
