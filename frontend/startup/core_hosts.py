"""Core files on several hosts: aggregators list them, and each host reads its own."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence

import msgspec

from pgdb.cores.core_file import CoreFile
from pgdb.cores.finding import FoundCores
from pgdb.cores.search import CoreSearch, HostCores, ListedCore
from pgdb.errors import DiscoveryError, StartError, UsageError
from pgdb.frontend.discovery.slurm import expand_hosts
from pgdb.frontend.startup.attach_shares import nodes_of
from pgdb.frontend.startup.overlay import Overlay
from pgdb.frontend.startup.session_start import Starting
from pgdb.overlay import addresses
from pgdb.overlay.messages import Find

_MOST_NAMED = 4


class CoreHosts(msgspec.Struct, frozen=True):
    """The core files of several hosts."""

    found: FoundCores
    build_id: str
    """Build-id of the program that the user names, on the first host that has it."""
    nodes: dict[str, list[int]]
    """The aggregators of each host."""


def read_hosts(text: str) -> tuple[str, ...]:
    """Return the hosts of ``--hosts``, each once: names with commas between, as Slurm has them.

    >>> read_hosts("n1,n[3-4]")
    ('n1', 'n3', 'n4')

    :raises UsageError: if that is no list of hosts.
    """
    try:
        hosts = tuple(dict.fromkeys(expand_hosts(text.strip())))
        addresses.check_host_names(hosts)
    except (DiscoveryError, StartError) as error:
        raise UsageError(f"--hosts {text}: {error}") from None
    if not hosts:
        raise UsageError("--hosts: name hosts, with commas between")
    return hosts


def are_here(hosts: Sequence[str]) -> bool:
    """Return whether all of some hosts are this one."""
    own = {*addresses.own_names(), "localhost"}
    return all(host in own or addresses.resolve(host) in own for host in hosts)


def whole_names(targets: Sequence[str]) -> tuple[str, ...]:
    """Return names of files for other hosts: those without a directory are in this one."""
    return tuple(each if each.startswith("~") else os.path.abspath(each) for each in targets)


async def find_on_hosts(starting: Starting, search: CoreSearch) -> CoreHosts:
    """List the core files on the hosts of the overlay, and have each host read its own.

    A file that several hosts see is read by one of them.

    :raises UsageError: if the targets name no file on any host.
    :raises StartError: if no host can search.
    """
    overlay = starting.overlay
    nodes = _nodes(starting)
    first = {members[0]: host for host, members in nodes.items()}
    search = msgspec.structs.replace(search, nodes=tuple(first))
    answers = await _ask(overlay, search, first)
    for host, answer in answers.items():
        if answer.error:
            _note_left_out(starting, host, answer.error)
    able = {host: answer for host, answer in answers.items() if not answer.error}
    if not able:
        raise StartError("no host can search for core files")
    _check_named(starting, able)
    divided = divide({host: answer.listed for host, answer in able.items()})
    paths = {node: divided[host] for node, host in first.items() if divided.get(host)}
    cores: list[CoreFile] = []
    refused = [(f"{host}:{path}", why) for host in able for path, why in able[host].refused]
    if paths:
        session = starting.session
        session.opening.stage = "core files are read"
        read = await _ask(overlay, msgspec.structs.replace(search, paths=paths), first)
        for host, answer in read.items():
            if answer.error:
                _note_left_out(starting, host, answer.error)
            cores += [msgspec.structs.replace(each, host=host) for each in answer.cores]
            refused += [(f"{host}:{path}", why) for path, why in answer.refused]
    build_id = next((each.build_id for each in able.values() if each.build_id), "")
    return CoreHosts(FoundCores(tuple(cores), tuple(refused)), build_id, nodes)


def _nodes(starting: Starting) -> dict[str, list[int]]:
    """Return the aggregators of each host; note the hosts without any.

    Two names can be those of one host, which counts once.
    """
    overlay = starting.overlay
    nodes: dict[str, list[int]] = {}
    taken: set[int] = set()
    for host in overlay.place.hosts:
        own = nodes_of(host, overlay)
        if not own:
            why = overlay.failed.get(host, "no aggregator came up there")
            _note_left_out(starting, host, why)
        elif left := [each for each in own if each not in taken]:
            nodes[host] = left
            taken.update(left)
    if not nodes:
        reasons = "; ".join(overlay.failed.values())
        raise StartError(f"no aggregator came up on any of the hosts: {reasons}")
    return nodes


def _note_left_out(starting: Starting, host: str, why: str) -> None:
    starting.on_step(f"note: core files on {host} are left out: {why}")


async def _ask(
    overlay: Overlay, search: CoreSearch, first: Mapping[int, str]
) -> dict[str, HostCores]:
    """Return the answer of each host to a search."""
    found = await overlay.find(Find(cores=search))
    lost = HostCores(error="its aggregator was lost")
    answers = {}
    for node, host in first.items():
        cores = found[node].cores if node in found else None
        answers[host] = lost if cores is None else cores
    return answers


def _check_named(starting: Starting, answers: Mapping[str, HostCores]) -> None:
    """Check that each target leads to a file on some host; note the hosts without any file.

    :raises UsageError: if one does not.
    """
    everywhere = set.intersection(*({*each.why_none} for each in answers.values()))
    for target in everywhere:
        reasons: dict[str, list[str]] = {}
        for host, answer in answers.items():
            reasons.setdefault(answer.why_none[target], []).append(host)
        raise UsageError("; ".join(f"{_named(hosts)}: {why}" for why, hosts in reasons.items()))
    empty = [host for host, each in answers.items() if not each.listed and not each.refused]
    if empty:
        starting.on_step(f"note: no such core file is on {_named(empty)}")


def _named(hosts: Sequence[str]) -> str:
    listed = ", ".join(hosts[:_MOST_NAMED])
    more = len(hosts) - _MOST_NAMED
    return f"{listed} and {more} more" if more > 0 else listed


def divide(listed: Mapping[str, Sequence[ListedCore]]) -> dict[str, tuple[str, ...]]:
    """Return the files that each host reads: each file once, those of several hosts in even parts.

    >>> files = [ListedCore(path=each, size_bytes=1, mtime_ns=0, digest=b"") for each in "abcd"]
    >>> divide({"h1": files, "h2": files[1:]})
    {'h1': ('a', 'b', 'c'), 'h2': ('d',)}
    """
    holders: dict[ListedCore, list[str]] = {}
    for host, files in listed.items():
        for each in files:
            holders.setdefault(each, []).append(host)
    groups: dict[tuple[str, ...], list[str]] = {}
    for file, hosts in holders.items():
        groups.setdefault(tuple(hosts), []).append(file.path)
    divided: dict[str, list[str]] = {host: [] for host in listed}
    for among, paths in sorted(groups.items(), key=lambda item: len(item[0])):
        for index, path in enumerate(paths):
            divided[among[index * len(among) // len(paths)]].append(path)
    return {host: tuple(own) for host, own in divided.items()}
