"""``pgdb doctor``: reports what would keep a session on this host from starting, and the way out.

Checks try things rather than look them up if possible: they trace two processes, start two
Pythons by each launcher, and connect to our own address. A check that fails itself is a finding
like any other.
"""

from __future__ import annotations

import functools
import json
import logging
import textwrap
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict
from typing import TextIO

from pgdb.errors import PgdbError
from pgdb.frontend.startup import (
    doctor_checks,
    doctor_cores,
    doctor_launchers,
    doctor_scheduler,
)
from pgdb.frontend.startup.doctor_findings import Finding, Host, Verdict

LOG = logging.getLogger(__name__)

WIDTH_COLUMNS = 80

CHECKS: tuple[Callable[[Host], Iterator[Finding]], ...] = (
    doctor_checks.check_python,
    doctor_checks.check_gdb,
    doctor_checks.check_tracing,
    doctor_checks.check_proc,
    doctor_scheduler.check_scheduling,
    doctor_checks.check_limits,
    doctor_cores.check_core_files,
    doctor_launchers.check_launchers,
    doctor_launchers.check_slurm,
    doctor_checks.check_ssh,
    doctor_checks.check_network,
    doctor_checks.check_disk,
)


def run_doctor(*, as_json: bool, gdb: str, out: TextIO) -> int:
    """Examine this host and write each finding to *out* at once; return the exit status."""
    findings = []
    for finding in examine(Host(gdb=gdb)):
        findings.append(finding)
        out.write(_in_json(finding) if as_json else in_lines(finding))
        out.write("\n")
        out.flush()
    if not as_json:
        out.write(summary(findings) + "\n")
    return int(_count(findings, "problem") > 0)


def _in_json(finding: Finding) -> str:
    # The key of the message is an older word, which programs read.
    fields = {"told" if key == "message" else key: value for key, value in asdict(finding).items()}
    return json.dumps(fields)


def in_lines(finding: Finding) -> str:
    """Return a finding as lines for a screen."""
    wrap = functools.partial(
        textwrap.fill, width=WIDTH_COLUMNS, break_long_words=False, break_on_hyphens=False
    )
    first = f"{finding.verdict:<8} {finding.topic}: {finding.message}"
    lines = [wrap(first, subsequent_indent=" " * 9)]
    if finding.remedy:
        lines.append(
            wrap(finding.remedy, initial_indent=" " * 9 + "-> ", subsequent_indent=" " * 12)
        )
    return "\n".join(lines)


def summary(findings: Sequence[Finding]) -> str:
    """Return the number of problems and warnings in words."""
    problems, warnings = _count(findings, "problem"), _count(findings, "warning")
    return (
        f"{problems or 'no'} problem{'' if problems == 1 else 's'}, "
        f"{warnings or 'no'} warning{'' if warnings == 1 else 's'}"
    )


def _count(findings: Sequence[Finding], verdict: Verdict) -> int:
    return sum(finding.verdict == verdict for finding in findings)


def examine(host: Host) -> Iterator[Finding]:
    """Run all checks of this host one after the other; each launcher takes some seconds."""
    for check in CHECKS:
        try:
            yield from check(host)
        except PgdbError as error:
            yield Finding(_topic(check), "warning", str(error))
        except Exception as error:
            # The doctor is for odd hosts, on which a check may break.
            LOG.debug("the check %s failed", check.__name__, exc_info=True)
            message = f"cannot be examined: {type(error).__name__}: {error}"
            yield Finding(_topic(check), "warning", message)


def _topic(check: Callable[[Host], Iterator[Finding]]) -> str:
    return check.__name__.removeprefix("check_").replace("_", " ")
