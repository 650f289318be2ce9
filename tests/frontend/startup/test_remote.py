"""Another host as the site: the real agent, behind an ssh that is a script on this one."""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest

from pgdb.errors import DiscoveryError, PgdbError, StartError
from pgdb.frontend.startup.local_site import LocalSite
from pgdb.frontend.startup.remote import RemoteSite, explain_ssh
from pgdb.frontend.startup.site import AggregatorStart
from pgdb.jobs.gdb_program import check_gdb
from pgdb.jobs.launchers import Family, Launcher
from pgdb.overlay.node import release
from tests.support.processes import is_alive, wait_until

# Each test starts processes of its own.
pytestmark = pytest.mark.slow

DEADLINE_S = 30.0


def script(path: Path, text: str) -> Path:
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    return path


# ssh -o BatchMode=yes HOST COMMAND
RUNS = 'shift 3; exec sh -c "$*"'


def ssh(tmp_path: Path, text: str = RUNS) -> tuple[str, ...]:
    """Return an ssh whose host is this one, and which leaves its process id behind."""
    return (str(script(tmp_path / "ssh", f"echo $$ > {tmp_path}/ssh.pid\n{text}")),)


def agent_pid(tmp_path: Path) -> int:
    return int((tmp_path / "ssh.pid").read_text())


def run(
    tmp_path: Path,
    test: Callable[[RemoteSite], Coroutine[Any, Any, None]],
    *,
    text: str = RUNS,
    **how: Any,
) -> None:
    """Run *test* on a site that is reached through an ssh with that text."""

    async def bounded() -> None:
        async with asyncio.timeout(DEADLINE_S):
            site = await RemoteSite.connect("far", ssh(tmp_path, text), **how)
            try:
                await test(site)
            finally:
                await site.close()

    asyncio.run(bounded())
    wait_until(lambda: not is_alive(agent_pid(tmp_path)), "the agent has ended")


async def nothing(site: RemoteSite) -> None:
    pass


def refusal(tmp_path: Path, text: str = RUNS, **how: Any) -> str:
    """Return the reason for a failure to connect through an ssh."""
    with pytest.raises(PgdbError) as caught:
        run(tmp_path, nothing, text=text, **how)
    assert "\n" not in str(caught.value)
    return str(caught.value)


# -- getting there -----------------------------------------------------------------------------


def test_an_agent_is_started_and_ends_with_the_site(tmp_path: Path) -> None:
    async def test(site: RemoteSite) -> None:
        assert is_alive(agent_pid(tmp_path))

    run(tmp_path, test)


def test_the_host_is_asked_without_a_question_and_the_options_are_passed_on(
    tmp_path: Path,
) -> None:
    words = tmp_path / "words"
    text = f'printf "%s\\n" "$@" > {words}; shift 2; {RUNS}'

    async def bounded() -> None:
        async with asyncio.timeout(DEADLINE_S):
            site = await RemoteSite.connect("far", (*ssh(tmp_path, text), "-J", "gate"))
            await site.close()

    asyncio.run(bounded())
    options, host, command = words.read_text().rsplit("\n", 3)[:3]
    assert (options, host) == ("-J\ngate\n-o\nBatchMode=yes", "far")
    assert command.startswith("exec env PYTHONPATH=") and "pgdb.frontend.startup.remote" in command


GREETINGS = [
    "echo 'Welcome to far'",
    "echo; echo",
    """echo '{"motd": 1}'; echo '[1, 2]'; echo 7; echo null""",
    r"printf '\377\376 caf\351\n'",
    """echo '{"type": "Return", "number": 99, "value": 1}'""",
    "head -c 200000 /dev/zero | tr '\\0' x; echo",
]


@pytest.mark.parametrize("greeting", GREETINGS)
def test_what_the_hosts_shell_says_first_is_not_minded(tmp_path: Path, greeting: str) -> None:
    run(tmp_path, nothing, text=f"{greeting}; echo note >&2; {RUNS}")


def test_another_release_is_refused_with_both_and_the_ways_out(tmp_path: Path) -> None:
    answer = '{"type": "Return", "number": 1, "value": "PGDB 0.1 on Python 3.6"}'
    reported = refusal(tmp_path, f"read line; echo '{answer}'; exec cat > /dev/null")
    assert reported.startswith(f"far has PGDB 0.1 on Python 3.6, here is {release()}; ")
    assert "--remote-python" in reported and "--ship" in reported


def test_a_python_without_pgdb_is_reported_with_the_way_out(tmp_path: Path) -> None:
    bare = script(tmp_path / "python", f'exec {sys.executable} -S "$@"')
    reported = refusal(tmp_path, python=str(bare), python_path="")
    assert reported.startswith("far: ") and "No module named 'pgdb'" in reported
    assert "--remote-python" in reported and "--ship" in reported


def test_a_python_that_is_not_there_is_reported(tmp_path: Path) -> None:
    reported = refusal(tmp_path, python="/no/such/python")
    assert reported.startswith("far: ") and "/no/such/python" in reported
    assert "--remote-python names a Python of that host" in reported


@pytest.mark.parametrize(
    ("text", "reported"),
    [
        ("echo 'user@far: Permission denied (publickey).' >&2; exit 255", "'ssh HOST true' must"),
        ("echo 'Host key verification failed.' >&2; exit 255", "'ssh HOST true' must"),
        ("echo 'ssh: connect to host far port 22: No route to host' >&2; exit 255", "No route"),
        ("exit 1", "far: the link was closed"),
        ("echo not JSON", "far: the link was closed"),
        ('printf \'{"type": "Ret\'', "far: the link was closed"),
    ],
)
def test_a_host_that_cannot_be_reached_is_reported_in_ssh_s_words(
    tmp_path: Path, text: str, reported: str
) -> None:
    words = refusal(tmp_path, text)
    assert words.startswith("far: ") and reported in words


def test_an_ssh_that_is_not_there_is_reported(tmp_path: Path) -> None:
    async def test() -> None:
        with pytest.raises(StartError, match=r"cannot run no-such-ssh: .*; --ssh names it"):
            await RemoteSite.connect("far", ("no-such-ssh",))

    asyncio.run(test())


def test_words_that_nobody_knows_are_passed_on() -> None:
    assert explain_ssh("something odd") == "something odd"


# -- asking ------------------------------------------------------------------------------------


def test_a_job_is_found_as_it_is_there(tmp_path: Path) -> None:
    # The name contains characters that JSON must quote.
    program = shutil.copy("/bin/sleep", tmp_path / 'my "sleep" é')
    with subprocess.Popen([program, "60"], stdin=subprocess.DEVNULL) as process:
        wait_until(lambda: os.readlink(f"/proc/{process.pid}/exe") == str(program), "it is up")

        async def test(site: RemoteSite) -> None:
            entries = [str(process.pid)]
            found = await site.find_pids(entries)
            assert found == await LocalSite(tmp_path).find_pids(entries)
            assert found.job.table.processes[0].executable == str(program)

        try:
            run(tmp_path, test)
        finally:
            process.kill()


def test_a_name_that_is_no_utf_8_is_no_reason_to_fail(tmp_path: Path) -> None:
    program = shutil.copy("/bin/sleep", tmp_path / "caf\udce9")
    with subprocess.Popen([program, "60"], stdin=subprocess.DEVNULL) as process:
        wait_until(lambda: os.readlink(f"/proc/{process.pid}/exe") == str(program), "it is up")

        async def test(site: RemoteSite) -> None:
            found = await site.find_pids([str(process.pid)])
            assert found.job.table.processes[0].pid == process.pid

        try:
            run(tmp_path, test)
        finally:
            process.kill()


def test_why_there_is_no_job_is_reported_with_the_host(tmp_path: Path) -> None:
    async def test(site: RemoteSite) -> None:
        for _ in range(2):
            with pytest.raises(DiscoveryError, match=r"^far: .*4194305"):
                await site.find_pids(["4194305"])
        with pytest.raises(DiscoveryError, match=r"^far: "):
            await site.find(str(os.getpid()))

    run(tmp_path, test)


def test_a_host_reports_which_gdb_it_has(tmp_path: Path) -> None:
    async def test(site: RemoteSite) -> None:
        assert await site.gdb_version("gdb") == check_gdb("gdb")
        assert await site.gdb_version("no-such-gdb") == ""

    run(tmp_path, test)


def test_hosts_are_asked_from_there_whether_they_answer(tmp_path: Path) -> None:
    async def test(site: RemoteSite) -> None:
        # TCP connects to no broadcast address; a name that ssh alone may know.
        hosts = (os.uname().nodename, "255.255.255.255", "no-such-host.invalid")
        assert await site.silent_hosts(hosts) == ("255.255.255.255",)

    run(tmp_path, test)


def test_questions_are_answered_each_by_its_number(tmp_path: Path) -> None:
    async def test(site: RemoteSite) -> None:
        asked = (site.find_pids([str(4194305 + number)]) for number in range(10))
        reported = await asyncio.gather(*asked, return_exceptions=True)
        for number, error in enumerate(reported):
            assert str(4194305 + number) in str(error)

    run(tmp_path, test)


def test_a_question_that_is_given_up_harms_no_later_one(tmp_path: Path) -> None:
    async def test(site: RemoteSite) -> None:
        given_up = asyncio.create_task(site.find_pids(["4194305"]))
        await asyncio.sleep(0)
        given_up.cancel()
        with pytest.raises(DiscoveryError, match="4194306"):
            await site.find_pids(["4194306"])

    run(tmp_path, test)


def test_an_error_of_the_agents_own_is_reported(tmp_path: Path) -> None:
    async def test(site: RemoteSite) -> None:
        with pytest.raises(PgdbError, match=r"^far: the agent cannot 'dance'"):
            await site._call("dance", None, str)
        with pytest.raises(PgdbError, match=r"^far: internal error"):
            await site._call("wait", 99, str)  # there is no such starter
        with pytest.raises(PgdbError, match=r"^far: internal error"):
            await site._call("find", {"no": "text"}, str)
        with pytest.raises(DiscoveryError, match="4194305"):
            await site.find_pids(["4194305"])

    run(tmp_path, test)


def test_the_launcher_for_the_aggregators_is_chosen_there(tmp_path: Path) -> None:
    mpirun = script(tmp_path / "mpirun", "echo 'mpirun (Open MPI) 4.1.4'")

    async def test(site: RemoteSite) -> None:
        located = await site.find_pids([str(os.getpid())])
        assert await site.choose_launcher(("/usr/bin/ssh", "-q"), located) is None
        chosen = await site.choose_launcher((str(mpirun), "-q"), located)
        assert chosen == Launcher(mpirun, Family.OPEN_MPI_4, "Open MPI 4.1.4")
        with pytest.raises(PgdbError, match=r"^far: .*no-such-launcher"):
            await site.choose_launcher(("no-such-launcher",), located)

    run(tmp_path, test)


# -- starting ----------------------------------------------------------------------------------


def start_of(launcher: Path, **more: Any) -> AggregatorStart:
    return AggregatorStart(
        launcher=Launcher(launcher, Family.OPEN_MPI_4, "Open MPI 4.1.4"),
        prints_addresses=True,
        **more,
    )


async def rendezvous() -> str:
    return "the rendezvous"


def test_what_aggregators_print_comes_in_order_and_then_their_status(tmp_path: Path) -> None:
    text = 'read it; echo "first $it"; echo second; echo oh >&2; exit 3'
    mpirun = script(tmp_path / "mpirun", text)
    lines: list[str] = []

    async def test(site: RemoteSite) -> None:
        starter = await site.start(start_of(mpirun), lines.append, rendezvous)
        assert starter.pid > 0
        assert await starter.wait() == 3
        assert "oh" in starter.last_words()
        while len(lines) < 2:  # the status may overtake them
            await asyncio.sleep(0)
        assert lines == ["first the rendezvous", "second"]

    run(tmp_path, test)


def test_lines_that_come_with_the_answer_are_not_lost(tmp_path: Path) -> None:
    # Answers and lines can arrive in one piece, before the caller resumes.
    answers = [
        f'{{"type": "Return", "number": 1, "value": "{release()}"}}',
        '{"type": "Return", "number": 2, "value": {"starter": 1, "pid": 7}}',
        '{"type": "Line", "starter": 1, "text": "first"}',
        '{"type": "Line", "starter": 1, "text": "second"}',
    ]
    text = f"""
        read line; echo '{answers[0]}'; read line; printf '%s\\n' '{"' '".join(answers[1:])}'
        exec cat > /dev/null"""
    lines: list[str] = []

    async def test(site: RemoteSite) -> None:
        await site.start(start_of(tmp_path / "mpirun"), lines.append, rendezvous)
        while len(lines) < 2:
            await asyncio.sleep(0)
        assert lines == ["first", "second"]

    run(tmp_path, test, text=text)


def test_two_starters_are_distinguished(tmp_path: Path) -> None:
    one = script(tmp_path / "one", "echo one; exit 1")
    two = script(tmp_path / "two", "echo two; exit 2")
    lines: dict[str, list[str]] = {"one": [], "two": []}

    async def test(site: RemoteSite) -> None:
        starters = [
            await site.start(
                start_of(path, log=f"{path.name}.log"), lines[path.name].append, rendezvous
            )
            for path in (one, two)
        ]
        assert [await each.wait() for each in starters] == [1, 2]
        while not all(lines.values()):
            await asyncio.sleep(0)
        assert lines == {"one": ["one"], "two": ["two"]}

    run(tmp_path, test)


def test_a_launcher_that_is_not_there_is_reported(tmp_path: Path) -> None:
    async def test(site: RemoteSite) -> None:
        with pytest.raises(PgdbError, match=r"^far: cannot start .*/none: No such file"):
            await site.start(start_of(tmp_path / "none"), print, rendezvous)

    run(tmp_path, test)


@pytest.mark.parametrize("how", ["end", "close"])
def test_what_was_started_ends_with_the_starter_or_the_site(tmp_path: Path, how: str) -> None:
    mpirun = script(tmp_path / "mpirun", "echo up; exec sleep 600")
    pids = []

    async def test(site: RemoteSite) -> None:
        up = asyncio.Event()
        starter = await site.start(start_of(mpirun), lambda line: up.set(), rendezvous)
        await up.wait()
        pids.append(starter.pid)
        assert is_alive(starter.pid)
        if how == "end":
            await starter.end()
            assert not is_alive(starter.pid)
            assert await starter.wait() == -signal.SIGTERM

    run(tmp_path, test)
    assert not is_alive(pids[0])


def test_an_agent_that_dies_is_reported_to_all_who_wait(tmp_path: Path) -> None:
    mpirun = script(tmp_path / "mpirun", "echo up; exec sleep 600")
    pids = []

    async def test(site: RemoteSite) -> None:
        up = asyncio.Event()
        starter = await site.start(start_of(mpirun), lambda line: up.set(), rendezvous)
        pids.append(starter.pid)
        await up.wait()
        waiting = asyncio.create_task(starter.wait())
        await asyncio.sleep(0)
        os.kill(agent_pid(tmp_path), signal.SIGKILL)
        assert await waiting == -1
        assert starter.last_words() == "far: the link was closed"
        with pytest.raises(StartError, match="far: the link was closed"):
            await site.jobs()
        assert await starter.wait() == -1
        await starter.end()

    try:
        run(tmp_path, test)
    finally:
        os.kill(pids[0], signal.SIGKILL)  # nobody is left on that host who could


def test_a_line_that_is_longer_than_any_answer_ends_the_site(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pgdb.frontend.startup.remote.MAX_LINE_BYTES", 10_000)
    answer = f'{{"type": "Return", "number": 1, "value": "{release()}"}}'
    text = f"""
        read line; echo '{answer}'; read line; head -c 30000 /dev/zero | tr '\\0' x
        exec cat > /dev/null"""

    async def test(site: RemoteSite) -> None:
        for _ in range(2):
            with pytest.raises(StartError, match=r"^far: "):
                await site.find_pids(["1"])

    run(tmp_path, test, text=text)


def test_an_ssh_that_waits_for_ever_is_ended_when_it_is_given_up(tmp_path: Path) -> None:
    noted = tmp_path / "pid"

    async def give_up() -> None:
        script = f'echo $$ > "{noted}.new"; mv "{noted}.new" "{noted}"; exec sleep 1000'
        connecting = asyncio.create_task(RemoteSite.connect("nowhere", ("sh", "-c", script)))
        while not noted.exists():
            await asyncio.sleep(0.01)
        connecting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await connecting

    asyncio.run(give_up())
    wait_until(lambda: not is_alive(int(noted.read_text())), "it has ended")
