"""The time limit of the batch job that this process is in."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Callable, Mapping

import msgspec

_QUERY_S = 20.0


class TimeLimit(msgspec.Struct, frozen=True):
    """The end of the job's time."""

    end: float
    """Unix time."""
    source: str
    """The source of the limit, in words."""


def ask(words: tuple[str, ...]) -> str:
    """Return what a command prints; nothing if it fails."""
    try:
        done = subprocess.run(
            words,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            errors="replace",
            timeout=_QUERY_S,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout.strip() if done.returncode == 0 else ""


def find(
    environment: Mapping[str, str] = os.environ,
    *,
    query: Callable[[tuple[str, ...]], str] = ask,
    now: Callable[[], float] = time.time,
) -> TimeLimit | None:
    """Return the time limit that the batch system has for this job; None if it is not known.

    Slurm from 23.02 on names the end in the environment; older ones answer squeue. The other
    systems are asked for what is left or for the limit.
    """
    if end := _number(environment.get("SLURM_JOB_END_TIME", "")):
        return TimeLimit(end, "Slurm (SLURM_JOB_END_TIME)")
    if job := environment.get("SLURM_JOB_ID"):
        left = _clock(query(("squeue", "-h", "-j", job, "-o", "%L")).partition("\n")[0])
        return None if left is None else TimeLimit(now() + left, "Slurm (squeue)")
    if job := environment.get("FLUX_JOB_ID"):
        left = _number(query(("flux", "job", "timeleft", job)))
        return TimeLimit(now() + left, "Flux (flux job timeleft)") if left else None
    if job := environment.get("LSB_JOBID"):
        left = _clock(query(("bjobs", "-noheader", "-o", "time_left", job)).split(" ")[0])
        return None if left is None else TimeLimit(now() + left, "LSF (bjobs)")
    if job := environment.get("PBS_JOBID"):
        return _of_pbs(query(("qstat", "-f", job)), now())
    return None


def _of_pbs(said: str, now: float) -> TimeLimit | None:
    fields = {
        name.strip(): value.strip()
        for name, equals, value in (line.partition("=") for line in said.splitlines())
        if equals
    }
    limit = _clock(fields.get("Resource_List.walltime", ""))
    used = _clock(fields.get("resources_used.walltime", "")) or 0.0
    return None if limit is None else TimeLimit(now + limit - used, "PBS (qstat)")


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return 0.0


def _clock(text: str) -> float | None:
    """Return the seconds of ``[DAYS-][[HOURS:]MINUTES:]SECONDS``, None for ``UNLIMITED``.

    >>> _clock("1-02:00:30"), _clock("59:30"), _clock("UNLIMITED")
    (93630.0, 3570.0, None)
    """
    days, dash, rest = text.strip().rpartition("-")
    parts = rest.split(":")
    if not all(each.isdecimal() for each in parts) or (dash and not days.isdecimal()):
        return None
    numbers = [int(each) for each in parts]
    if len(numbers) > 3:
        return None
    if dash and len(numbers) < 3:  # Slurm leaves out the end: 1-12 is a day and twelve hours
        numbers += [0] * (3 - len(numbers))
    seconds = 0
    for each in numbers:
        seconds = seconds * 60 + each
    return float(seconds + (int(days) * 86400 if dash else 0))
