"""Names and addresses of this host, and the ones that another host can reach."""

from __future__ import annotations

import fcntl
import os
import socket
import struct
import sys
from collections.abc import Iterable

from pgdb.errors import StartError, UsageError
from pgdb.patterns import pattern

# include/uapi/linux/sockios.h; struct ifreq is a name of 16 bytes and a union of 24.
_SIOCGIFADDR = 0x8915
_IFREQ = struct.Struct("16s24x")
# Documentation addresses (RFC 5737): they are routed like any distant address.
_FAR_AWAY = ("192.0.2.1", 9)
_ALL = "0.0.0.0"
_HOST_NAME = pattern(r"[A-Za-z0-9_][A-Za-z0-9_.:%-]*\Z")
_TCP_TABLE = "/proc/net/tcp"
_ESTABLISHED = "01"  # include/net/tcp_states.h


def own_addresses() -> tuple[str, ...]:
    """Return the IPv4 address of every interface of this host that is up, loopback last."""
    found = []
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
        for _, name in socket.if_nameindex():
            try:
                answer = fcntl.ioctl(any_socket, _SIOCGIFADDR, _IFREQ.pack(name.encode()))
            except OSError:
                continue  # an interface without an address
            found.append(socket.inet_ntoa(answer[20:24]))
    return tuple(sorted(dict.fromkeys(found), key=_is_loopback))


def own_names() -> tuple[str, ...]:
    """Return all names and addresses that launchers may use for this host: names first."""
    nodename = os.uname().nodename
    names = [nodename, nodename.partition(".")[0], os.environ.get("SLURMD_NODENAME", "")]
    addresses = [address for address in own_addresses() if not _is_loopback(address)]
    return tuple(dict.fromkeys(name for name in (*names, *addresses) if name))


def address_towards(hosts: Iterable[str]) -> str:
    """Return the address of this host at which *hosts* can reach it, as far as the routes show.

    The route to the first host whose name is known here decides. If no name is known, the route to
    the rest of the world decides; on a host without any route, loopback.
    """
    targets: list[tuple[str, int]] = []
    for host in hosts:
        address = resolve(host)
        if address is not None and not _is_loopback(address):
            targets.append((address, 9))
            break
    targets.append(_FAR_AWAY)
    for target in targets:
        address = source_address(target)
        if address is not None:
            return address
    return next(iter(own_addresses()), "127.0.0.1")


def source_address(target: tuple[str, int]) -> str | None:
    """Return the address from which this host would send to *target*, None if there is no route."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        # Connecting a datagram socket sends nothing; it asks the kernel for the route.
        try:
            probe.connect(target)
        except OSError:
            return None
        return str(probe.getsockname()[0])


def resolve(host: str) -> str | None:
    """Return the IPv4 address of a host, None if its name is not known here."""
    try:
        return socket.gethostbyname(host)
    except (OSError, UnicodeError):
        return None


def is_host_name(name: str) -> bool:
    """Return whether *name* can name a host: it is one word of a launcher's line, and not an
    option.

    >>> [is_host_name(each) for each in ("node-17.cluster", "fe80::1%eth0", "-oProxyCommand=x")]
    [True, True, False]
    """
    return _HOST_NAME.match(name) is not None


def check_host_names(hosts: Iterable[str]) -> None:
    """Check host names from a job, its launcher or its ranks: ssh may pass them to a shell.

    :raises StartError: if one cannot name a host.
    """
    for host in hosts:
        if not is_host_name(host):
            raise StartError(f"{host!r} is given as a host of the job, and is no name of a host")


def user_of_peer(
    peer: tuple[str, int], own: tuple[str, int], table: str = _TCP_TABLE
) -> int | None:
    """Return the user of the process of this host at the other end of a TCP connection.

    The kernel vouches for it. None if the other end is on another host, or has closed the
    connection.
    """
    wanted = [_in_table(peer), _in_table(own)]
    with open(table, encoding="ascii") as file:
        next(file, "")
        for line in file:
            # Fields: sl, local address, remote address, state, queues, timer, retransmits, uid.
            fields = line.split()
            # The kernel reports root as the user of a connection that no process has open any
            # longer.
            if fields[1:3] == wanted and fields[3] == _ESTABLISHED:
                return int(fields[7])
    return None


def _in_table(address: tuple[str, int]) -> str:
    """Return an address as in /proc/net/tcp: a number in the byte order of the machine."""
    number = int.from_bytes(socket.inet_aton(address[0]), sys.byteorder)
    return f"{number:08X}:{address[1]:04X}"


def check_own(address: str) -> str:
    """Return the IPv4 address to listen on that the user gave by name or number.

    :raises UsageError: if it is not an address of this host.
    """
    found = resolve(address)
    if found is None:
        raise UsageError(f"--listen {address}: no such address; {_choices()}")
    if found == _ALL:
        why = "stands for all addresses, of which hosts need one"
        raise UsageError(f"--listen {address}: {why}; {_choices()}")
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        try:
            probe.bind((found, 0))
        except OSError as error:
            raise UsageError(f"--listen {address}: {error.strerror}; {_choices()}") from None
    return found


def _choices() -> str:
    return f"this host has {', '.join(own_addresses())}"


def _is_loopback(address: str) -> bool:
    return address.startswith("127.")
