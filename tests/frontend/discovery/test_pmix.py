"""Queries of prterun, put to a stand-in for the PMIx library that a process has loaded.

The stand-in has the layouts of pmix_common.h. PMIX_MCA_TEST in the launcher's environment selects
its behaviour; the asking process inherits that variable.
"""

from __future__ import annotations

import ctypes.util
import os
import shutil
import subprocess
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any

import pytest

from pgdb.errors import DiscoveryError
from pgdb.frontend.discovery import pmix, tables
from pgdb.jobs.processes import Processes
from pgdb.proctable import RankProcess
from tests.support.processes import processes_with, variables_of, wait_until

COMPILER = shutil.which("cc")
SLEEP = shutil.which("sleep")
pytestmark = pytest.mark.skipif(
    COMPILER is None or SLEEP is None, reason="no C compiler to make a PMIx library with"
)

LIBRARY_C = r"""
#include <fcntl.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct proc { char nspace[256]; uint32_t rank; };
struct proc_info {
    struct proc proc;
    char *hostname, *executable_name;
    pid_t pid;
    int exit_code;
    uint8_t state;
};
struct array { uint16_t type; size_t size; void *array; };
struct value {
    uint16_t type;
    union {
        char *string;
        pid_t pid;
        uint32_t rank;
        struct array *darray;
        struct { char *envar, *value; char separator; } envar;
    } data;
};
struct info { char key[512]; uint32_t flags; struct value value; };
struct query { char **keys; struct info *qualifiers; size_t nqual; };

static int does(const char *what)
{
    const char *test = getenv("PMIX_MCA_TEST");
    return test && !strcmp(test, what);
}

static struct info *find(struct info *infos, size_t count, const char *key)
{
    for (size_t at = 0; at < count; at++)
        if (!strcmp(infos[at].key, key))
            return &infos[at];
    abort();
}

const char *PMIx_Error_string(int status)
{
    return status == -25 ? "UNREACHABLE" : status == -46 ? "NOT-FOUND" : NULL;
}

int PMIx_tool_init(struct proc *self, struct info *infos, size_t count)
{
    char taken[4096];
    struct info *rank = find(infos, count, "pmix.tool.rank");
    struct info *name = find(infos, count, "pmix.tool.nspace");
    struct info *server = find(infos, count, "pmix.srvr.pidinfo");

    puts("the library talks");
    fflush(stdout);
    if (rank->value.type != 40 || rank->value.data.rank != 0 || name->value.type != 3
        || strcmp(name->value.data.string, "pgdb") || server->value.type != 5)
        abort();
    if (kill(server->value.data.pid, 0))
        return -25;
    if (getenv("PMIX_NAMESPACE") || !getenv("TMPDIR"))
        return -46;
    if (does("refuse"))
        return -25;
    if (does("strange"))
        return -1234;
    if (does("crash"))
        raise(SIGSEGV);
    if (does("hang"))
        pause();
    snprintf(taken, sizeof taken, "%s/taken", getenv("TMPDIR"));
    if ((does("refuse once") || does("late once"))
        && open(taken, O_CREAT | O_EXCL, 0600) >= 0) {
        if (does("late once"))
            pause();
        return -25;
    }
    return 0;
}

int PMIx_tool_finalize(void)
{
    if (does("stay"))
        pause();
    return 0;
}

static struct proc_info *process(struct proc_info *at, int rank, const char *host, int pid,
                                 int state)
{
    at->proc.rank = rank;
    at->hostname = strdup(host);
    at->executable_name = rank == 1 ? NULL : strdup("/bin/ring");
    at->pid = pid;
    at->state = state;
    return at + 1;
}

int PMIx_Query_info(struct query *queries, size_t count, struct info **results, size_t *found)
{
    struct proc_info *procs, *at;
    struct array *array;
    struct info *info = calloc(2, sizeof *info);

    if (count != 1 || queries->keys[1])
        abort();
    *results = info;
    *found = 2;
    strcpy(info[0].key, "pmix.other");
    strcpy(info[1].key, queries->keys[0]);
    if (!strcmp(queries->keys[0], "pmix.qry.ns")) {
        if (queries->nqual)
            abort();
        if (does("no job"))
            *found = 0;
        info[1].value.type = 3;
        info[1].value.data.string = does("only us") ? "pgdb" : "pgdb,prterun-h1-7@1,prterun-h1-7@2";
        return 0;
    }
    if (strcmp(queries->keys[0], "pmix.qry.ptable") || queries->nqual != 1
        || strcmp(queries->qualifiers->key, "pmix.nspace") || queries->qualifiers->value.type != 3
        || strcmp(queries->qualifiers->value.data.string, "prterun-h1-7@1"))
        abort();
    if (does("no table"))
        return -46;
    procs = at = calloc(4, sizeof *procs);
    at = process(at, 2, "h2", 0, 2);
    at = process(at, 0, "h1", 42, 5);
    at = process(at, 1, "h1", 43, 6);
    at = process(at, 3, "h2", 44, does("ended") ? 20 : 7);
    array = calloc(1, sizeof *array);
    array->type = 38;
    array->size = at - procs;
    array->array = procs;
    info[1].value.type = 39;
    info[1].value.data.darray = array;
    return 0;
}
"""
RANKS = (
    RankProcess(rank=0, host="h1", pid=42, executable="/bin/ring"),
    RankProcess(rank=1, host="h1", pid=43, executable=""),
    RankProcess(rank=2, host="h2", pid=0, executable="/bin/ring"),
    RankProcess(rank=3, host="h2", pid=44, executable="/bin/ring"),
)

Launch = Callable[[str], AbstractContextManager[int]]


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("pmix")
    source, path = directory / "pmix.c", directory / "libpmix.so.2"
    source.write_text(LIBRARY_C, encoding="utf-8")
    assert COMPILER is not None
    words = [COMPILER, "-Wall", "-shared", "-fPIC", "-o", str(path), str(source)]
    subprocess.run(words, check=True, stdin=subprocess.DEVNULL, timeout=60)
    return path


@pytest.fixture
def launch(library: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Launch:
    """Run a process that has loaded the library, and one variable of a rank's."""
    # The environment of the tests must not be passed on.
    monkeypatch.setenv("PMIX_NAMESPACE", "ours")

    @contextmanager
    def start(what: str) -> Iterator[int]:
        variables = {
            "LD_PRELOAD": str(library),
            "PMIX_MCA_TEST": what,
            "PMIX_NAMESPACE": "theirs",
            "TMPDIR": str(tmp_path),
        }
        assert SLEEP is not None
        with subprocess.Popen([SLEEP, "300"], env=os.environ | variables) as process:
            maps = Path(f"/proc/{process.pid}/maps")
            try:
                wait_until(lambda: str(library) in maps.read_text(), "the library is loaded")
                yield process.pid
            finally:
                process.kill()

    return start


def error_of(pid: int, timeout_s: float = 60.0) -> str:
    with pytest.raises(DiscoveryError) as caught:
        pmix.query_job(pid, timeout_s)
    assert "\n" not in str(caught.value)
    return str(caught.value)


@pytest.mark.slow
@pytest.mark.parametrize("what", ["", "refuse once"])
def test_ranks_in_order(launch: Launch, what: str) -> None:
    with launch(what) as pid:
        assert pmix.query_job(pid, 30.0) == RANKS


def test_ranks_that_have_ended_are_left_out(launch: Launch) -> None:
    with launch("ended") as pid:
        assert pmix.query_job(pid, 30.0) == RANKS[:3]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("what", "reason"),
    [
        ("no job", "it has no job that runs"),
        ("only us", "it has no job that runs"),
        ("no table", "it did not answer pmix.qry.ptable (NOT-FOUND)"),
        ("strange", "it did not take the connection (-1234)"),
        ("refuse", "it did not take the connection (UNREACHABLE)"),
        ("crash", "the process that asked it died of SIGSEGV"),
    ],
)
def test_reasons(launch: Launch, what: str, reason: str) -> None:
    with launch(what) as pid:
        expected = f"sleep {pid} does not report its ranks through PMIx: {reason}"
        assert error_of(pid) == expected


@pytest.mark.slow
def test_no_answer_in_time(launch: Launch, tmp_path: Path) -> None:
    with launch("hang") as pid:
        assert "no answer within 1.5 s" in error_of(pid, 1.5)
        # The launcher has that in its environment, and the asking process had.
        assert list(processes_with(f"TMPDIR={tmp_path}")) == [pid]


@pytest.mark.slow
def test_who_asks_looks_for_libraries_in_no_working_directory(
    launch: Launch, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LD_LIBRARY_PATH", f":{tmp_path}:lib:.")
    with launch("hang") as pid, ThreadPoolExecutor(1) as pool:
        asking = pool.submit(error_of, pid, 3.0)
        found: set[int] = set()

        def is_asked() -> bool:
            assert not asking.done()
            found.update(set(processes_with(f"TMPDIR={tmp_path}")) - {pid})
            return bool(found)

        wait_until(is_asked, "it is asked")
        paths = {variables_of(each).get("LD_LIBRARY_PATH") for each in found}
        assert "no answer within 3 s" in asking.result(60)
    assert paths == {str(tmp_path)}


@pytest.mark.slow
def test_connection_that_is_lost_is_made_again(launch: Launch) -> None:
    with launch("late once") as pid:
        assert pmix.query_job(pid, 12.0) == RANKS


@pytest.mark.slow
def test_answer_counts_though_the_library_does_not_end(launch: Launch) -> None:
    with launch("stay") as pid:
        assert pmix.query_job(pid, 6.0) == RANKS


def test_process_that_has_ended() -> None:
    assert SLEEP is not None
    with subprocess.Popen([SLEEP, "0"]) as process:
        process.wait()
    expected = f"process {process.pid} was not asked through PMIx: it has ended"
    assert error_of(process.pid) == expected


def test_process_without_the_library(monkeypatch: pytest.MonkeyPatch) -> None:
    def find_nothing(_: str) -> None:
        return None

    monkeypatch.setattr(ctypes.util, "find_library", find_nothing)
    assert "it has no libpmix loaded and this host has none" in error_of(os.getpid())


def test_library_that_cannot_be_loaded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "libpmix.so.2"
    path.write_text("no library")

    def find_broken(_: str) -> str:
        return str(path)

    monkeypatch.setattr(ctypes.util, "find_library", find_broken)
    message = error_of(os.getpid())
    assert "the PMIx library cannot be loaded" in message
    assert str(path) in message


def test_a_folder_that_vanishes_meanwhile_is_no_fault(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("one", "two", "three"):
        (tmp_path / name).mkdir()
    real = os.scandir

    def scan(path: Any) -> Any:
        if not isinstance(path, int) and Path(os.fspath(path)).parent == tmp_path:
            Path(path).rmdir()
        return real(path)

    monkeypatch.setattr(os, "scandir", scan)
    assert pmix._session_directory(os.getpid(), str(tmp_path)) == ""


def test_process_of_another_user(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 4711)
    assert "belongs to another user" in error_of(os.getpid())


def test_ranks_whose_environment_may_not_be_read_are_found() -> None:
    """Only the launcher names the ranks of a program that may not be traced."""
    ranks = (RankProcess(rank=1, host="node1", pid=os.getpid(), executable=""),)
    attempt = tables.by_pmix(os.getpid(), Processes(), lambda pid: ranks)
    assert attempt.table is not None
    assert (attempt.table.processes, attempt.table.size) == (ranks, 2)
