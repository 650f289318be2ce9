"""An anchor reports a daemon that does not start."""

from __future__ import annotations

import contextlib
import os
import signal
from collections.abc import Callable, Iterator

import pytest

from pgdb.backend.node.wireup import Daemon

StartDaemon = Callable[[str], Daemon]


@pytest.fixture
def start_daemon() -> Iterator[StartDaemon]:
    """Start a shell in place of the daemon."""
    daemons = []

    def start(script: str) -> Daemon:
        from_anchor, to_daemon = os.pipe()
        from_daemon, to_anchor = os.pipe()
        actions = [
            (os.POSIX_SPAWN_DUP2, from_anchor, 0),
            (os.POSIX_SPAWN_DUP2, to_anchor, 1),
        ]
        pid = os.posix_spawn("/bin/sh", ["sh", "-c", script], os.environ, file_actions=actions)
        os.close(from_anchor)
        os.close(to_anchor)
        daemons.append(Daemon(pid, to_daemon, from_daemon))
        return daemons[-1]

    yield start
    for daemon in daemons:
        with contextlib.suppress(BrokenPipeError):  # it has left before it has heard all
            daemon.close()


def test_its_own_last_words_stay_the_last(
    start_daemon: StartDaemon, capfd: pytest.CaptureFixture[str]
) -> None:
    daemon = start_daemon("echo 'No module named x' >&2; exit 1")
    with pytest.raises(SystemExit) as ended:
        daemon.environment_rank()
    assert ended.value.code == 1
    assert capfd.readouterr().err == "No module named x\n"


@pytest.mark.parametrize(
    ("script", "how"),
    [("kill -KILL $$", f"signal {signal.SIGKILL:d} ended it"), ("exit 0", "it has left")],
)
def test_one_that_says_nothing_is_reported(
    start_daemon: StartDaemon, script: str, how: str
) -> None:
    with pytest.raises(SystemExit) as ended:
        start_daemon(script).environment_rank()
    assert ended.value.code == f"pgdb: the aggregator's daemon did not start: {how}"


def test_one_that_ends_before_it_receives_anything(start_daemon: StartDaemon) -> None:
    daemon = start_daemon("echo 0 1; exec <&-; exit 3")
    assert daemon.environment_rank() == (0, 1)
    with pytest.raises(SystemExit) as ended:
        daemon.listen("{}")
    assert ended.value.code == 1
