"""Launchers, made for a test, that hold MPIR's process table."""

from __future__ import annotations

import shutil
import signal
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

COMPILER = shutil.which("cc") or shutil.which("gcc")


CAT = shutil.which("cat")


# The ranks are cat: they live until the test closes their standard input, or the launcher dies. The
# end of a close-on-exec pipe shows that all of them have their final environment.
LAUNCHER_C = r"""
#define _GNU_SOURCE
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

typedef struct { char *host_name; char *executable_name; int pid; } MPIR_PROCDESC;
#ifdef TABLE
extern MPIR_PROCDESC *MPIR_proctable;
extern int MPIR_proctable_size;
#ifndef TABLE_ELSEWHERE
MPIR_PROCDESC *MPIR_proctable;
int MPIR_proctable_size;
#endif
#endif
long unrelated[64] = {1, 2, 3};
#ifdef SLURM_STEP
char *totalview_jobid = "17", *totalview_stepid = SLURM_STEP;
#endif

int main(int argc, char **argv)
{
    int size = atoi(argv[1]);
    const char *mode = argv[2];
    MPIR_PROCDESC *table = calloc(size, sizeof *table);
    int ready[2];
    pipe2(ready, O_CLOEXEC);
    if (!strcmp(mode, "helper") && fork() == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        execl(argv[3], "helper", NULL);
        _exit(127);
    }
    for (int rank = 0; rank < size; rank++) {
        char host[256], text[32];
        gethostname(host, sizeof host);
        table[rank].host_name = strdup(strcmp(mode, "remote") ? host : "far-away-node");
        table[rank].executable_name = strdup("./solver");
        if (!strcmp(mode, "garbage") && rank == 1) table[rank].host_name = strdup("\001\002");
        if (!strcmp(mode, "partial") && rank == 1) { table[rank].host_name = NULL; continue; }
        if (!strcmp(mode, "wild") && rank == 1) table[rank].executable_name = (char *) 8;
        table[rank].pid = fork();
        if (table[rank].pid == 0) {
            prctl(PR_SET_PDEATHSIG, SIGKILL);
            if (!strcmp(mode, "ended") && rank == 1 || !strcmp(mode, "all ended")) _exit(0);
            sprintf(text, "%d", rank); setenv("PMI_RANK", text, 1);
            sprintf(text, "%d", size); setenv("PMI_SIZE", text, 1);
            setenv("MPI_LOCALNRANKS", text, 1);
            execl(argv[3], "solver", NULL);
            _exit(127);
        }
    }
    close(ready[1]);
    char end;
    read(ready[0], &end, 1);
    size = atoi(argv[1]);
    for (int rank = 0; rank < size; rank++) {
        siginfo_t ignored;
        if (!strcmp(mode, "ended") && rank == 1 || !strcmp(mode, "all ended"))
            waitid(P_PID, table[rank].pid, &ignored, WEXITED | WNOWAIT);
        if (!strcmp(mode, "strangers")) table[rank].pid = getppid();
    }
#ifdef TABLE
    MPIR_proctable = table;
    MPIR_proctable_size = strcmp(mode, "empty") ? size : 0;
    if (!strcmp(mode, "huge")) MPIR_proctable_size = 1 << 30;
    if (!strcmp(mode, "negative")) MPIR_proctable_size = -4;
#endif
    puts("ready");
    fflush(stdout);
    while (read(0, &end, 1) > 0) {}
}
"""


LIBRARY_C = r"""
typedef struct { char *host_name; char *executable_name; int pid; } MPIR_PROCDESC;
MPIR_PROCDESC *MPIR_proctable;
int MPIR_proctable_size;
"""


def compile_launcher(path: Path, *flags: str) -> Path:
    assert COMPILER is not None
    path.parent.mkdir(parents=True, exist_ok=True)
    source = path.with_suffix(".c")
    source.write_text(LAUNCHER_C)
    built = subprocess.run(
        [COMPILER, "-w", "-o", path, source, *flags], stderr=subprocess.PIPE, text=True
    )
    assert built.returncode == 0, built.stderr
    return path


def launcher_with_library(folder: Path, *flags: str) -> tuple[Path, Path]:
    """Return a stand-in whose table is in a library, and that library."""
    assert COMPILER is not None
    (folder / "library.c").write_text(LIBRARY_C)
    library = folder / "libtable.so"
    subprocess.run([COMPILER, "-shared", "-fPIC", "-o", library, folder / "library.c"], check=True)
    options = ("-DTABLE", "-DTABLE_ELSEWHERE", *flags, str(library), f"-Wl,-rpath,{folder}")
    return compile_launcher(folder / "mpiexec", *options), library


@contextmanager
def running(launcher: Path, size: int, mode: str = "good") -> Iterator[int]:
    """Run a stand-in until its ranks are there and its table is filled; yield its pid."""
    assert CAT is not None
    with started([str(launcher), str(size), mode, CAT]) as pid:
        yield pid


@contextmanager
def started(
    words: Sequence[str], *, ready: int = 1, env: Mapping[str, str] | None = None
) -> Iterator[int]:
    """Run a command until *ready* lines have come from it; at the end its input is closed.

    That ends the stand-in and its ranks also where the command is a wrapper around it.
    """
    process = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=env)
    try:
        assert process.stdout is not None
        for _ in range(ready):
            assert process.stdout.readline() != b""
        yield process.pid
    finally:
        process.send_signal(signal.SIGCONT)
        process.communicate(timeout=20)
