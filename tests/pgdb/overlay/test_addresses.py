"""This host's names and addresses, and the ones given to other hosts."""

from __future__ import annotations

import os
import socket
import subprocess

import pytest

from pgdb.errors import UsageError
from pgdb.overlay import addresses
from pgdb.overlay.addresses import (
    address_towards,
    check_own,
    own_addresses,
    own_names,
    resolve,
    source_address,
)


def test_own_addresses_can_all_be_listened_on_and_loopback_is_last() -> None:
    found = own_addresses()
    assert found and len(set(found)) == len(found)
    for address in found:
        socket.create_server((address, 0)).close()
    loopback = [address.startswith("127.") for address in found]
    assert loopback == sorted(loopback)
    assert "127.0.0.1" in found


def test_an_interface_without_an_address_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    names = [*socket.if_nameindex(), (9999, "no-such-card")]
    expected = own_addresses()
    monkeypatch.setattr(socket, "if_nameindex", lambda: names)
    assert own_addresses() == expected


def nodename(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    real = os.uname()
    monkeypatch.setattr(os, "uname", lambda: os.uname_result((real[0], name, *real[2:])))


def test_own_names_are_long_and_short_and_slurms_then_addresses(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    nodename(monkeypatch, "node7.cluster.example")
    monkeypatch.setenv("SLURMD_NODENAME", "n7")
    monkeypatch.setattr(addresses, "own_addresses", lambda: ("10.0.0.7", "10.1.0.7", "127.0.0.1"))
    names = ("node7.cluster.example", "node7", "n7", "10.0.0.7", "10.1.0.7")
    assert own_names() == names, "loopback names every host"


def test_each_name_is_reported_once_and_none_is_empty(monkeypatch: pytest.MonkeyPatch) -> None:
    nodename(monkeypatch, "node7")
    monkeypatch.delenv("SLURMD_NODENAME", raising=False)
    monkeypatch.setattr(addresses, "own_addresses", lambda: ("127.0.0.1",))
    assert own_names() == ("node7",)
    monkeypatch.setenv("SLURMD_NODENAME", "node7")
    assert own_names() == ("node7",)


# -- towards others ----------------------------------------------------------------------------


class Routes:
    """Stand-in for name service and routes."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.names: dict[str, str] = {}
        self.ways: dict[str, str] = {}
        """Target address -> the source address."""
        monkeypatch.setattr(addresses, "resolve", lambda host: self.names.get(host))
        monkeypatch.setattr(addresses, "source_address", lambda to: self.ways.get(to[0]))
        monkeypatch.setattr(addresses, "own_addresses", lambda: ("10.0.0.9", "127.0.0.1"))


@pytest.fixture
def routes(monkeypatch: pytest.MonkeyPatch) -> Routes:
    return Routes(monkeypatch)


FAR_AWAY = "192.0.2.1"


def test_the_first_host_that_has_a_name_here_decides(routes: Routes) -> None:
    routes.names = {"b": "10.2.0.1", "c": "10.3.0.1"}
    routes.ways = {"10.2.0.1": "10.2.0.9", "10.3.0.1": "10.3.0.9", FAR_AWAY: "10.4.0.9"}
    assert address_towards(["a", "b", "c"]) == "10.2.0.9"
    assert address_towards(iter(["c", "b"])) == "10.3.0.9"


def test_a_host_that_is_loopback_here_says_nothing(routes: Routes) -> None:
    # Debian's /etc/hosts has 127.0.1.1 for the host's own name.
    routes.names = {"self": "127.0.1.1", "b": "10.2.0.1"}
    routes.ways = {"127.0.1.1": "127.0.0.1", "10.2.0.1": "10.2.0.9"}
    assert address_towards(["self", "b"]) == "10.2.0.9"


def test_without_a_name_the_way_to_the_world_decides(routes: Routes) -> None:
    routes.ways = {FAR_AWAY: "10.4.0.9"}
    assert address_towards(["a"]) == "10.4.0.9"
    assert address_towards([]) == "10.4.0.9"
    routes.names = {"b": "10.2.0.1"}  # without a route to it
    assert address_towards(["b"]) == "10.4.0.9"


def test_without_any_route_there_is_still_an_address(
    routes: Routes, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert address_towards(["a"]) == "10.0.0.9"
    monkeypatch.setattr(addresses, "own_addresses", lambda: ())
    assert address_towards(["a"]) == "127.0.0.1"


def test_the_kernel_names_the_source_address() -> None:
    assert source_address(("127.0.0.1", 9)) == "127.0.0.1"
    assert source_address(("127.3.2.1", 9)) is not None
    assert source_address(("255.255.255.255", 9)) is None  # broadcast is refused


def test_names_are_resolved_or_not() -> None:
    assert resolve("127.0.0.1") == "127.0.0.1"
    assert resolve("no-such-host.invalid") is None
    assert resolve("a" * 70) is None


# -- --listen ----------------------------------------------------------------------------------


def test_an_address_or_a_name_of_this_host_may_be_listened_on() -> None:
    for address in own_addresses():
        assert check_own(address) == address
    assert check_own("localhost") == "127.0.0.1"


@pytest.mark.parametrize(
    ("address", "why"),
    [
        ("192.0.2.1", "Cannot assign requested address"),
        ("no-such-host.invalid", "no such address"),
        ("::1", "no such address"),
        ("10.0.0.1:4711", "no such address"),
        ("0.0.0.0", "stands for all addresses, of which hosts need one"),
    ],
)
def test_other_addresses_are_refused_and_the_own_ones_named(address: str, why: str) -> None:
    with pytest.raises(UsageError, match=f"^--listen {address}: {why}; this host has ") as caught:
        check_own(address)
    assert all(own in str(caught.value) for own in own_addresses())


# -- who is at the other end -----------------------------------------------------------------------


def connected() -> tuple[socket.socket, socket.socket]:
    with socket.create_server(("127.0.0.1", 0)) as server:
        near = socket.create_connection(server.getsockname())
        far, _ = server.accept()
        return near, far


def test_the_user_of_a_connection_is_known_while_it_is_open() -> None:
    near, far = connected()
    with far:
        with near:
            peer, own = far.getpeername(), far.getsockname()
            assert addresses.user_of_peer(peer, own) == os.geteuid()
            assert addresses.user_of_peer((peer[0], peer[1] ^ 1), own) is None
        # The kernel would report root, and anybody could bring that about.
        assert addresses.user_of_peer(peer, own) is None


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can be somebody else")
def test_another_user_is_distinguished_from_us() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        host, port = server.getsockname()
        code = f"import socket; s = socket.create_connection(({host!r}, {port})); s.recv(1)"
        theirs = subprocess.Popen(["python3", "-I", "-S", "-c", code], user=65534, cwd="/")
        try:
            server.settimeout(60)
            far, peer = server.accept()
            with far:
                assert addresses.user_of_peer(peer, far.getsockname()) == 65534
        finally:
            theirs.kill()
            theirs.wait()


@pytest.mark.parametrize(
    "name", ["", "-x", "a b", "a;b", "a,b", "a/b", "$(x)", "a\n", "a\nb", ".a", "`x`", "é", "a'b"]
)
def test_what_a_launcher_could_take_for_more_is_no_name_of_a_host(name: str) -> None:
    assert not addresses.is_host_name(name)


@pytest.mark.parametrize("name", ["n1", "node-1.cluster.example", "10.0.0.1", "fe80::1", "my_host"])
def test_names_and_addresses_are_names_of_hosts(name: str) -> None:
    assert addresses.is_host_name(name)
