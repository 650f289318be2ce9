"""Findings of the doctor, and the programs that its checks run."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from pgdb.errors import StartError
from pgdb.jobs import procfs

ASK_TIMEOUT_S = 20.0
"""Longest wait for a program that only prints facts about itself, in seconds."""

Verdict = Literal["ok", "warning", "problem", "note"]


@dataclass(frozen=True, slots=True)
class Finding:
    """Result of one check."""

    topic: str
    verdict: Verdict
    """``problem``: sessions will not start; ``warning``: some will not, or not as well."""
    message: str
    remedy: str = ""
    """Action for the user; empty if there is nothing to do."""


@dataclass(frozen=True, slots=True)
class Host:
    """The host to examine; tests replace the kernel's files by their own."""

    gdb: str = "gdb"
    proc: Path = procfs.PROC
    environment: Mapping[str, str] = field(default_factory=lambda: dict(os.environ))

    @property
    def search_path(self) -> str:
        """The search path for programs."""
        return self.environment.get("PATH", os.defpath)


def ask(
    *line: str, environment: Mapping[str, str] | None = None, timeout_s: float = ASK_TIMEOUT_S
) -> tuple[int, str]:
    """Run a program to its end; return its status and its output."""
    # The output is a file: a process that the launcher leaves behind may keep a pipe open for ever.
    with tempfile.TemporaryFile() as output:
        try:
            process = subprocess.Popen(
                line,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                env=environment,
                start_new_session=True,
            )
        except OSError as error:
            return 127, f"{line[0]}: {error.strerror}"
        late = ""
        try:
            status = process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            late = f"\nno end within {timeout_s:g} s"
            status = _end(process)
        output.seek(0)
        return status, output.read().decode("utf-8", "replace") + late


def _end(process: subprocess.Popen[bytes]) -> int:
    """End a launcher by SIGTERM, on which it ends its ranks; then kill its whole session."""
    os.killpg(process.pid, signal.SIGTERM)
    with contextlib.suppress(subprocess.TimeoutExpired):
        return process.wait(5.0) or 1
    os.killpg(process.pid, signal.SIGKILL)
    return process.wait() or 1


def ask_apart(trial: str, module: str) -> str:
    """Run a module of PGDB's in a process of its own; return the last line of its output.

    :raises StartError: if it fails; the error names the *trial*.
    """
    environment = dict(os.environ, PYTHONPATH=os.pathsep.join(filter(None, sys.path)))
    status, said = ask(sys.executable, "-P", "-m", module, environment=environment)
    if status:
        raise StartError(f"the trial of {trial} ended with {status}: {last_line(said)}")
    return said.splitlines()[-1]


def last_line(said: str) -> str:
    """Return the last line that contains a word, cut to 200 characters."""
    lines = [line.strip() for line in said.splitlines() if re.search(r"\w", line)]
    return lines[-1][:200] if lines else ""
