"""Real sessions over emulated ranks: the cost from the command to the merged answer."""

from __future__ import annotations

import re
import statistics
import subprocess
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pgdb
from bench.emulate.farm import ARM_FAULTS, PROGRAM, Farm, Plan, running_farm
from pgdb.jobs import procfs

START_TIMEOUT_S = 900.0
ANSWER_TIMEOUT_S = 300.0
PATIENCE_S = 5.0
"""Timeout of the answer with a silent rank, in seconds."""
_SENT = re.compile(r"\bbytes_sent:(\d+)")


@dataclass(frozen=True, slots=True)
class Cost:
    """The cost of one command."""

    command: str
    classes: int
    missing: str
    took_s: float
    cpu_s: tuple[float, ...]
    """CPU seconds of each aggregator."""
    sent_bytes: tuple[int, ...]
    """Bytes that each aggregator sent on all of its links, TLS included."""


@dataclass(frozen=True, slots=True)
class Run:
    """A session and its commands."""

    plan: Plan
    aggregators: int
    fan_out: int
    costs: tuple[Cost, ...]
    peak_bytes: tuple[int, ...]
    """Peak memory of each aggregator (VmHWM)."""
    pss_bytes: tuple[int, ...]


def measure(plan: Plan, *, aggregators: int, fan_out: int, rounds: int = 3) -> Run:
    """Run a session over the ranks of *plan*; the median round of each command counts."""
    with (
        running_farm(plan) as farm,
        pgdb.attach(
            0,
            pids=[str(pid) for pid in farm.pids],
            gdb=str(farm.gdb),
            # Otherwise the program of each rank would be searched below each of these processes.
            program=PROGRAM,
            nursery=False,
            aggregators=aggregators,
            fan_out=fan_out,
            start_timeout_s=START_TIMEOUT_S,
            timeout_s=ANSWER_TIMEOUT_S,
        ) as session,
    ):
        daemons = find_daemons(farm)
        assert len(daemons) == aggregators, f"{len(daemons)} aggregators of {aggregators}"
        session.break_at("function_0").check()
        if plan.delay_ms:
            session.execute(ARM_FAULTS).check()
        costs = []
        for name, command in commands(session):
            found = [cost_of(name, command, daemons) for _ in range(rounds)]
            costs.append(sorted(found, key=lambda each: each.took_s)[rounds // 2])
        if plan.late or plan.silent or plan.dying:
            session.execute(ARM_FAULTS).check()
            costs.append(
                cost_of("with faults", lambda: session.backtrace(timeout_s=PATIENCE_S), daemons)
            )
        return Run(
            plan=plan,
            aggregators=aggregators,
            fan_out=fan_out,
            costs=tuple(costs),
            peak_bytes=tuple(memory_bytes(pid, "status", "VmHWM") for pid in daemons),
            pss_bytes=tuple(memory_bytes(pid, "smaps_rollup", "Pss") for pid in daemons),
        )


def commands(
    session: pgdb.Session,
) -> Iterator[tuple[str, Callable[[], pgdb.Answer | pgdb.Report]]]:
    """Yield the measurements."""
    yield "bt", session.backtrace
    yield "bt -args", lambda: session.backtrace(split=True)
    yield "bt -full", lambda: session.execute("bt -full")
    yield "print label", lambda: session.evaluate("label")
    yield "print rank", lambda: session.evaluate("rank")
    yield "report", session.report
    yield "info threads", lambda: session.execute("info threads")
    yield "step", session.step
    yield "stop storm", session.continue_


def cost_of(
    name: str, command: Callable[[], pgdb.Answer | pgdb.Report], daemons: list[int]
) -> Cost:
    """Carry out a command and return its cost."""
    before = [(cpu_s(pid), sent) for pid, sent in zip(daemons, sent_bytes(daemons), strict=True)]
    begun = time.perf_counter()
    answer = command()
    took_s = time.perf_counter() - begun
    after = [(cpu_s(pid), sent) for pid, sent in zip(daemons, sent_bytes(daemons), strict=True)]
    missing = {}
    if isinstance(answer, pgdb.Answer):
        missing = {kind: getattr(answer.missing, kind) for kind in ("late", "lost", "running")}
    return Cost(
        command=name,
        classes=len(answer.classes),
        missing=" ".join(f"{kind} [{ranks}]" for kind, ranks in missing.items() if ranks),
        took_s=took_s,
        cpu_s=tuple(new[0] - old[0] for old, new in zip(before, after, strict=True)),
        sent_bytes=tuple(new[1] - old[1] for old, new in zip(before, after, strict=True)),
    )


def find_daemons(farm: Farm) -> list[int]:
    """Return the aggregators: the parents of all GDBs of the farm."""
    gdb = str(farm.gdb)
    pids = [pid for pid in procfs.all_pids() if procfs.executable(pid) == gdb]
    stats = [stat for pid in pids if (stat := procfs.read_stat(pid)) is not None]
    return sorted({stat.ppid for stat in stats})


def cpu_s(pid: int) -> float:
    """Return the CPU seconds of all threads of a process, to the nanosecond."""
    total_ns = 0
    for task in Path(f"/proc/{pid}/task").iterdir():
        total_ns += int((task / "schedstat").read_text().split()[0])
    return total_ns / 1e9


def memory_bytes(pid: int, file: str, name: str) -> int:
    """Return a figure of /proc/PID/status or smaps_rollup."""
    for line in Path(f"/proc/{pid}/{file}").read_text().splitlines():
        if line.startswith(f"{name}:"):
            return int(line.split()[1]) * 1024
    raise ValueError(f"/proc/{pid}/{file} has no {name}")


def sent_bytes(pids: list[int]) -> list[int]:
    """Return the bytes that processes have sent on all TCP connections, from ss(8)."""
    said = subprocess.run(["ss", "-tinpHO"], capture_output=True, text=True, check=True).stdout
    totals = dict.fromkeys(pids, 0)
    for line in said.splitlines():
        owner, sent = re.search(r"\bpid=(\d+),", line), _SENT.search(line)
        if owner is not None and sent is not None and int(owner[1]) in totals:
            totals[int(owner[1])] += int(sent[1])
    return [totals[pid] for pid in pids]


def report(runs: list[Run], whole_s: float) -> Iterator[str]:
    """Yield a Markdown table; times are shares of *whole_s*."""
    yield "| ranks | aggregators | classes | command | answers | time | CPU, median | most | sent |"
    yield "|--:|--:|---|---|--:|--:|--:|--:|--:|"
    for run in runs:
        kind = f"{run.plan.classes:,} {'random' if run.plan.is_random else 'blocks'}"
        if run.plan.delay_ms:
            kind += f", up to {run.plan.delay_ms / 1000 / whole_s:g} late"
        for each in run.costs:
            said = f"{each.classes:,}" + (f", {each.missing}" if each.missing else "")
            yield (
                f"| {run.plan.ranks:,} | {run.aggregators} | {kind} | {each.command} | {said} "
                f"| {each.took_s / whole_s:.3f} | {statistics.median(each.cpu_s) / whole_s:.4f} "
                f"| {max(each.cpu_s) / whole_s:.4f} | {max(each.sent_bytes):,} |"
            )
    yield ""
    yield "| ranks | aggregators | peak MB, median | most | PSS MB, median | most |"
    yield "|--:|--:|--:|--:|--:|--:|"
    for run in runs:
        peaks, sizes = sorted(run.peak_bytes), sorted(run.pss_bytes)
        yield (
            f"| {run.plan.ranks:,} | {run.aggregators} | {statistics.median(peaks) / 1e6:.0f} "
            f"| {peaks[-1] / 1e6:.0f} | {statistics.median(sizes) / 1e6:.0f} "
            f"| {sizes[-1] / 1e6:.0f} |"
        )
