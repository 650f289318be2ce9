"""An aggregator's process before its first link: its listening address, and GDB's environment."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest

from pgdb.backend.node.daemon import RANK_MACHINE, append_illegal_events, clean_environment
from pgdb.backend.node.serving import host_for_links
from pgdb.backend.rank.events import HasStopped
from pgdb.backend.rank.machine import RankMachine
from pgdb.overlay import addresses
from pgdb.overlay.rendezvous import Rendezvous


def rendezvous(front_end: str = "", hosts: tuple[str, ...] = ()) -> Rendezvous:
    return Rendezvous(
        credentials="", front_end=front_end, fan_out=32, count=1, grace_s=1.0, hosts=hosts
    )


def test_it_listens_on_loopback_where_all_is_on_one_host(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SLURM_PROCID", raising=False)
    assert host_for_links(rendezvous()) == "127.0.0.1"
    assert host_for_links(rendezvous("127.0.0.1:4711")) == "127.0.0.1"


def test_it_listens_where_other_hosts_reach_it_and_nowhere_else(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(addresses, "address_towards", lambda hosts: f"towards {[*hosts]}")
    assert host_for_links(rendezvous(hosts=("node1",))) == "towards ['node1']"
    monkeypatch.setattr(addresses, "source_address", lambda target: f"from {target}")
    assert host_for_links(rendezvous("10.0.0.1:5")) == "from ('10.0.0.1', 5)"
    # srun may have placed it on another host, though none was named.
    monkeypatch.setenv("SLURM_PROCID", "0")
    assert host_for_links(rendezvous()) == "towards []"


def test_what_gdb_gets_has_neither_the_key_nor_the_working_directory() -> None:
    environment = {
        "PGDB_RENDEZVOUS_TEXT": "the key",
        "PGDB_USER_PYTHONPATH": "/a::.:b:/c:",
        "PGDB_USER_LD_LIBRARY_PATH": ":/lib:$ORIGIN/lib",
        "OTHER": ":",
    }
    clean_environment(environment)
    assert environment == {
        "PGDB_USER_PYTHONPATH": "/a:/c",
        "PGDB_USER_LD_LIBRARY_PATH": "/lib:$ORIGIN/lib",
        "OTHER": ":",
    }


def test_an_illegal_event_of_a_rank_is_appended_to_the_file(tmp_path: Path) -> None:
    path = tmp_path / "events"
    handler = append_illegal_events(str(path))
    try:
        assert not path.exists()
        RankMachine(7).on(HasStopped())
        assert path.read_text().startswith("rank 7: HasStopped(")
    finally:
        logging.getLogger(RANK_MACHINE).removeHandler(handler)
        handler.close()


def test_the_users_search_path_comes_before_that_of_the_launcher() -> None:
    environment = {
        "PGDB_USER_PATH": "/opt/gdb/bin:/usr/bin:",
        "PATH": "/usr/bin:/opt/gdb/bin:/sbin",
    }
    clean_environment(environment)
    assert environment == {"PATH": "/opt/gdb/bin:/usr/bin:/sbin"}
    clean_environment(environment)
    assert environment == {"PATH": "/opt/gdb/bin:/usr/bin:/sbin"}
