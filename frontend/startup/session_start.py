"""A start of a session: its parts, its deadline, and the first stop of the ranks."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any

import msgspec

from pgdb.errors import (
    PermissionToTraceError,
    StartError,
)
from pgdb.frontend.analysis.answers import Answer
from pgdb.frontend.analysis.wording import counted
from pgdb.frontend.api.notifications import Listener
from pgdb.frontend.api.options import SessionOptions
from pgdb.frontend.api.session import Session
from pgdb.frontend.startup.logged_start import OnStep
from pgdb.frontend.startup.overlay import Overlay
from pgdb.frontend.startup.session_directory import SessionDirectory
from pgdb.frontend.startup.site import Site
from pgdb.frontend.system.shielding import to_its_end
from pgdb.frontend.transport.cores import CoreTransport
from pgdb.frontend.transport.overlay_transport import Calls, OverlayTransport
from pgdb.overlay.core_setup import CoreSetup
from pgdb.overlay.messages import Acquire, Deploy, Setup, Share
from pgdb.patterns import pattern
from pgdb.proctable import SessionMode
from pgdb.ranks import RankSet
from pgdb.records import Failure, Stop

ORPHANS_S = 10.0
"""Longest time that a start without any rank waits for aggregators that look for another parent."""

_MOST_FAILURES = 4
"""Number of different reasons in the message when PGDB could not attach to any rank."""
# Reasons that differ in process ids alone are one; those of the first rank are shown.
_PROCESS_ID = pattern(r"(?<=process )\d+|(?<=: )\d+(?= \()")


def new_session(
    mode: SessionMode, options: SessionOptions, directory: SessionDirectory
) -> tuple[Session, Overlay]:
    """Return a session over an overlay that is yet to be started."""
    made: list[Overlay] = []

    def make(calls: Calls) -> Overlay:
        made.append(
            Overlay(
                options,
                directory,
                on_events=calls.events,
                on_announced=calls.announced,
                on_late=calls.late,
                on_lost=calls.lost,
                on_notice=calls.notice,
                on_progress=calls.progress,
            )
        )
        return made[0]

    transport = CoreTransport if mode == "core" else OverlayTransport
    return Session(mode, options, transport(make), directory), made[0]


def prepare(
    mode: SessionMode,
    options: SessionOptions,
    directory: SessionDirectory,
    site: Site,
    on_step: OnStep,
    listener: Listener | None,
) -> Starting:
    """Return a start with a new session."""
    session, overlay = new_session(mode, options, directory)
    return Starting(session, overlay, directory, site, on_step, listener)


class Starting(msgspec.Struct):
    """A session that is about to start."""

    session: Session
    overlay: Overlay
    directory: SessionDirectory
    site: Site
    on_step: OnStep
    listener: Listener | None
    cores: CoreSetup | None = None
    """The core files; those of several hosts are known when the aggregators have found them."""

    async def run(
        self, begin: Coroutine[Any, Any, tuple[Share, ...]], *, has_own_limits: bool = False
    ) -> Session:
        """Run *begin*, which returns the ranks of each aggregator, and attach to the ranks.

        :param has_own_limits: whether *begin* limits its time itself.
        """
        session = self.session
        loop = asyncio.get_running_loop()
        if self.listener is not None:
            session.subscribe(self.listener)
        session.ending.add(self.site.close())
        try:
            async with asyncio.timeout(session.options.start_timeout_s) as limit:
                if has_own_limits:
                    limit.reschedule(None)
                shares = await begin
                options = session.options
                if has_own_limits:
                    limit.reschedule(loop.time() + options.start_timeout_s)
                hosts = len(session.table.hosts)
                self.on_step(
                    f"{len(session.table.processes)} ranks on {counted(hosts, 'host')}, "
                    f"{counted(len(self.overlay.nodes), 'aggregator')}, fan-out {options.fan_out}"
                )
                await _acquire(self, shares)
        except TimeoutError:
            await to_its_end(session.close())
            raise StartError(_what_is_missing(self)) from None
        except BaseException:
            # After any error, no launched job may stay half held, and no attached job attached.
            await to_its_end(session.close())
            raise
        return session


def _what_is_missing(starting: Starting) -> str:
    """Return the message of a start that has reached its deadline."""
    session = starting.session
    got, wanted = starting.overlay.progress()
    parts = [session.opening.stage, f"aggregators {got}/{wanted}"]
    if session.set:
        parts.append(f"no answer from ranks [{session.set - session.state.stopped}]")
    if session.options.program and session.mode == "launch":
        parts.append(f"is it --program {session.options.program} that they execute?")
    words = starting.overlay.last_words()
    missing = ", ".join(part for part in parts if part)
    return (
        f"the session did not start within {session.options.start_timeout_s:g} s ({missing}); "
        f"--start-timeout gives it longer. {words}"
    ).rstrip()


async def _acquire(starting: Starting, shares: tuple[Share, ...]) -> None:
    """Make the aggregators attach to their ranks."""
    session, options = starting.session, starting.session.options
    ranks = RankSet.union(share.ranks for share in shares)
    session.opening.begin(ranks)
    session.hold_time.begin()
    session.opening.stage = "GDBs start"
    starting.overlay.root.apply_setup(
        Setup(
            shares=shares,
            is_held=session.mode == "launch",
            gdb=options.gdb,
            gdb_version=session.gdb_version,
            gdb_commands=options.gdb_commands,
            program=options.program,
            nursery=options.nursery,
            guard=options.guard,
            deploy=_deploy(options),
            cores=starting.cores,
        )
    )
    answer = await session.ask(session.mode, Acquire(), ranks, timeout_s=options.start_timeout_s)
    if not answer.classes and answer.missing.lost:
        await session.opening.wait_orphans(ORPHANS_S)
    if not session.opening.orphans_are_back:
        check_start(answer, session.mode)
    session.opening.complete(answer)
    if session.mode == "core":
        return
    await session.recovery.define_worlds(session.state.live)
    if not options.stop_on_report:
        await session.set_stop_on_report(False)
    if options.stop_before_death:
        await session.set_stop_before_death(True)


def _deploy(options: SessionOptions) -> Deploy | None:
    if not options.sbd:
        return None
    return Deploy(
        cache=options.sbd_cache,
        max_bytes=options.sbd_cache_bytes,
        max_age_s=options.sbd_cache_age_s,
        wait_s=options.sbd_wait_s,
    )


def check_start(answer: Answer, mode: str) -> None:
    """Check whether a session has ranks to begin with.

    :raises StartError: if no debugger could attach to any rank; the reasons name their ranks.
    """
    if any(isinstance(each.record, Stop) for each in answer.classes):
        return
    failed = [each for each in answer.classes if isinstance(each.record, Failure)]
    if failed:
        messages = [each.filled.message for each in failed]  # type: ignore[union-attr]
        alike: dict[str, list[int]] = {}
        for index, message in enumerate(messages):
            alike.setdefault(_PROCESS_ID.sub("…", message), []).append(index)
        groups = [
            (
                RankSet.union(failed[each].ranks for each in indices),
                messages[indices[0]] if len(indices) == 1 else message,
            )
            for message, indices in alike.items()
        ]
        reasons = [f"[{ranks}] {message}" for ranks, message in groups]
        if len(reasons) > _MOST_FAILURES:
            others = RankSet.union(ranks for ranks, _ in groups[_MOST_FAILURES:])
            reasons[_MOST_FAILURES:] = [f"[{others}] for other reasons"]
        kind = PermissionToTraceError if "cannot attach" in messages[0] else StartError
        raise kind("; ".join(reasons))
    if answer.classes:
        raise StartError(
            f"the program ended on [{answer.classes[0].ranks}] before it could be stopped"
            + (" in main; --program NAME names one without MPI" if mode == "launch" else "")
        )
    silent = answer.missing.ranks
    why = f"no answer from [{silent}]" if silent else "no rank has answered; has the job ended?"
    raise StartError(f"PGDB could not attach to any rank; {why}")
