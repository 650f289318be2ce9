"""Shipments of PGDB that a side refuses, or that fail on the way."""

from __future__ import annotations

import asyncio
import json
import os
import socket
import ssl
import subprocess
import sys
import tarfile
from collections.abc import Callable
from pathlib import Path

import pytest

from pgdb.errors import StartError
from pgdb.frontend.startup import shipping
from pgdb.frontend.startup.shipped_archive import Archive, Tags
from pgdb.frontend.startup.shipping import Shipper
from pgdb.overlay import archive_bootstrap
from pgdb.overlay.credentials import make_credentials, tls_context
from tests.fakes.archives import packed
from tests.support.shipments import CREDENTIALS, DEADLINE_S, Remote, shipped

pytestmark = pytest.mark.usefixtures("own_cache")


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
        reported = json.loads(shipper.describe_environment())
        reported["credentials"] = make_credentials().decode()
        command = shipping.remote_command(str(remote.python))
        return await remote.start(command, json.dumps(reported))

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
    reported = {"digest": "0" * 64, "size": len(small.data)}
    assert "digest mismatch" in refused(remote, reported, small.data)


def test_an_archive_cut_off_is_refused(remote: Remote, small: Archive) -> None:
    reported = {"digest": small.digest, "size": len(small.data)}
    line = refused(remote, reported, small.data[:100])
    assert f"cut off after 100 of {len(small.data)} bytes" in line


@pytest.mark.parametrize("digest", ["../../../../tmp/other", "/tmp", "A" * 64, ""])
def test_a_digest_is_no_path(remote: Remote, digest: str) -> None:
    assert "a digest that is none" in refused(remote, {"digest": digest, "size": 1}, b"x")


def test_an_archive_that_leaves_its_place_is_refused(remote: Remote, tmp_path: Path) -> None:
    if not hasattr(tarfile, "data_filter"):
        pytest.skip("this Python has no filters for tar files (3.11.4 has)")
    evil = packed({"../../evil": b""}, tmp_path)
    reported = {"digest": evil.digest, "size": len(evil.data)}
    assert "outside the destination" in refused(remote, reported, evil.data)


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
