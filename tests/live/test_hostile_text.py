"""A job whose output and whose names of symbols, files and programs would drive the terminal.

:mod:`pgdb.controls` says which characters may reach the terminal; these tests search whole sessions
for others, so that no route past it is forgotten.
"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.conftest import Build, StartJob
from tests.support.programs import Mpi, Program
from tests.support.terminal import PGDB, PROMPT, Terminal, ex, run_json, run_pgdb

pytestmark = [
    pytest.mark.mpi,
    pytest.mark.any_mpi,
    pytest.mark.skipif(not shutil.which("objcopy"), reason="this machine has no objcopy"),
]

_MARKS = "\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069"
FORBIDDEN = re.compile(f"[\x00-\x08\x0b-\x1f{_MARKS}]")
# A terminal is also driven by us: carriage returns, steps back, and what the prompt is made with.
FORBIDDEN_AT_TERMINAL = re.compile(f"[\x00-\x07\x0b\x0c\x0e-\x1f{_MARKS}]")
# The last group is of the line below the cursor that shows the progress of waiting.
OF_THE_PROMPT = re.compile(r"\x1b(?:\[[0-9;?]*[A-Za-z]|[=>]|\(B|[D78])")
OF_THE_PROGRAM = re.compile(rb"\x1b\[7731|\x9b7731")
ODD_NAME = "evil\x1b]0;7731\x07\x9b7731B\u202ecba"
COMMANDS = (
    "bt",
    "info symbol odd",
    "info source",
    "info line hit",
    "list hit",
    "info breakpoints",
    "info locals",
    "p text",
    "p bytes",
    'printf "%s %s\\n", text, bytes',
    "ranks",
    "tree",
    f"p {ODD_NAME}",
)


@pytest.fixture
def hostile(build: Build, tmp_path: Path) -> Program:
    """Return a program whose own name, and that of a function, are odd."""
    program = build("hostile.c")
    path = tmp_path / ODD_NAME
    symbol = "odd\x1b]0;7731\x07\x1b[7731A\u202edd"
    line = ["objcopy", f"--redefine-sym=odd={symbol}", program.path, path]
    subprocess.run(line, check=True, stdin=subprocess.DEVNULL, timeout=60)
    return Program(path=path, source=program.source)


def check_bytes(data: bytes, where: object) -> None:
    assert data and not OF_THE_PROGRAM.search(data), where
    found = FORBIDDEN.search(data.decode("utf-8"))
    assert not found, (where, data.decode("utf-8")[max(0, found.start() - 200) : found.end() + 40])


def test_nothing_of_it_is_in_batch_output_logs_or_files(
    hostile: Program, start_job: StartJob, tmp_path: Path
) -> None:
    files = {kind: tmp_path / f"tree.{kind}" for kind in ("html", "svg", "dot", "json")}
    options = [f"--{kind} {path}" for kind, path in files.items()]
    log = tmp_path / "session.log"
    with start_job(2, hostile) as job:
        finished = run_pgdb(
            "attach", "--batch", "--verbose", "--log", log, "--log-values",
            *ex("break hit", "c", *COMMANDS, f"tree {' '.join(options)}"),
            job.pid,
        )  # fmt: skip
    for what in ("evil\\033]0;7731\\007", "odd\\033]0;7731\\007", "\\2337731C"):
        assert what in finished.out, (what, finished.out)
    for where, data in (("stdout", finished.stdout), ("stderr", finished.stderr)):
        check_bytes(data, where)
    for path in (log, *files.values()):
        assert b"7731" in path.read_bytes(), path
        check_bytes(path.read_bytes(), path)
    for line in log.read_text("utf-8").splitlines():
        json.loads(line)


def test_nothing_of_it_is_in_json(hostile: Program, mpi: Mpi) -> None:
    finished = run_json(
        "launch", *ex("break hit", "c", *COMMANDS, "set var end = 1", "delete", "c"),
        *mpi.line(2, hostile),
    )  # fmt: skip
    check_bytes(finished.stdout, "stdout")
    check_bytes(finished.stderr or b" ", "stderr")
    # JSON contains all of it.
    shown = "".join(each["text"] for each in finished.of_type("output"))
    assert "\x1b]0;7731\x07" in shown and "\u202etxt" in shown
    assert ODD_NAME in finished.objects[0]["job"]


def test_nothing_of_it_reaches_the_terminal(hostile: Program, mpi: Mpi) -> None:
    with Terminal(*PGDB, "launch", *mpi.line(2, hostile)) as terminal:
        terminal.expect(PROMPT)
        terminal.ask("break hit")
        terminal.line("c")
        terminal.expect_ranks("Breakpoint 1, hit", "0-1")
        terminal.ask("bt", r"#1  main .*evil\\033")
        terminal.ask("info symbol odd", r"odd\\033\]0;7731\\007.* in section")
        terminal.ask("info source", r"Located in .*evil\\033")
        terminal.ask("list hit", r"evil\\033")
        terminal.ask("info breakpoints", r"in hit at .*evil\\033")
        terminal.ask('printf "%s %s\\n", text, bytes', r"\[0-1\] \\033\]0;7731")
        terminal.ask("tree", r"@1 main .*7731")
        for stream in ("out", "err"):
            assert terminal.text.count(rf"{stream} \033]0;7731\007") == 2, terminal.text
        terminal.ask("set var end = 1")
        terminal.ask("set confirm off")
        terminal.ask("delete")
        terminal.line("c")
        terminal.expect_ranks("exited", "0-1")
        terminal.line("quit")
        terminal.wait()
        assert not OF_THE_PROGRAM.search(terminal.raw)
        shown = OF_THE_PROMPT.sub("", terminal.raw.decode("utf-8"))
        found = FORBIDDEN_AT_TERMINAL.search(shown)
        assert not found, shown[max(0, found.start() - 200) : found.end() + 40]
