"""The doctor's check of core files: whether jobs leave any, and where."""

from __future__ import annotations

import shutil
from collections.abc import Iterator

from pgdb.cores.policy import Policy, read_policy
from pgdb.frontend.startup.doctor_findings import Finding, Host

_TOPIC = "core files"


def check_core_files(host: Host) -> Iterator[Finding]:
    """Examine core_pattern and the limits."""
    yield finding_of(read_policy(host.proc), host.search_path)


def finding_of(policy: Policy, search_path: str) -> Finding:
    """Return whether jobs leave core files that PGDB can open."""
    where = policy.describe()
    if not policy.can_be_enabled:
        remedy = "under pgdb, ranks can be stopped before their death (--stop-before-death)"
        return Finding(_TOPIC, "note", policy.why_none(), remedy)
    if policy.kind == "systemd" and shutil.which("coredumpctl", path=search_path) is None:
        return Finding(
            _TOPIC,
            "note",
            "systemd-coredump keeps them, and there is no coredumpctl to read them with",
            "install coredumpctl (package systemd-coredump)",
        )
    if policy.are_overwritten:
        return Finding(
            _TOPIC,
            "note",
            where,
            "as root: sysctl kernel.core_pattern=core.%p; or a directory for each rank",
        )
    if not policy.is_enabled:
        return Finding(
            _TOPIC,
            "note",
            f"a job leaves none (ulimit -c is 0); {where}",
            "ulimit -c unlimited, before the job",
        )
    return Finding(_TOPIC, "ok", where)
