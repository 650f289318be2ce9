"""The scripts in examples/scripts, run as a user does."""

from __future__ import annotations

import subprocess
import sys

from tests.support.programs import ROOT

RUN_TIMEOUT_S = 120.0


def run_example(name: str, *args: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, str(ROOT / "examples" / "scripts" / name), *args],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=RUN_TIMEOUT_S,
        check=False,
    )
