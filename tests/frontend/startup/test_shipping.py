"""PGDB shipped to hosts that have none: the archive, its transfer, and the cache on the host.

The other host is an interpreter without site-packages, with a home of its own.
"""

from __future__ import annotations

import asyncio
import json
import os
import socket
import ssl
import stat
import subprocess
import sys
import tarfile
import venv
from collections.abc import Callable, Coroutine, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec
import pytest

from pgdb.errors import StartError
from pgdb.frontend.startup import shipping
from pgdb.frontend.startup.shipped_archive import Archive, Tags
from pgdb.frontend.startup.shipping import Shipper
from pgdb.overlay import archive_bootstrap
from pgdb.overlay.credentials import make_credentials, tls_context
from tests.fakes.archives import HERE, packed

DEADLINE_S = 60.0
CREDENTIALS = make_credentials()

# A stand-in for PGDB for tests of the transfer.
SMALL = {
    "pgdb/__init__.py": b"",
    "pgdb/backend/__init__.py": b"",
    "pgdb/backend/__main__.py": b"""\
import json, os, sys
names = ("PYTHONPATH", "PGDB_SHIP", "PGDB_USER_PYTHONPATH")
told = {name: os.environ.get(name) for name in names}
told["input"] = sys.stdin.read()
print(json.dumps(told | {"file": __file__}))
""",
}


@dataclass
class Remote:
    """A host without PGDB."""

    home: Path
    python: Path
    environment: dict[str, str] = field(default_factory=dict)

    @property
    def cache(self) -> Path:
        return self.home / ".cache" / "pgdb"

    @property
    def entries(self) -> list[Path]:
        return [path for path in self.cache.iterdir() if len(path.name) == 64]

    def start(
        self, command: Sequence[str], ship: str | None, text: bytes = b""
    ) -> Coroutine[Any, Any, tuple[int, str, str]]:
        """Return a function that runs a command there: it returns status, output and errors."""
        variables = {"PATH": os.environ["PATH"], "HOME": str(self.home), **self.environment}
        if ship is not None:
            variables["PGDB_SHIP"] = ship
        return _run(command, variables, text)

    def bootstrap(
        self, shipper: Shipper, text: bytes = b""
    ) -> Coroutine[Any, Any, tuple[int, str, str]]:
        command = shipping.remote_command(str(self.python))
        return self.start(command, shipper.describe_environment(), text)

    def python_says(self, program: str, path: str) -> str:
        """Return the output of a program with *path* as its only path."""
        return subprocess.run(
            [self.python, "-P", "-c", program],
            env={"PATH": os.environ["PATH"], "HOME": str(self.home), "PYTHONPATH": path},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            text=True,
            timeout=DEADLINE_S,
            check=True,
        ).stdout.strip()


async def _run(
    command: Sequence[str], environment: Mapping[str, str], text: bytes
) -> tuple[int, str, str]:
    pipe = asyncio.subprocess.PIPE
    process = await asyncio.create_subprocess_exec(
        *command, env=dict(environment), stdin=pipe, stdout=pipe, stderr=pipe
    )
    async with asyncio.timeout(DEADLINE_S):
        out, err = await process.communicate(text)
    return process.returncode or 0, out.decode(), err.decode()


@pytest.fixture(scope="module")
def bare_python(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("bare")
    venv.create(directory, symlinks=True, with_pip=False)
    return directory / "bin" / "python"


@pytest.fixture
def remote(tmp_path: Path, bare_python: Path) -> Remote:
    (tmp_path / "remote").mkdir()
    return Remote(tmp_path / "remote", bare_python)


@pytest.fixture(autouse=True, scope="module")
def _own_cache(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """A cache of the front end's own, kept from test to test since packing takes a second."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.mktemp("cache")))
        yield


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Archive:
    """Replace the archive of PGDB by a small one."""
    archive = packed(SMALL, tmp_path)

    async def archive_for(tags: Tags) -> Archive:
        assert tags == HERE
        return archive

    monkeypatch.setattr(shipping, "archive_for", archive_for)
    return archive


def shipped(act: Callable[[Shipper], Coroutine[Any, Any, Any]]) -> Any:
    """Run *act* with a shipper."""

    async def run() -> Any:
        shipper = Shipper()
        await shipper.start("127.0.0.1", CREDENTIALS)
        try:
            return await act(shipper)
        finally:
            await shipper.close()

    return asyncio.run(run())


# -- the whole way -----------------------------------------------------------------------------


def test_bootstrap_becomes_the_aggregator(remote: Remote, small: Archive) -> None:
    remote.environment["PYTHONPATH"] = "/the/users"
    status, out, err = shipped(lambda shipper: remote.bootstrap(shipper, b"for the aggregator"))
    assert status == 0, err
    told = json.loads(out)
    entry = remote.cache / small.digest
    assert told["PYTHONPATH"] == str(entry)
    assert told["file"] == str(entry / "pgdb" / "backend" / "__main__.py")
    assert told["PGDB_SHIP"] is None, "the credentials stay in the environment"
    assert told["PGDB_USER_PYTHONPATH"] == "/the/users"
    assert told["input"] == "for the aggregator", "the bootstrap has read what is not its own"
    assert stat.S_IMODE(remote.cache.stat().st_mode) == 0o700


def test_all_of_the_aggregator_can_be_imported_there(remote: Remote) -> None:
    """With the real archive, and nothing else: anything that DISTRIBUTIONS lacks would be missing
    here."""
    ssh = fake_ssh(remote)
    path = asyncio.run(shipping.ship_by_ssh("h1", ssh, str(remote.python)))
    assert Path(path) in remote.entries
    program = (
        "import importlib, pkgutil, pgdb.backend, pgdb.jobs, pgdb.overlay, mpi4py\n"
        "for package in pgdb.backend, pgdb.jobs, pgdb.overlay:\n"
        "    for each in pkgutil.walk_packages(package.__path__, package.__name__ + '.'):\n"
        "        each.name.endswith('_in_gdb') or importlib.import_module(each.name)\n"
        "import pgdb.frontend.startup.doctor\n"
        "print(pgdb.backend.node.daemon.__file__, mpi4py.__file__)"
    )
    files = remote.python_says(program, path).split()
    assert files == [f"{path}/pgdb/backend/node/daemon.py", f"{path}/mpi4py/__init__.py"]


def test_what_is_there_is_not_sent_again(remote: Remote, small: Archive) -> None:
    async def twice(shipper: Shipper) -> list[tuple[int, str, str]]:
        return [await remote.bootstrap(shipper), await remote.bootstrap(shipper)]

    before, after = shipped(twice)
    assert (before[0], after[0]) == (0, 0)
    entry = remote.cache / small.digest
    made = (entry / "pgdb" / "__init__.py").stat().st_ino

    class CannotSend(bytes):
        def __getitem__(self, at: Any) -> Any:
            raise AssertionError("it is sent again")

    msgspec.structs.force_setattr(small, "data", CannotSend(small.data))
    assert shipped(remote.bootstrap)[0] == 0
    assert (entry / "pgdb" / "__init__.py").stat().st_ino == made


def test_several_at_once(remote: Remote, small: Archive) -> None:
    async def at_once(shipper: Shipper) -> list[tuple[int, str, str]]:
        return await asyncio.gather(*(remote.bootstrap(shipper) for _ in range(6)))

    ended = shipped(at_once)
    assert [status for status, _, _ in ended] == [0] * 6, [err for _, _, err in ended]
    assert remote.entries == [remote.cache / small.digest]
    assert not list(remote.cache.glob(".new-*"))


def test_an_entry_that_lacks_files_is_replaced(remote: Remote, small: Archive) -> None:
    assert shipped(remote.bootstrap)[0] == 0
    (remote.cache / small.digest / "pgdb" / "backend" / "__main__.py").unlink()
    status, out, err = shipped(remote.bootstrap)
    assert (status, bool(out)) == (0, True), err
    assert remote.entries == [remote.cache / small.digest]


def test_old_entries_go_but_those_in_use_stay(remote: Remote, tmp_path: Path) -> None:
    cache = remote.cache
    cache.mkdir(mode=0o700, parents=True)
    entries = []
    for number in range(archive_bootstrap.KEPT_COUNT + 3):
        entry = cache / f"{number:064x}"
        entry.mkdir()
        (entry / archive_bootstrap.MANIFEST).write_text("{}")
        os.utime(entry, (1000 + number, 1000 + number))
        entries.append(entry)
    held = archive_bootstrap.hold(str(entries[0]))
    assert held is not None
    os.utime(entries[0], (1, 1))
    broken = cache / ".new-abc"
    broken.mkdir()
    os.utime(broken, (1, 1))
    try:
        archive_bootstrap._remove_old(str(cache))
    finally:
        os.close(held)
    left = sorted(path.name for path in cache.iterdir())
    assert left == [path.name for path in (entries[0], *entries[-archive_bootstrap.KEPT_COUNT :])]


def test_what_others_have_just_removed_is_no_failure(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    gone, kept = tmp_path / ".new-gone", tmp_path / ".new-old"
    for path in (gone, kept):
        path.mkdir()
        os.utime(path, (1, 1))
    listed = os.scandir

    @contextmanager
    def scandir_and_lose(path: str) -> Iterator[list[os.DirEntry[str]]]:
        with listed(path) as found:
            entries = list(found)
        gone.rmdir()
        yield entries

    monkeypatch.setattr(archive_bootstrap.os, "scandir", scandir_and_lose)
    archive_bootstrap._remove_old(str(tmp_path))
    monkeypatch.undo()
    assert list(tmp_path.iterdir()) == []


# -- who gets nothing --------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["another session", "no certificate", "no TLS"])
def test_strangers_get_nothing(monkeypatch: pytest.MonkeyPatch, kind: str) -> None:
    asked = []

    async def archive_for(tags: Tags) -> Archive:
        asked.append(tags)
        raise AssertionError

    monkeypatch.setattr(shipping, "archive_for", archive_for)
    hello = json.dumps(archive_bootstrap.identity()).encode() + b"\n"

    context: ssl.SSLContext | None = None
    if kind == "another session":
        context = tls_context(make_credentials(), server=False)
    elif kind == "no certificate":
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname = False
    if context is not None:
        context.verify_mode = ssl.CERT_NONE  # the other way round than what is tested

    def stranger(address: str) -> bytes:
        host, _, port = address.rpartition(":")
        link = socket.create_connection((host, int(port)), DEADLINE_S)
        try:
            with context.wrap_socket(link) if context is not None else link as speaking:
                speaking.sendall(hello)
                return speaking.recv(1000)
        except OSError:
            return b""

    assert shipped(lambda shipper: asyncio.to_thread(stranger, shipper.address)) == b""
    assert asked == []


def test_bootstrap_of_another_session_says_so(remote: Remote, small: Archive) -> None:
    async def act(shipper: Shipper) -> tuple[int, str, str]:
        told = json.loads(shipper.describe_environment())
        told["credentials"] = make_credentials().decode()
        command = shipping.remote_command(str(remote.python))
        return await remote.start(command, json.dumps(told))

    status, out, err = shipped(act)
    assert (status, out) == (1, "")
    (line,) = err.splitlines()
    assert "gets no PGDB from the front end at 127.0.0.1:" in line
    assert "certificate verify failed" in line
    assert not remote.cache.exists()


# -- what goes wrong on the way ----------------------------------------------------------------


def refused(remote: Remote, answer: object, data: bytes) -> str:
    """Return the error of a bootstrap that receives the line *answer* and then *data*."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readline()
        writer.write(json.dumps(answer).encode() + b"\n")
        await reader.readline()
        writer.write(data)
        writer.close()

    async def run() -> tuple[int, str, str]:
        context = tls_context(CREDENTIALS, server=True)
        server = await asyncio.start_server(serve, "127.0.0.1", 0, ssl=context)
        address = f"127.0.0.1:{server.sockets[0].getsockname()[1]}"
        ship = json.dumps({"address": address, "credentials": CREDENTIALS.decode()})
        try:
            return await remote.start(shipping.remote_command(str(remote.python)), ship)
        finally:
            server.close()

    status, out, err = asyncio.run(run())
    assert (status, out) == (1, ""), err
    (line,) = err.splitlines()
    assert not remote.cache.exists() or not [*remote.entries, *remote.cache.glob(".new-*")]
    return line


def test_another_content_than_announced_is_refused(remote: Remote, small: Archive) -> None:
    told = {"digest": "0" * 64, "size": len(small.data)}
    assert "digest mismatch" in refused(remote, told, small.data)


def test_an_archive_cut_off_is_refused(remote: Remote, small: Archive) -> None:
    told = {"digest": small.digest, "size": len(small.data)}
    line = refused(remote, told, small.data[:100])
    assert f"cut off after 100 of {len(small.data)} bytes" in line


@pytest.mark.parametrize("digest", ["../../../../tmp/other", "/tmp", "A" * 64, ""])
def test_a_digest_is_no_path(remote: Remote, digest: str) -> None:
    assert "a digest that is none" in refused(remote, {"digest": digest, "size": 1}, b"x")


def test_an_archive_that_leaves_its_place_is_refused(remote: Remote, tmp_path: Path) -> None:
    if not hasattr(tarfile, "data_filter"):
        pytest.skip("this Python has no filters for tar files (3.11.4 has)")
    evil = packed({"../../evil": b""}, tmp_path)
    told = {"digest": evil.digest, "size": len(evil.data)}
    assert "outside the destination" in refused(remote, told, evil.data)


def test_the_front_ends_trouble_is_reported(
    remote: Remote, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def archive_for(tags: Tags) -> Archive:
        raise StartError("pip cannot fetch mpi4py: no network")

    monkeypatch.setattr(shipping, "archive_for", archive_for)

    async def act(shipper: Shipper) -> tuple[str, str]:
        _, _, err = await remote.bootstrap(shipper)
        return err, shipper.problem

    err, problem = shipped(act)
    assert "pip cannot fetch mpi4py: no network" in err
    assert problem == "pip cannot fetch mpi4py: no network"


def test_a_front_end_that_is_gone(remote: Remote) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        address = f"127.0.0.1:{server.getsockname()[1]}"
    ship = json.dumps({"address": address, "credentials": CREDENTIALS.decode()})
    command = shipping.remote_command(str(remote.python))
    status, _, err = asyncio.run(remote.start(command, ship))
    assert status == 1
    assert f"the front end at {address}: [Errno 111] Connection refused" in err


def test_a_launcher_that_does_not_pass_the_variable_on(remote: Remote) -> None:
    command = shipping.remote_command(str(remote.python))
    status, _, err = asyncio.run(remote.start(command, None, b"the credentials"))
    assert status == 1
    assert "its launcher did not pass PGDB_SHIP on to it" in err


def test_an_old_python_says_what_it_is() -> None:
    *_, line = shipping.remote_command()
    program = f"import sys; sys.version_info = (3, 6, 8, 'final', 0); exec({line!r})"
    ended = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=False, timeout=60
    )
    assert ended.returncode == 1
    assert f"{sys.executable} is Python 3.6, and PGDB needs 3.11" in ended.stderr
    assert "--remote-python" in ended.stderr


def test_the_line_needs_no_quoting_but_one_pair() -> None:
    """The line passes launchers' scripts and ssh: csh expands ``!`` even inside quotes."""
    *_, line = shipping.remote_command()
    assert not set("\n!'`$\\") & set(line)
    assert len(line) < 16000, "launchers have limits"


# -- the place of the cache --------------------------------------------------------------------


def link_the_cache(cache: Path, elsewhere: Path, archive: Archive) -> None:
    elsewhere.mkdir(mode=0o700)
    cache.symlink_to(elsewhere)


def open_the_cache(cache: Path, elsewhere: Path, archive: Archive) -> None:
    cache.mkdir()
    cache.chmod(0o777)


def link_the_entry(cache: Path, elsewhere: Path, archive: Archive) -> None:
    cache.mkdir(mode=0o700)
    elsewhere.mkdir(mode=0o700)
    (elsewhere / archive_bootstrap.MANIFEST).write_text("{}")
    (cache / archive.digest).symlink_to(elsewhere)


@pytest.mark.parametrize("spoil", [link_the_cache, open_the_cache, link_the_entry])
def test_unsafe_places_are_refused(
    remote: Remote, small: Archive, tmp_path: Path, spoil: Callable[[Path, Path, Archive], None]
) -> None:
    remote.cache.parent.mkdir()
    spoil(remote.cache, tmp_path / "elsewhere", small)

    async def act(shipper: Shipper) -> tuple[tuple[int, str, str], str]:
        return await remote.bootstrap(shipper), shipper.problem

    (status, out, err), problem = shipped(act)
    assert (status, out) == (1, "")
    assert "a host stopped the transfer of PGDB" in problem
    assert "is a link" in err and "remove it" in err
    assert not (tmp_path / "elsewhere" / "pgdb").exists()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a directory away")
def test_another_users_cache_is_refused(remote: Remote, small: Archive) -> None:
    remote.cache.mkdir(mode=0o700, parents=True)
    os.chown(remote.cache, 65534, 65534)
    status, _, err = shipped(remote.bootstrap)
    assert status == 1
    assert "another user's" in err


def test_a_cache_that_others_could_replace_is_done_without(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "shared"))
    (tmp_path / "shared").mkdir()
    (tmp_path / "shared").chmod(0o777)
    assert archive_bootstrap.cache_directory() == f"/tmp/pgdb-cache-{os.geteuid()}"
    (tmp_path / "shared").chmod(0o755)
    assert archive_bootstrap.cache_directory() == str(tmp_path / "shared" / "pgdb")


def test_a_home_that_is_none_is_done_without(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    assert archive_bootstrap.cache_directory() == f"/tmp/pgdb-cache-{os.geteuid()}"


# -- by ssh ------------------------------------------------------------------------------------


def fake_ssh(remote: Remote, greeting: str = "") -> tuple[str, ...]:
    """Return a function that runs a command as ssh does, by the login shell, on *remote*."""
    script = f'{greeting} HOME={remote.home}; export HOME; unset XDG_CACHE_HOME; exec sh -c "$2"'
    return ("/bin/sh", "-c", script, "ssh")


def test_ship_by_ssh(remote: Remote, small: Archive) -> None:
    ssh = fake_ssh(remote, greeting="echo Welcome to h1; printf 'no newline';")
    path = asyncio.run(shipping.ship_by_ssh("h1", ssh, str(remote.python)))
    assert path == str(remote.cache / small.digest)
    program = "import pgdb.backend as b; print(b.__file__)"
    assert remote.python_says(program, path) == f"{path}/pgdb/backend/__init__.py"
    assert asyncio.run(shipping.ship_by_ssh("h1", ssh, str(remote.python))) == path


@pytest.mark.parametrize(
    ("ssh", "python", "complaint"),
    [
        (
            ("/bin/sh", "-c", "echo 'ssh: no route to h1' >&2; exit 255"),
            "python3",
            "no route to h1",
        ),
        (("/bin/sh", "-c", 'exec sh -c "$2"', "ssh"), "/no/python3", "not found"),
        (("/bin/sh", "-c", "echo '{}'; cat >&2"), "python3", "did not describe itself"),
        (("/bin/sh", "-c", "exit 0"), "python3", "closed the connection"),
        (("/no/ssh",), "python3", "cannot run /no/ssh"),
    ],
)
def test_ship_by_ssh_that_fails(
    ssh: tuple[str, ...], python: str, complaint: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shipping, "MAX_GREETING_LINES", 1)
    with pytest.raises(StartError, match=complaint) as caught:
        asyncio.run(shipping.ship_by_ssh("h1", ssh, python))
    assert "\n" not in str(caught.value)


def test_ship_by_ssh_ends_in_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shipping, "LAST_WORDS_S", 0.1)
    ssh = ("/bin/sh", "-c", "exec sleep 600")
    with pytest.raises(StartError, match=r"no end within 0\.5 s"):
        asyncio.run(shipping.ship_by_ssh("h1", ssh, timeout_s=0.5))
