"""Output to a pipe whose reader pauses, leaves, or reads it late."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.processes import wait_until
from tests.support.programs import ROOT

DEADLINE_S = 60
WRITES = f"""
import os, sys
sys.path.insert(0, {str(ROOT)!r})
from pgdb.frontend.startup.stdio_relay import relay_pipes
relays = relay_pipes()
"""


def start(code: str, *, stderr: int | None = subprocess.PIPE) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [sys.executable, "-c", WRITES + code], stdout=subprocess.PIPE, stderr=stderr
    )


@pytest.mark.slow
def test_a_reader_that_pauses_holds_nobody_up(tmp_path: Path) -> None:
    written = tmp_path / "written"
    code = f"""
for number in range(300000):
    print("line", number)
sys.stdout.flush()
open({str(written)!r}, "w").close()
[each.close() for each in relays]
os._exit(3)
"""
    with start(code) as process:
        wait_until(written.exists, "all is written although nobody reads", DEADLINE_S)
        assert process.poll() is None, "it waits until all has been taken"
        out, err = process.communicate(timeout=DEADLINE_S)
    assert out == b"".join(b"line %d\n" % number for number in range(300000))
    assert (process.returncode, err) == (3, b"")


def test_what_goes_to_one_pipe_stays_in_order() -> None:
    code = """
for number in range(2000):
    os.write(1 + number % 2, b"%d\\n" % number)
[each.close() for each in relays]
"""
    with start(code, stderr=subprocess.STDOUT) as process:
        out, _ = process.communicate(timeout=DEADLINE_S)
    assert out.split() == [b"%d" % number for number in range(2000)]
    assert process.returncode == 0


def test_a_reader_that_leaves_is_noticed() -> None:
    code = """
try:
    while True:
        print("x" * 1000, flush=True)
except BrokenPipeError:
    [each.close() for each in relays]
    os._exit(4)
"""
    with start(code) as process:
        assert process.stdout is not None and process.stdout.read(1) == b"x"
        process.stdout.close()
        assert process.wait(DEADLINE_S) == 4


def test_a_child_that_has_the_pipe_as_well_does_not_hold_up_the_end() -> None:
    code = """
import subprocess
child = subprocess.Popen(["sleep", "600"])
print("last words", child.pid, flush=True)
[each.close() for each in relays]
os._exit(0)
"""
    with start(code) as process:
        assert process.stdout is not None
        *words, pid = process.stdout.readline().split()
        try:
            assert process.wait(DEADLINE_S) == 0 and words == [b"last", b"words"]
        finally:
            os.kill(int(pid), 9)


def test_a_file_is_written_to_directly(tmp_path: Path) -> None:
    with (tmp_path / "out").open("wb") as out:
        code = WRITES + "print(len(relays))"
        subprocess.run([sys.executable, "-c", code], stdout=out, stderr=out, timeout=60, check=True)
    assert (tmp_path / "out").read_text() == "0\n"


@pytest.mark.slow
@pytest.mark.parametrize("words", [("--help",), ("nosuch", "x"), ("doctor", "--json")])
def test_the_program_says_all_before_it_ends(words: tuple[str, ...]) -> None:
    line = [sys.executable, "-m", "pgdb", *words]
    done = subprocess.run(line, cwd=ROOT, capture_output=True, timeout=DEADLINE_S, check=False)
    reported = done.stdout + done.stderr
    assert reported.endswith(b"\n") and len(reported) > 40
