"""The anchor ends a daemon that hangs, and no other one."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator

import pytest

from pgdb import bootstrap_env
from pgdb.backend.__main__ import _guard
from pgdb.backend.node.wireup import Daemon

Start = Callable[[str], tuple[int, Daemon]]
NEVER_S = 120.0


@pytest.fixture
def start(monkeypatch: pytest.MonkeyPatch) -> Iterator[Start]:
    """Start a shell in place of the daemon; its output stands for heartbeats."""
    handler = signal.getsignal(signal.SIGTERM)
    monkeypatch.setattr(bootstrap_env, "BEAT_S", 0.05)
    monkeypatch.setattr(bootstrap_env, "HANGS_S", NEVER_S)
    monkeypatch.setattr(bootstrap_env, "LEAVE_HANGS_S", NEVER_S)
    daemons = []

    def run(script: str) -> tuple[int, Daemon]:
        from_anchor, to_daemon = os.pipe()
        from_daemon, to_anchor = os.pipe()
        pid = os.posix_spawn(
            "/bin/sh",
            ["sh", "-c", script],
            os.environ,
            file_actions=[
                (os.POSIX_SPAWN_DUP2, from_anchor, 0),
                (os.POSIX_SPAWN_DUP2, to_anchor, 1),
            ],
        )
        os.close(from_anchor)
        os.close(to_anchor)
        daemons.append(Daemon(pid, to_daemon, from_daemon))
        return pid, daemons[-1]

    yield run
    signal.signal(signal.SIGTERM, handler)
    for daemon in daemons:
        daemon.close()


def ended_by(pid: int) -> int:
    """Return the signal that ended a process, 0 if it exited by itself."""
    return max(0, -os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))


def test_one_that_shows_nothing_is_ended(
    start: Start, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(bootstrap_env, "HANGS_S", 0.3)
    # A closed output is as silent as a hanging one: both are tried.
    for script in ("kill -STOP $$", "exec >&-; cat; sleep 600"):
        pid, daemon = start(script)
        _guard(pid, daemon, watches_input=False)
        assert ended_by(pid) == signal.SIGKILL
        assert "hung, and was ended" in capfd.readouterr().err


def test_one_that_progresses_is_left_alone(start: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bootstrap_env, "HANGS_S", 3600.0)
    pid, daemon = start("for _ in 1 2 3 4 5 6 7 8; do printf .; sleep 0.1; done")
    _guard(pid, daemon, watches_input=False)
    assert ended_by(pid) == 0


@pytest.mark.parametrize(
    ("script", "how"), [("cat > /dev/null", 0), ("kill -STOP $$", signal.SIGKILL)]
)
def test_the_end_of_what_ssh_has_started(
    start: Start, monkeypatch: pytest.MonkeyPatch, script: str, how: int
) -> None:
    """A daemon leaves on request; one that cannot is ended soon."""
    if how:
        monkeypatch.setattr(bootstrap_env, "LEAVE_HANGS_S", 0.3)
    theirs, ours = os.pipe()
    os.close(ours)
    before = os.dup(0)
    os.dup2(theirs, 0)
    try:
        pid, daemon = start(script)
        _guard(pid, daemon, watches_input=True)
        assert ended_by(pid) == how
    finally:
        os.dup2(before, 0)
        os.close(before)
        os.close(theirs)
