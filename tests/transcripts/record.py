"""Record what a real GDB says: python tests/transcripts/record.py GDB [GDB…]

Writes session-app-…, -attach-…, -crash-… and -fortran-gdbVERSION.mi beside this file; the others
here were recorded one by one. The programs of this folder are made and run in /tmp/app, so that no
path of this machine is in what is recorded; a recording with one is not written. Numbers of
processes and threads are replaced by made-up ones.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

HERE = Path(__file__).resolve().parent
APP = Path("/tmp/app")
# A command, and whether the program stops after its result. The command of MI, or one of GDB's.
Step = tuple[str, bool]


def console(command: str) -> Step:
    return f'-interpreter-exec console "{command}"', False


LOOK: tuple[Step, ...] = (
    ("-thread-info", False),
    ("-stack-info-frame", False),
    ("-stack-list-frames", False),
    ("-stack-list-frames 0 1", False),
    ("-stack-list-arguments --all-values", False),
    ("-stack-list-arguments 1 0 1", False),
    ("-stack-list-variables --all-values", False),
    ("-stack-list-locals --simple-values", False),
)
APP_STEPS: tuple[Step, ...] = (
    ("-gdb-set mi-async on", False),
    ("-file-exec-and-symbols app", False),
    ("-break-insert -t main", False),
    ("-exec-run", True),
    *LOOK,
    ("-exec-next", True),
    ("-break-insert -c depth==0 add", False),
    ("-break-insert -f nosuch", False),
    ('-break-commands 2 silent "print depth"', False),
    ("-break-list", False),
    ("-exec-continue", True),
    *LOOK,
    ("-data-evaluate-expression *cell", False),
    ("-data-evaluate-expression cell->label", False),
    ("-data-evaluate-expression cell->next", False),
    ("-data-evaluate-expression &add", False),
    ('-data-evaluate-expression "cell->values[0]@3"', False),
    ("-data-evaluate-expression nosuch", False),
    ('-data-evaluate-expression "*(int*)8"', False),
    ("-data-read-memory-bytes &first 24", False),
    ("-data-read-memory-bytes 8 4", False),
    ("-data-disassemble -s $pc -e $pc+1 -- 0", False),
    ("-data-list-register-values x 0 1", False),
    console("info locals"),
    console("print/x *cell"),
    console("print nosuch"),
    console("bt -full 1"),
    console("watch round_number"),
    console("info breakpoints"),
    console("x/2i $pc"),
    console("echo \\\\033[1mbold\\\\033[0m\\\\n"),
    ("-exec-finish", True),
    ("-break-delete 2", False),
    ("-exec-continue", True),
    ("-break-delete 4", False),
    ("-nosuch-command", False),
    ("-exec-continue", True),
    ("-gdb-exit", False),
)
ATTACH_STEPS: tuple[Step, ...] = (
    ("-gdb-set mi-async on", False),
    ("-target-attach PID", True),
    *LOOK,
    ("-thread-select 2", False),
    ("-stack-list-frames", False),
    ("-data-evaluate-expression first", False),
    console("info threads"),
    ("-break-insert app.c:WAITING", False),
    ("-exec-continue", True),
    console("kill"),
    ("-gdb-exit", False),
)
CRASH_STEPS: tuple[Step, ...] = (
    ("-file-exec-and-symbols app", False),
    ("-exec-arguments crash", False),
    ("-exec-run", True),
    ("-stack-list-frames", False),
    ("-data-evaluate-expression $_siginfo._sifields._sigfault.si_addr", False),
    ("-exec-continue", True),
    ("-stack-list-frames", False),
    ("-gdb-exit", False),
)
FORTRAN_STEPS: tuple[Step, ...] = (
    ("-file-exec-and-symbols app_f", False),
    ("-break-insert app.f90:DEEPEST", False),
    ("-exec-run", True),
    ("-stack-list-frames", False),
    ("-stack-list-arguments --all-values", False),
    ("-data-evaluate-expression p", False),
    ("-data-evaluate-expression field", False),
    ("-data-evaluate-expression field(2,1)", False),
    ("-exec-finish", True),
    ("-stack-select-frame 2", False),
    ("-stack-list-variables --all-values", False),
    console("up 2"),
    console("info locals"),
    ("-exec-continue", True),
    ("-gdb-exit", False),
)


class Conversation:
    """One GDB, and what is said."""

    def __init__(self, gdb: str) -> None:
        self.lines: list[str] = []
        self._token = 7
        self._gdb = subprocess.Popen(
            [gdb, "-nx", "-q", "-i=mi3", "-iex", "set debuginfod enabled off"],
            cwd=APP,
            text=True,
            encoding="utf-8",
            errors="surrogateescape",
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env={**os.environ, "LC_ALL": "C.UTF-8", "DEBUGINFOD_URLS": ""},
        )

    def do(self, command: str, *, stops: bool) -> None:
        assert self._gdb.stdin is not None and self._gdb.stdout is not None
        self._token += 1
        self.lines.append(f"# {self._token}{command}")
        self._gdb.stdin.write(f"{self._token}{command}\n")
        self._gdb.stdin.flush()
        awaited = {f"{self._token}^"} | ({"*stopped"} if stops else set())
        failed = f"{self._token}^error"
        while awaited:
            line = self._gdb.stdout.readline()
            if not line:
                return
            self.lines.append(line.rstrip("\n"))
            if line.startswith(failed):
                return
            awaited = {each for each in awaited if not line.startswith(each)}

    def close(self) -> None:
        self._gdb.communicate(timeout=60)


def line_of(source: str, mark: str) -> int:
    lines = (APP / source).read_text("utf-8").split("\n")
    return next(number for number, line in enumerate(lines, 1) if f"@{mark}" in line)


def record(gdb: str, steps: Sequence[Step], pid: int = 0) -> list[str]:
    places = {
        "PID": str(pid),
        "WAITING": str(line_of("app.c", "waiting")),
        "DEEPEST": str(line_of("app.f90", "deepest")),
    }
    conversation = Conversation(gdb)
    try:
        for command, stops in steps:
            for word, meaning in places.items():
                command = command.replace(word, meaning)
            conversation.do(command, stops=stops)
    finally:
        conversation.close()
    return conversation.lines


def neutral(lines: Sequence[str], gdb: str) -> str:
    """Return the text to be kept.

    :raises SystemExit: if something of this machine is in it.
    """
    # The program prints lines in between, which are no MI.
    text = "\n".join(line for line in lines if not re.match(r"round \d+$| {3}\d", line)) + "\n"
    numbers: dict[str, str] = {}
    for found in re.findall(r'(?:LWP |process |pid="|attach )(\d+)', text):
        numbers.setdefault(found, str(4711 + len(numbers)))
    for number, other in numbers.items():
        text = re.sub(rf"(?<![\w.]){number}(?![\w.])", other, text)
    for bad in (
        str(Path.home()),
        os.getcwd(),
        str(Path(gdb).resolve().parent),
        os.uname().nodename,
    ):
        if len(bad) > 1 and bad in text:
            raise SystemExit(f"{bad!r} is in what was recorded with {gdb}: {text}")
    return text


def main() -> None:
    if APP.exists():
        raise SystemExit(f"{APP} is there already; it is made and removed here")
    shutil.copytree(HERE / "programs", APP)
    try:
        for line in (
            "gcc -g -O0 -pthread -fno-pie -no-pie -o app app.c",
            "gfortran -g -O0 -o app_f app.f90",
        ):
            subprocess.run(line.split(), cwd=APP, check=True)
        for gdb in sys.argv[1:]:
            said = subprocess.run([gdb, "--version"], capture_output=True, text=True, check=True)
            version = said.stdout.splitlines()[0].split()[-1]
            print(f"{gdb}: {said.stdout.splitlines()[0]}")
            found = {
                "app": record(gdb, APP_STEPS),
                "crash": record(gdb, CRASH_STEPS),
                "fortran": record(gdb, FORTRAN_STEPS),
            }
            with tempfile.TemporaryFile() as output:
                process = subprocess.Popen([APP / "app", "wait"], cwd=APP, stdout=output)
                try:
                    while not os.fstat(output.fileno()).st_size:
                        os.sched_yield()
                    found["attach"] = record(gdb, ATTACH_STEPS, process.pid)
                finally:
                    process.kill()
                    process.wait()
            for name, lines in found.items():
                path = HERE / f"session-{name}-gdb{version}.mi"
                path.write_text(neutral(lines, gdb), "utf-8", errors="surrogateescape")
                print(f"{path.name}: {len(lines)} lines")
    finally:
        shutil.rmtree(APP)


if __name__ == "__main__":
    main()
