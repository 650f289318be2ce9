"""Streams that are closed when PGDB starts are open before anything else is imported."""

from __future__ import annotations

import subprocess
import sys


def test_a_closed_input_becomes_an_empty_one() -> None:
    code = (
        "import sys; from pgdb.closed_streams import open_closed_streams\n"
        "open_closed_streams(); print(sys.stdin.fileno(), repr(sys.stdin.read()))"
    )
    finished = run_with("<&-", code)
    assert finished.stdout == b"0 ''\n"


def test_closed_outputs_lead_nowhere_and_programs_that_we_start_have_them() -> None:
    code = (
        "import os, subprocess, sys; from pgdb.closed_streams import open_closed_streams\n"
        "open_closed_streams(); print(1); print(2, file=sys.stderr); sys.stdout.flush()\n"
        'names = \'os.readlink("/proc/self/fd/1"), os.readlink("/proc/self/fd/2")\'\n'
        "check = f'import os; assert {{{names}}} == {{os.devnull}}'\n"
        "sys.exit(subprocess.call([sys.executable, '-c', check]))"
    )
    assert run_with(">&- 2>&-", code).returncode == 0


def test_streams_are_open_before_the_front_end_is_imported() -> None:
    code = (
        "import builtins, os\n"
        "real = builtins.__import__\n"
        "def watched(name, *rest, **more):\n"
        "    if name.startswith('pgdb.frontend') or name == 'ctypes':\n"
        "        os.write(1, os.readlink('/proc/self/fd/0').encode())\n"
        "        os._exit(0)\n"
        "    return real(name, *rest, **more)\n"
        "from pgdb.__main__ import run\n"
        "builtins.__import__ = watched\n"
        "run()\n"
    )
    assert run_with("<&-", code).stdout == b"/dev/null"


def run_with(streams: str, code: str) -> subprocess.CompletedProcess[bytes]:
    """Run a program of Python with streams that a shell has closed."""
    line = ["sh", "-c", f'exec "$0" -c "$1" {streams}', sys.executable, code]
    return subprocess.run(line, stdout=subprocess.PIPE, check=False)
