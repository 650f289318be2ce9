"""Two users on one host: neither reaches the other's job, session or files; root reaches all jobs.

The other user is made for the test and may only read what everybody may. Where the interpreter or
PGDB are in folders that only root can enter, they are mounted for that user's processes alone, in a
mount namespace of their own.
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
import pwd
import shutil
import stat
import subprocess
import sys
import tempfile
import uuid
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

import pytest

import pgdb
from pgdb.bootstrap_env import AGGREGATOR_NAME
from tests.conftest import Build, StartJob
from tests.support.jobs import START_DEADLINE_S
from tests.support.processes import processes_with, ranks_with, wait_until
from tests.support.programs import find_mpi
from tests.support.sockets import LISTENING, name_of, sockets_of
from tests.support.terminal import (
    MARK,
    Finished,
    assert_untouched,
    end_marked,
    environment,
    ex,
    run_json,
    run_pgdb,
)
from tests.support.users import new_user

pytestmark = [pytest.mark.mpi, pytest.mark.any_mpi]

ROOT = Path(__file__).resolve().parents[2]
RANKS = 2
# Folders are mounted before any of them is hidden.
_ENTER = """
set -e
user=$1 stash=$2 opened=$3 closed=$4
shift 4
n=0
for path in $opened; do mkdir "$stash/$n"; mount --bind "$path" "$stash/$n"; n=$((n+1)); done
for path in $closed; do mount -t tmpfs -o mode=755 tmpfs "$path"; done
n=0
for path in $opened; do mkdir -p "$path"; mount --bind "$stash/$n" "$path"; n=$((n+1)); done
cd /
exec setpriv --reuid "$user" --regid "$user" --clear-groups "$@"
"""


@dataclasses.dataclass(frozen=True)
class User:
    """A user that is not ours."""

    name: str
    uid: int
    folder: Path
    """A directory of the user's."""
    opened: tuple[str, ...]
    """Folders that only root can enter, and that the user needs."""
    closed: tuple[str, ...]

    def line(self, *words: object) -> list[str]:
        """Return a command line that runs another as this user."""
        stash = tempfile.mkdtemp(dir=self.folder.parent)
        enter = ["sh", "-c", _ENTER, "sh", str(self.uid), stash]
        lists = [" ".join(self.opened), " ".join(self.closed)]
        spaces = ["unshare", "--mount", "--propagation", "private", *enter, *lists]
        return [*spaces, *map(str, words)]

    @property
    def changes(self) -> dict[str, str]:
        """Differences of the user's environment from ours."""
        return {
            "HOME": str(self.folder),
            "USER": self.name,
            "PYTHONPATH": str(ROOT),
            "PYTHONDONTWRITEBYTECODE": "1",
            "XDG_RUNTIME_DIR": "",
            "TMPDIR": "/tmp",
        }

    def pgdb(self, *words: object) -> Finished:
        """Run PGDB as this user."""
        command = self.line(sys.executable, "-m", "pgdb")
        return run_pgdb(*words, command=command, changes=self.changes)

    def python(self, code: str, *arguments: object) -> object:
        """Run Python as this user; return what it prints, a JSON value."""
        line = self.line(sys.executable, "-I", "-c", code, *arguments)
        done = subprocess.run(line, capture_output=True, text=True, timeout=60, check=False)
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)


def is_closed(path: Path) -> bool:
    return not stat.S_IMODE(path.stat().st_mode) & stat.S_IXOTH


@pytest.fixture
def other() -> Iterator[User]:
    if missing := [each for each in ("setpriv", "unshare") if not shutil.which(each)]:
        pytest.skip(f"this machine has no {missing[0]}")
    wanted = dict.fromkeys((sys.prefix, sys.base_prefix, str(ROOT)))
    closed: dict[str, None] = {}
    opened: list[str] = []
    for each in wanted:
        above = [path for path in reversed(Path(each).parents) if is_closed(path)]
        if above:
            opened.append(each)
            closed[str(above[0])] = None
    with (
        new_user() as (name, uid),
        tempfile.TemporaryDirectory(prefix="pgdb-other-", dir="/tmp") as base,
    ):
        os.chmod(base, 0o755)
        folder = Path(base, "own")
        folder.mkdir()
        os.chown(folder, uid, uid)
        user = User(name, uid, folder, tuple(opened), tuple(closed))
        probe = subprocess.run(
            user.line(sys.executable, "-c", "import pgdb.frontend.ui.main"),
            env=environment("", user.changes),
            capture_output=True,
            text=True,
            timeout=60,
        )
        if probe.returncode:
            pytest.skip(f"another user cannot run {sys.executable}: {probe.stderr.strip()}")
        yield user


def with_pid(words: Sequence[str], job: int, rank: int) -> list[str]:
    return [word.format(job=job, rank=rank, host=os.uname().nodename) for word in words]


@pytest.mark.parametrize(
    "words",
    [("attach", "{job}"), ("attach", "{rank}"), ("-p", "{rank}"),
     ("attach", "--pids", "{host}:{rank}"), ("attach", "--pids", "{rank}")],
    ids=" ".join,
)  # fmt: skip
def test_the_job_of_root_is_not_to_be_had(
    words: tuple[str, ...], build: Build, start_job: StartJob, other: User
) -> None:
    with start_job(RANKS, build("storm.c")) as job:
        rank = job.ranks[0]
        finished = other.pgdb(*with_pid(words, job.pid, rank), "--batch", *ex("bt", "kill"))
        assert finished.status == 3, finished.out + finished.err
        assert finished.out == ""
        owner = pwd.getpwuid(os.geteuid()).pw_name
        process = str(job.pid if words[-1] == "{job}" else rank)
        assert f"{process} (" in finished.err
        assert f"belongs to user {owner}; run pgdb as that user" in finished.err, finished.err
        assert finished.err.count("\n") == 1, finished.err
        assert_untouched(job.ranks)


def test_it_is_listed_as_anothers(build: Build, start_job: StartJob, other: User) -> None:
    with start_job(RANKS, build("storm.c")) as job:
        lines = other.pgdb("jobs").out.splitlines()
        (line,) = [each for each in lines if each.split()[0] == str(job.pid)]
        assert "root (not yours)" in line
        assert_untouched(job.ranks)


@contextlib.contextmanager
def job_by(other: User, build: Build, launcher: str | Path) -> Iterator[tuple[int, dict[int, int]]]:
    """Run a job that the other user starts with a launcher; give that and the ranks."""
    copied = build("storm.c").copied(other.folder.parent / "storm")
    mark = uuid.uuid4().hex
    _, *words = find_mpi("openmpi").line(RANKS, copied)
    process = subprocess.Popen(
        other.line(launcher, *words),
        stdin=subprocess.DEVNULL,
        env=environment(mark, other.changes),
        start_new_session=True,
    )
    try:
        wait_until(
            lambda: len(ranks_with(f"{MARK}={mark}", copied)) == RANKS,
            "the other user's ranks are up",
            START_DEADLINE_S,
        )
        # The program that unshare, sh and setpriv have executed.
        yield process.pid, ranks_with(f"{MARK}={mark}", copied)
    finally:
        end_marked(mark)
        process.wait()


@pytest.fixture
def job_of_other(build: Build, other: User) -> Iterator[tuple[int, dict[int, int]]]:
    """The launcher of a job that the other user has started, and its ranks."""
    with job_by(other, build, find_mpi("openmpi").launcher) as job:
        yield job


def test_the_user_has_it_and_root_as_well(
    job_of_other: tuple[int, dict[int, int]], other: User
) -> None:
    """The kernel never keeps root out; all that runs for root runs as root."""
    launcher, ranks = job_of_other
    assert {Path(f"/proc/{pid}").stat().st_uid for pid in ranks.values()} == {other.uid}
    before = sorted(other.folder.parent.rglob("*"))

    finished = other.pgdb("attach", str(launcher), "--batch", *ex("p 6 * 7"))
    assert finished.status == 0, finished.out + finished.err
    assert "[0-1] 6 * 7 = 42" in finished.out
    assert_untouched(ranks)

    finished = run_json("attach", *ex("p 6 * 7"), launcher)
    assert finished.status == 0, finished.out + finished.err
    (answer,) = finished.answer("print 6 * 7")["classes"]
    assert (answer["ranks"], answer["value"]) == ("0-1", 42)
    assert_untouched(ranks)

    with pgdb.attach(launcher) as session:
        run = f"PGDB_TEST_RUN={os.environ['PGDB_TEST_RUN']}"
        ours = [pid for pid in processes_with(run) if name_of(pid) in ("gdb", AGGREGATOR_NAME)]
        assert len(ours) > RANKS
        assert {Path(f"/proc/{pid}").stat().st_uid for pid in ours} == {os.geteuid()}
        assert session[0:RANKS].evaluate("6 * 7").ranks == session.set
    assert_untouched(ranks)
    made = set(other.folder.parent.rglob("*")) - {*before}
    assert not [
        each for each in made if each.is_relative_to(other.folder) and each.owner() == "root"
    ]


def test_root_does_not_run_the_launcher_that_another_user_has_made(
    build: Build, other: User
) -> None:
    own = other.folder / "mpirun"
    shutil.copy(Path(find_mpi("openmpi").launcher).resolve(), own)
    os.chown(own, other.uid, other.uid)
    steps: list[str] = []
    with job_by(other, build, own) as (launcher, ranks):
        with pgdb.attach(launcher, on_step=steps.append) as session:
            run = f"PGDB_TEST_RUN={os.environ['PGDB_TEST_RUN']}"
            ours = [pid for pid in processes_with(run) if Path(f"/proc/{pid}").stat().st_uid == 0]
            assert len(ours) > RANKS
            assert own not in {Path(f"/proc/{pid}/exe").resolve() for pid in ours}
            assert session[0:RANKS].evaluate("6 * 7").ranks == session.set
        (note,) = [each for each in steps if str(own) in each]
        assert note.startswith(f"note: {own} may be another user's file"), note
        assert_untouched(ranks)


def listening_ports(pids: Iterable[int]) -> list[int]:
    """Return the TCP ports at which processes listen."""
    heard = set().union(*map(sockets_of, pids))
    fields = [line.split() for line in Path("/proc/net/tcp").read_text("ascii").splitlines()[1:]]
    return [
        int(each[1].partition(":")[2], 16)
        for each in fields
        if each[9] in heard and each[3] == LISTENING
    ]


_MEDDLE = """
import errno, json, os, socket, sys
directory, *ports = sys.argv[1:]
reported = {}

def attempt(what, act):
    try:
        act()
    except OSError as error:
        reported[what] = errno.errorcode[error.errno]
    else:
        reported[what] = "done"

attempt("list", lambda: os.listdir(directory))
attempt("read", lambda: open(directory + "/owner").read())
attempt("write", lambda: open(directory + "/new", "w"))
attempt("enter", lambda: os.chdir(directory))
attempt("rename", lambda: os.rename(directory, directory + ".old"))
attempt("remove", lambda: os.rmdir(directory))
attempt("open up", lambda: os.chmod(directory, 0o777))
attempt("replace", lambda: os.symlink("/tmp", directory))
attempt("end", lambda: os.kill(int(ports.pop(0)), 15))
for port in ports:
    for data in (b"\\0" * 64, b"GET / HTTP/1.0\\r\\n\\r\\n", bytes.fromhex("16030100050100000100")):
        with socket.create_connection(("127.0.0.1", int(port)), timeout=30) as link:
            try:
                link.sendall(data)
                link.shutdown(socket.SHUT_WR)
                answer = b"".join(iter(lambda: link.recv(4096), b""))
            except ConnectionError:
                answer = b""
            # At most an alert of TLS (RFC 8446, 6): a record of type 21 and nothing else.
            is_refused = answer[:1] in (b"", b"\\x15")
            reported[f"{port} {data[:4]!r}"] = "refused" if is_refused else "answered"
print(json.dumps(reported))
"""


def test_a_session_of_root_is_closed_to_others(
    build: Build, start_job: StartJob, other: User
) -> None:
    with start_job(RANKS, build("storm.c")) as job, pgdb.attach(job.pid) as session:
        directory = session._session.ending.files.path
        entry = directory.stat()
        run = f"PGDB_TEST_RUN={os.environ['PGDB_TEST_RUN']}"
        daemons = [pid for pid in processes_with(run) if name_of(pid) == AGGREGATOR_NAME]
        ports = listening_ports((os.getpid(), *daemons))
        assert daemons and ports
        reported = other.python(_MEDDLE, directory, os.getpid(), *ports)
        assert isinstance(reported, dict)
        files = ("list", "read", "write", "enter", "rename", "remove", "open up")
        assert {reported.pop(each) for each in files} <= {"EACCES", "EPERM"}
        assert (reported.pop("replace"), reported.pop("end")) == ("EEXIST", "EPERM")
        assert len(reported) == 3 * len(ports) and {*reported.values()} == {"refused"}
        now = directory.stat()
        assert (now.st_ino, now.st_uid, now.st_mode) == (entry.st_ino, entry.st_uid, entry.st_mode)
        assert session[0:RANKS].evaluate("6 * 7").ranks == session.set
