"""Hosts that hold core files: their names, and who reads a file that several of them see."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from pgdb.cores.search import ListedCore
from pgdb.errors import StartError, UsageError
from pgdb.frontend.startup.core_hosts import are_here, divide, read_hosts, whole_names
from pgdb.frontend.startup.job_launchers import launcher_for_hosts
from pgdb.overlay import addresses


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "--hosts: name hosts"),
        ("h1,-oProxyCommand=x", "'-oProxyCommand=x'"),
        ("h[1-", "h[1-"),
        ("h1,,h2", "h1,,h2"),
        ("h1 h2", "'h1 h2'"),
    ],
)
def test_what_is_no_list_of_hosts_is_refused(text: str, words: str) -> None:
    with pytest.raises(UsageError) as caught:
        read_hosts(text)
    assert words in str(caught.value)


def test_a_host_counts_once() -> None:
    assert read_hosts("h2,h[1-3],h1") == ("h2", "h1", "h3")


def test_this_host_needs_no_way_to_it() -> None:
    assert are_here([addresses.own_names()[0], "localhost"])
    assert not are_here(["localhost", "no-such-host.invalid"])


def test_names_are_those_of_the_present_directory_or_of_a_home_there() -> None:
    names = whole_names(["core.*", "/var/core", "~/core", "../x"])
    here = os.getcwd()
    above = os.path.join(os.path.dirname(here), "x")
    assert names == (f"{here}/core.*", "/var/core", "~/core", above)


def core_at(path: str, digest: bytes = b"") -> ListedCore:
    return ListedCore(path=path, size_bytes=1, mtime_ns=0, digest=digest)


def test_each_file_is_read_once_and_own_files_by_their_host() -> None:
    shared = [core_at(f"/scratch/core.{number}") for number in range(6)]
    own = {host: [core_at("/tmp/core", host.encode())] for host in ("h1", "h2", "h3")}
    divided = divide({host: [*shared, *own[host]] for host in own})
    assert all("/tmp/core" in paths for paths in divided.values())
    read = [path for paths in divided.values() for path in paths if path != "/tmp/core"]
    assert sorted(read) == [each.path for each in shared]
    assert {len(paths) for paths in divided.values()} == {3}


def test_an_allocation_of_slurm_has_its_own_way_to_its_hosts(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    assert launcher_for_hosts(("/usr/bin/ssh", "-q"), {"SLURM_JOB_ID": "7"}) is None
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(StartError, match="--overlay-launcher names a launcher"):
        launcher_for_hosts((), {})
    found: list[str] = []
    monkeypatch.setattr("shutil.which", lambda name: f"/usr/bin/{name}")
    monkeypatch.setattr(
        "pgdb.frontend.startup.job_launchers.find_launcher", lambda word: found.append(word)
    )
    launcher_for_hosts((), {"SLURM_JOB_ID": "7"})
    assert found == ["srun"]
    assert launcher_for_hosts((), {}) is None
