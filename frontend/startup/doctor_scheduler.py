"""Check whether the kernel's scheduler starves sessions beside a job whose ranks yield."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import msgspec

from pgdb.frontend.startup.doctor_findings import Finding, Host, ask_apart
from pgdb.frontend.startup.starvation_trial import Starvation


def try_starvation_apart() -> Starvation:
    """Run :mod:`pgdb.frontend.startup.starvation_trial` in a process of its own, since it forks."""
    line = ask_apart("the scheduler", "pgdb.frontend.startup.starvation_trial")
    return msgspec.json.decode(line, type=Starvation)


def check_scheduling(
    host: Host, trial: Callable[[], Starvation] = try_starvation_apart
) -> Iterator[Finding]:
    """Try whether ranks that yield starve other sessions, where the kernel groups by session."""
    switch = host.proc / "sys" / "kernel" / "sched_autogroup_enabled"
    try:
        is_on = switch.read_text(encoding="ascii").strip() == "1"
    except OSError:
        is_on = False
    if not is_on:
        yield Finding("scheduling", "ok", "the kernel does not schedule sessions as groups")
        return
    found = trial()
    if found.is_seen:
        yield Finding(
            "scheduling",
            "warning",
            f"beside processes that yield, another session needed {found.loaded_s:.1f} s to start "
            f"a program, {found.quiet_s:.3f} s without them: jobs with more ranks than cores can "
            "starve PGDB",
            "as root: sysctl -w kernel.sched_autogroup_enabled=0",
        )
    else:
        message = (
            "the kernel schedules sessions as groups; beside processes that yield, another session "
            f"starts a program in {found.loaded_s:.3f} s"
        )
        yield Finding("scheduling", "ok", message)
