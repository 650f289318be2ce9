"""Time-outs of process groups, as scripts have them."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from pgdb.frontend.discovery.torch_limits import hold_limit, script_limits
from pgdb.jobs.processes import Processes

GROUP = "dist.init_process_group"


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("", ([], True, "")),
        (f"{GROUP}('nccl')", ([], True, "nccl")),
        (f"{GROUP}(backend='gloo', timeout=None)", ([], True, "gloo")),
        (f"{GROUP}(timeout=datetime.timedelta(minutes=2 * 5))", ([(600.0, 1)], True, "")),
        (f"{GROUP}(timeout=timedelta(0, 30))", ([(30.0, 1)], True, "")),
        (f"{GROUP}(timeout=timedelta(seconds=args.t))", ([], False, "")),
        (f"{GROUP}(timeout=TIMEOUT)", ([], False, "")),
        (
            f"\n{GROUP}(timeout=timedelta(hours=1))\nnew_group([0], timeout=timedelta(seconds=9))",
            ([(3600.0, 2), (9.0, 3)], True, ""),
        ),
        ("connect(timeout=timedelta(seconds=1))", ([], True, "")),
        ("print 'Python 2'", ([], True, "")),
        ("\0", ([], True, "")),
    ],
)
def test_script_limits(text: str, found: tuple[list[tuple[float, int]], bool, str]) -> None:
    assert script_limits(text) == found


@pytest.mark.parametrize(
    ("text", "seconds", "words"),
    [
        (f"{GROUP}('gloo', timeout=timedelta(seconds=10))", 10.0, "group: 10 s (train.py:2);"),
        (f"{GROUP}('gloo')", 1800.0, "30 min, the default of gloo"),
        (f"{GROUP}(timeout=LIMIT)", 0.0, "which train.py computes"),
        ("", 600.0, "10 min with nccl and 30 min with gloo"),
    ],
)
def test_the_limit_of_a_rank_is_that_of_its_script(
    text: str, seconds: float, words: str, tmp_path: Path
) -> None:
    script = tmp_path / "train.py"
    # Nothing of the text is carried out.
    script.write_text(f"input()\n{text}\n")
    process = subprocess.Popen(
        [sys.executable, "-u", script.name], stdin=subprocess.PIPE, cwd=tmp_path
    )
    assert process.stdin is not None
    try:
        limit_s, note = hold_limit(process.pid, Processes())
        assert limit_s == seconds
        assert words in note and "--max-hold" in note
    finally:
        process.kill()
        process.stdin.close()
        process.wait()


def test_a_rank_without_a_script_has_the_defaults() -> None:
    limit_s, note = hold_limit(os.getppid(), Processes())
    assert (limit_s, "by default" in note) == (600.0, True)
