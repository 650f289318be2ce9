"""The command line of ``pgdb``, read and checked."""

from __future__ import annotations

import argparse
import os
from collections.abc import Iterator, Sequence
from typing import Any

import msgspec
from msgspec.structs import replace

from pgdb.errors import UsageError
from pgdb.frontend.api import gdb_commands
from pgdb.frontend.api.options import CHANGEABLE, SETTINGS, SETTLE, SessionOptions
from pgdb.frontend.run.options import RunOptions
from pgdb.frontend.store.settings import Settings
from pgdb.frontend.ui import job_arguments, report_mode, run_arguments
from pgdb.frontend.ui.command_line import make_parser
from pgdb.frontend.ui.report_mode import ReportArguments
from pgdb.frontend.ui.script import Script
from pgdb.frontend.ui.setting_arguments import given

DEFAULT_SETTLE_S = 1.0


class Arguments(msgspec.Struct, frozen=True):
    """The command line, checked."""

    mode: str
    target: str
    """The job to attach to, empty to look for one; the recording of ``replay``, the log of
    ``report-bug``."""
    pids: tuple[str, ...]
    line: tuple[str, ...]
    options: SessionOptions
    script: Script
    batch: bool
    json: bool
    settle_s: float | None
    run_timeout_s: float | None
    stdin: str
    exit_code: str
    given: Settings = msgspec.field(default_factory=Settings)
    """Settings that the command line names."""
    output: str = ""
    """The file that ``report-bug`` writes; the compiler of ``mpi-record``."""
    report: ReportArguments | None = None
    """The arguments of ``report``."""
    cores: tuple[str, ...] = ()
    """The files, directories and patterns of ``core``, or matches of coredumpctl."""
    executable: str = ""
    """The program of the core files; empty for the one that they name."""
    from_systemd: bool = False
    core_hosts: tuple[str, ...] = ()
    """The hosts with the core files; empty for this one."""
    run: RunOptions | None = None
    """The options of ``run``."""


def parse(argv: Sequence[str]) -> Arguments:
    """Read a command line.

    :raises UsageError: if it cannot be read.
    """
    words = list(argv)
    if words and words[0] in ("-p", "--pid", "-pid"):
        words[0] = "attach"
    elif words and words[0].startswith("--pid="):
        words[0:1] = ["attach", words[0].removeprefix("--pid=")]
    parsed = make_parser().parse_args(words)
    for name, command in _commands(parsed):
        try:
            gdb_commands.check_text(command)
        except UsageError as error:
            raise UsageError(f"{name}: {error}") from None
    if parsed.mode in ("replay", "report-bug", "mpi-record"):
        return _without_job(parsed)
    if parsed.mode == "report":
        return _of_report(parsed)
    if parsed.mode == "run":
        run = run_arguments.read_options(parsed, {**_from_environment(), **_given(parsed)})
        return replace(_without_job(parsed), run=run, options=run.session)
    line: list[str] = list(getattr(parsed, "line", []))
    if line[:1] == ["--"]:
        line = line[1:]
    if parsed.mode == "launch" and not line:
        raise UsageError("launch: give the launcher's line, for example mpirun -n 4 ./app")
    if parsed.exit_code == "job" and parsed.mode != "launch":
        raise UsageError("--exit-code=job needs 'launch': an attached job's status is not ours")
    if parsed.mode == "core" and not (parsed.cores or parsed.systemd):
        raise UsageError(
            "core: give core files or their directory, for example core.*; or --systemd"
        )
    pids: str | None = getattr(parsed, "pids", None)
    if pids is not None and parsed.target:
        raise UsageError(job_arguments.JOB_AND_PIDS)
    named = _given(parsed)
    settle_s = named.pop(SETTLE.key, None)
    options = SessionOptions(**{**_from_environment(), **named})
    batch = parsed.batch or parsed.json
    return Arguments(
        mode=parsed.mode,
        target=getattr(parsed, "target", "") or "",
        pids=job_arguments.read_pids(pids) if pids is not None else (),
        line=tuple(line),
        options=options,
        script=Script(parsed.parts),
        batch=batch,
        json=parsed.json,
        settle_s=DEFAULT_SETTLE_S if settle_s is None and not batch else settle_s,
        run_timeout_s=options.timeout_s if batch else None,
        stdin=getattr(parsed, "stdin", ""),
        exit_code=parsed.exit_code,
        cores=tuple(getattr(parsed, "cores", ())),
        executable=getattr(parsed, "executable", ""),
        from_systemd=getattr(parsed, "systemd", False),
        core_hosts=_core_hosts(parsed),
        given=Settings(
            settle_s=settle_s,
            **{each.key: named.get(each.key) for each in CHANGEABLE.values() if each != SETTLE},
        ),
    )


def _core_hosts(parsed: argparse.Namespace) -> tuple[str, ...]:
    """Return the hosts of ``core --hosts``.

    :raises UsageError: if they are no list of hosts.
    """
    if getattr(parsed, "hosts", None) is None:
        return ()
    # Other sessions need not load what starts aggregators for core files.
    from pgdb.frontend.startup.core_hosts import read_hosts

    return read_hosts(parsed.hosts)


def _given(parsed: argparse.Namespace) -> dict[str, Any]:
    """Return the settings that the command line names, by key.

    :raises UsageError: if one has no effect.
    """
    found = given(parsed, SETTINGS)
    for each in SETTINGS:
        if each.only_with and each.environment and each.key in found:
            if not found.get(each.only_with):
                raise UsageError(f"{each.option} needs --{each.only_with}")
    return found


def _from_environment() -> dict[str, Any]:
    """Return the settings that environment variables name, by key."""
    return {
        each.key: each.convert(each.option, os.environ[each.environment])
        for each in SETTINGS
        if each.environment in os.environ
    }


def _commands(parsed: argparse.Namespace) -> Iterator[tuple[str, str]]:
    """Yield the commands of a command line, each with its option."""
    for kind, value in getattr(parsed, "parts", ()):
        if kind == "ex":
            yield "-ex", value
    for command in getattr(parsed, "gdb_commands", ()):
        yield "--gdb-command", command


def _without_job(parsed: argparse.Namespace) -> Arguments:
    """Return the arguments of the modes that need no job, such as ``replay``."""
    return Arguments(
        mode=parsed.mode,
        target=getattr(parsed, "target", "") or "",
        pids=(),
        line=(),
        options=SessionOptions(),
        script=Script(getattr(parsed, "parts", ())),
        batch=getattr(parsed, "batch", False) or getattr(parsed, "json", False),
        json=getattr(parsed, "json", False),
        settle_s=None,
        run_timeout_s=None,
        stdin="",
        exit_code="pgdb",
        output=getattr(parsed, "output", ""),
    )


def _of_report(parsed: argparse.Namespace) -> Arguments:
    """Return the arguments of ``report``.

    :raises UsageError: if they name no report, or several.
    """
    pids: str | None = parsed.pids
    named = _given(parsed)
    named.pop(SETTLE.key, None)
    report = ReportArguments(
        attach=parsed.attach,
        pids=job_arguments.read_pids(pids) if pids is not None else (),
        file=parsed.target,
        compare=tuple(parsed.compare or ()),
        output=tuple(parsed.output),
        title=parsed.title,
        is_for_github=parsed.github,
        options=SessionOptions(**{**_from_environment(), **named}),
    )
    report_mode.check(report)
    return replace(_without_job(parsed), report=report, output="")
