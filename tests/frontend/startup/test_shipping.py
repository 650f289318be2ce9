"""PGDB shipped to hosts that have none: the archive, its transfer, and the cache on the host.

The other host is an interpreter without site-packages, with a home of its own.
"""

from __future__ import annotations

import asyncio
import json
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest

from pgdb.errors import StartError
from pgdb.frontend.startup import shipping
from pgdb.frontend.startup.shipped_archive import Archive
from pgdb.frontend.startup.shipping import Shipper
from pgdb.overlay import archive_bootstrap
from tests.support.shipments import Remote, shipped

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("own_cache")]


# -- the whole way -----------------------------------------------------------------------------


def test_bootstrap_becomes_the_aggregator(remote: Remote, small: Archive) -> None:
    remote.environment["PYTHONPATH"] = "/the/users"
    status, out, err = shipped(lambda shipper: remote.bootstrap(shipper, b"for the aggregator"))
    assert status == 0, err
    reported = json.loads(out)
    entry = remote.cache / small.digest
    assert reported["PYTHONPATH"] == str(entry)
    assert reported["file"] == str(entry / "pgdb" / "backend" / "__main__.py")
    assert reported["PGDB_SHIP"] is None, "the credentials stay in the environment"
    assert reported["PGDB_USER_PYTHONPATH"] == "/the/users"
    assert reported["input"] == "for the aggregator", "the bootstrap has read what is not its own"
    assert stat.S_IMODE(remote.cache.stat().st_mode) == 0o700


def test_all_of_the_aggregator_can_be_imported_there(remote: Remote) -> None:
    """The remote Python has the real archive alone, which all of DISTRIBUTIONS is in."""
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


# -- by ssh ------------------------------------------------------------------------------------


def fake_ssh(remote: Remote, greeting: str = "") -> tuple[str, ...]:
    """Return the start of a line that runs a command on *remote* as ssh does: by a shell."""
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
