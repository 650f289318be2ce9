"""The words of a batch system, in a job's output, for an end that it has made. No I/O."""

from __future__ import annotations

from pgdb.patterns import pattern

_SLURM = pattern(
    r"slurmstepd[^\s:]*: error: \*\*\* (?P<part>JOB|STEP) (?P<number>[\w.+]+) ON \S+ "
    r"CANCELLED AT [\w:.+-]+(?: (?i:due to) (?P<reason>[^*\n]+?))? \*\*\*"
)
_SLURM_MEMORY = pattern(r"slurmstepd[^\s:]*: error: Detected \d+ oom[-_]kill event")
_SLURM_REASONS = {
    "TIME LIMIT": "at its time limit",
    "PREEMPTION": "for the sake of another job (preemption)",
    "JOB REQUEUE": "and queues the job again",
}


def end_in_words(text: str) -> str:
    """Return which end a batch system has made, as a sentence; empty if the output names none.

    >>> end_in_words(
    ...     "slurmstepd-n1: error: *** STEP 7.0 ON n1 CANCELLED AT 2030-01-01T00:00:00 "
    ...     "DUE TO TIME LIMIT ***"
    ... )
    'Slurm has ended step 7.0 at its time limit'
    """
    found = list(_SLURM.finditer(text))
    # One of several lines can be without the reason.
    one = next((each for each in found if each["reason"]), found[0] if found else None)
    if one is None:
        return ""
    what = f"Slurm has ended {one['part'].lower()} {one['number']}"
    reason = (one["reason"] or "").partition(",")[0].strip()
    if not reason:
        return f"{what}: it was cancelled"
    known = _SLURM_REASONS.get(reason.upper())
    return f"{what} {known}" if known else f"{what}: {reason.lower()}"


def memory_in_words(text: str) -> str:
    """Return that a batch system has seen processes killed for memory; empty if it has not."""
    return "Slurm says that the memory ran out" if _SLURM_MEMORY.search(text) else ""
