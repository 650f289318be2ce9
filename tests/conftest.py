"""Shared set-up of all tests: MPIs, programs, jobs, groups for parallel runs, leak checks.

A test that is marked ``mpi`` or ``gdb`` fails if a process of PGDB outlives it.
"""

from __future__ import annotations

import contextlib
import gc
import os
import re
import signal
import subprocess
import sys
import tempfile
from collections.abc import Generator, Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Protocol

import hypothesis
import pytest

from pgdb.backend.node.daemon import ILLEGAL_EVENTS_VARIABLE
from tests.support import autogroup
from tests.support.hosts import Hosts, several_hosts
from tests.support.jobs import Job, run_job
from tests.support.processes import LEAVE_DEADLINE_S, kill_all, processes_with, wait_until
from tests.support.programs import ROOT, Builder, Mpi, Program, find_mpi
from tests.support.slurm import Slurm, private_slurm
from tests.support.terminal import LEAVE_S, LEAVING_S

_RUN = f"{os.getpid()}-{os.urandom(6).hex()}"
_RUN_VARIABLE = "PGDB_TEST_RUN"
OURS = ("pgdb.backend", "hold.py", "keeper.py", "gdb -nx -q -i=mi3")
"""Parts of the command lines of what PGDB starts."""

# Every process that a test starts inherits this variable. Each worker of pytest-xdist imports this
# file and has a value of its own, so that a worker counts the processes of its own tests only.
os.environ[_RUN_VARIABLE] = _RUN
# Aggregators append to this file, which no test makes, each event that a rank's machine ignored.
_ILLEGAL_EVENTS = Path(tempfile.gettempdir(), f"pgdb-illegal-events-{_RUN}")
os.environ[ILLEGAL_EVENTS_VARIABLE] = str(_ILLEGAL_EVENTS)
# Open MPI refuses to run as root without these variables (4.1 reads the first two, 5 the others),
# and tests run as root in containers.
for _name in ("OMPI", "PRTE"):
    os.environ[f"{_name}_ALLOW_RUN_AS_ROOT"] = "1"
    os.environ[f"{_name}_ALLOW_RUN_AS_ROOT_CONFIRM"] = "1"


# Without compiled files each of the thousands of Python processes that the tests start compiles all
# of PGDB, which takes it longer than all else (and GDB its own Python code). Images of containers
# often set this variable.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False

# The terminal in which the tests run decides nothing: neither its size nor its colors.
os.environ["TERM"] = "xterm-256color"
for _name in ("NO_COLOR", "COLUMNS", "LINES"):
    os.environ.pop(_name, None)

# A background job of a script ignores Ctrl-C; tests that send it would wait for ever.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# The time of one example depends on the machine only.
hypothesis.settings.register_profile(
    "shared machine",
    deadline=None,
    suppress_health_check=[hypothesis.HealthCheck.too_slow],
)
# ``make test-fast`` uses it.
hypothesis.settings.register_profile(
    "few examples", hypothesis.settings.get_profile("shared machine"), max_examples=10
)
hypothesis.settings.load_profile("shared machine")

MPIS = ("openmpi", "mpich")
LIVE_TIMEOUT_S = 1200.0
"""Limit of one live test. A minute on a quiet machine can become many on a shared one."""
_CRASHES: list[object] = []
"""Reasons why workers of pytest-xdist ended before their time."""
LIVE_MARKS = ("mpi", "gdb")
SHARED_FIXTURES = {"slurm": "slurm", "four_hosts": "hosts", "bare_hosts": "hosts"}
"""Group of the tests that use a fixture of the whole session: one worker makes it."""
GROUP_MARKS = ("slurm", "hosts")
"""Marks whose tests run in one worker each, one after the other."""


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add our own options."""
    parser.addoption(
        "--every-mpi",
        action="store_true",
        help="run tests that are marked any_mpi under every MPI, not only under the first",
    )
    parser.addoption(
        "--failed-to",
        metavar="FILE",
        help="append the ids of failed tests to FILE, one a line, as `pytest @FILE` reads them",
    )


def pytest_configure(config: pytest.Config) -> None:
    """Check the checkout; turn the kernel's grouping by session off where that is permitted.

    :raises pytest.UsageError: if the checkout has lost its symbolic links.
    """
    for name in ("frontend", "backend"):
        if not (ROOT / "pgdb" / name).is_dir():
            raise pytest.UsageError(
                f"this checkout has no symbolic link pgdb/{name}; in its folder run: "
                "rm -f pgdb/frontend pgdb/backend; ln -s ../frontend ../backend pgdb/"
            )
    config.pluginmanager.register(_Collection())
    # pytest-xdist 3.8 waits for ever for what it gives to a worker that replaces a crashed one
    # (pytest-dev/pytest-xdist#1378).
    if getattr(config.option, "maxworkerrestart", "") is None:
        config.option.maxworkerrestart = "0"
    if not is_worker(config):
        stack = contextlib.ExitStack()
        config.add_cleanup(stack.close)
        if stack.enter_context(autogroup.turned_off()):
            # Ranks of Open MPI that wait for others give the cores to whoever has work: a ring of
            # two used a twelfth of the CPU time beside other tests. With the grouping by session
            # they would take the cores from all others.
            os.environ.setdefault("OMPI_MCA_mpi_yield_when_idle", "1")


class _Collection:
    """Hooks for all folders; those of this file apply to ``tests/`` only."""

    @pytest.hookimpl(wrapper=True)
    def pytest_collection(self) -> Generator[None, object, object]:
        """Collect without garbage collections, and exempt what was collected from later ones."""
        gc.disable()
        try:
            return (yield)
        finally:
            gc.freeze()
            gc.enable()

    @pytest.hookimpl(wrapper=True)
    def pytest_collect_file(
        self, file_path: Path
    ) -> Generator[None, list[pytest.Collector], list[pytest.Collector]]:
        """Look for doctests only in files that have some: to look costs as much as the tests."""
        found = yield
        if all(type(each) is pytest.Module for each in found) or b">>>" in file_path.read_bytes():
            return found
        return [each for each in found if type(each) is pytest.Module]


def is_worker(config: pytest.Config) -> bool:
    """Return whether this process is a worker of pytest-xdist."""
    return hasattr(config, "workerinput")


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Set the limits of live tests and the groups; deselect repetitions under other MPIs."""
    for item in items:
        if is_live(item):
            item.add_marker(pytest.mark.timeout(LIVE_TIMEOUT_S))
        if group := group_of(item):
            item.add_marker(pytest.mark.xdist_group(group))
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


def is_live(item: pytest.Item) -> bool:
    """Return whether a test starts real jobs or GDBs."""
    return any(item.get_closest_marker(mark) for mark in LIVE_MARKS)


def group_of(item: pytest.Item) -> str | None:
    """Return the group of tests that one worker runs in sequence; None for a test on its own.

    The tests of hosts and of Slurm share fixtures of the whole session. Tests that are not live
    are quick: they stay together by file, like tests with a fixture of their module.
    """
    for name, group in SHARED_FIXTURES.items():
        if name in getattr(item, "fixturenames", ()):
            return group
    for mark in GROUP_MARKS:
        if item.get_closest_marker(mark):
            return mark
    path = item.nodeid.partition("::")[0]
    if not is_live(item):
        return path
    if not isinstance(item, pytest.Function):
        return None
    definitions = item._fixtureinfo.name2fixturedefs.values()
    of_module = {each[-1].argname for each in definitions if each[-1].scope == "module"}
    if not of_module:
        return None
    parameters = getattr(item, "callspec", None)
    values = [str(parameters.params.get(name, "")) for name in of_module] if parameters else []
    return "-".join([path, *sorted(filter(None, values))])


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Add the machine's busiest processes to the report of a live test that fails."""
    report = yield
    if report.failed and is_live(item):
        report.sections.append((f"the machine after {call.when}", _busiest()))
    return report


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session: pytest.Session) -> None:
    """Hand the times of this worker to the controller, whose status shows crashed workers."""
    if is_worker(session.config):
        session.config.workeroutput["leaving_s"] = LEAVING_S  # type: ignore[attr-defined]
    elif _CRASHES:
        session.exitstatus = pytest.ExitCode.INTERRUPTED


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: object, error: object) -> None:
    """Collect the times of a worker that has ended; note that it crashed."""
    LEAVING_S.extend(getattr(node, "workeroutput", {}).get("leaving_s", ()))
    if error is not None:
        _CRASHES.append(error)


def pytest_terminal_summary(
    terminalreporter: pytest.TerminalReporter, config: pytest.Config
) -> None:
    """Report how long the processes of sessions took to end; write the ids of failed tests."""
    if took_s := sorted(LEAVING_S):
        late = sum(each > LEAVE_S for each in took_s)
        terminalreporter.write_line(
            f"nothing of {len(took_s)} sessions was left {took_s[-1]:.1f} s after their end or "
            f"grace time, of half of them {took_s[len(took_s) // 2]:.1f} s"
            + (f"; LATE, after more than {LEAVE_S:g} s: {late}" if late else "")
        )
    # The workers of pytest-xdist have a summary of their own, which nobody sees.
    path = None if is_worker(config) else config.getoption("--failed-to")
    if path is not None:
        reports = (terminalreporter.stats.get(kind, ()) for kind in ("failed", "error"))
        found = {_without_group(each.nodeid): None for kind in reports for each in kind}
        with open(path, "a", encoding="utf-8") as file:
            file.writelines(f"{each}\n" for each in found)


def _without_group(nodeid: str) -> str:
    """Return the id of a test without the group that pytest-xdist appends."""
    return re.sub(r"@[^\[\]]*\Z", "", nodeid)


def _busiest() -> str:
    """Return the load and the processes with the most CPU time of late."""
    columns = ("pid", "ppid", "etimes", "cp", "stat", "args")
    line = ["ps", "-eo", ",".join(columns), "--sort=-cp"]
    done = subprocess.run(line, capture_output=True, text=True, check=False)
    shown = [each[:160] for each in done.stdout.splitlines()[:16]]
    return "\n".join([f"load {Path('/proc/loadavg').read_text().strip()}", *shown])


def _first_mpi() -> str:
    """Return the name of the first MPI that this machine has, else of the last one."""
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
    """Return pid and command line of PGDB's processes that this worker's tests have started."""
    found = processes_with(f"{_RUN_VARIABLE}={_RUN}")
    return {
        pid: line
        for pid, line in found.items()
        if pid != os.getpid() and any(part in line for part in OURS)
    }


@pytest.fixture(autouse=True)
def _nothing_left(request: pytest.FixtureRequest) -> Iterator[None]:
    """Fail a live test that a process of PGDB outlives, and end that process."""
    if not is_live(request.node):
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
def _no_illegal_event(request: pytest.FixtureRequest) -> Iterator[None]:
    """Fail a live test in which a rank's state machine got an event that its state excludes.

    The machine ignores such an event in the field. Aggregators on hosts of their own do not inherit
    the variable; those of this host do.
    """
    yield
    if is_live(request.node) and _ILLEGAL_EVENTS.exists():
        events = _ILLEGAL_EVENTS.read_text()
        _ILLEGAL_EVENTS.unlink()
        pytest.fail(f"illegal events of ranks:\n{events}", pytrace=False)


@pytest.fixture(autouse=True)
def _built_programs_are_unchanged(request: pytest.FixtureRequest) -> Iterator[None]:
    """Fail a test during which a program that all workers share was replaced, even for a while."""
    yield
    if "builder" in request.fixturenames:
        builder: Builder = request.getfixturevalue("builder")
        if changed := builder.changed():
            pytest.fail(
                f"this test, or one of another worker, has written {', '.join(map(str, changed))}, "
                "which all tests share; a test changes a copy (Program.copied)",
                pytrace=False,
            )


@pytest.fixture(autouse=True)
def _hosts_are_whole(request: pytest.FixtureRequest) -> Iterator[None]:
    """Restore the shared hosts after each test."""
    yield
    for name in {"four_hosts", "bare_hosts"} & set(request.fixturenames):
        hosts: Hosts = request.getfixturevalue(name)
        hosts.restore()


@pytest.fixture(autouse=True)
def _jobs_are_gone(request: pytest.FixtureRequest) -> Iterator[None]:
    """End the jobs that a test has left in the shared Slurm."""
    yield
    if "slurm" in request.fixturenames:
        slurm: Slurm = request.getfixturevalue("slurm")
        slurm.cancel_all()


@pytest.fixture(scope="session")
def four_hosts(builder: Builder) -> Iterator[Hosts]:
    """Hosts h1 to h4, for all tests; each test ends the processes that it has started there."""
    with several_hosts(4, shared=[builder.directory]) as hosts:
        yield hosts


@pytest.fixture(scope="session")
def slurm() -> Iterator[Slurm]:
    """A Slurm of two nodes, for all tests; a test ends the jobs that it has submitted."""
    with private_slurm(2) as slurm:
        yield slurm


@pytest.fixture(scope="session")
def builder(tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest) -> Builder:
    """Builder of the programs; all workers of a run share one directory."""
    if not is_worker(request.config):
        return Builder(tmp_path_factory.mktemp("programs"))
    directory = tmp_path_factory.getbasetemp().parent / "programs"
    directory.mkdir(exist_ok=True)
    return Builder(directory)


@pytest.fixture(scope="session", params=MPIS)
def mpi(request: pytest.FixtureRequest) -> Mpi:
    """Each MPI of this machine; PGDB_TEST_MPICH names the directory of MPICH."""
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
