"""The report of ``info sbd`` on the delivery of files."""

from __future__ import annotations

import pytest

from pgdb.frontend.transport.deliveries import progress, report
from pgdb.overlay.messages import FRONT_END, Delivered


@pytest.mark.parametrize(
    ("size_bytes", "text"),
    [
        (1023, "1023 bytes"),
        (1024, "1.0 KiB"),
        (1000 << 10, "1000.0 KiB"),
        ((1 << 20) - 1, "1024.0 KiB"),
        (3 << 29, "1.5 GiB"),
    ],
)
def test_sizes_are_short(size_bytes: int, text: str) -> None:
    text_shown = progress([Delivered(node=FRONT_END, host="login", read_bytes=size_bytes)])
    assert text_shown == f"files: {text} read, 0 bytes received on the hosts"


@pytest.mark.parametrize(
    ("hosts", "text"), [(1, "1 aggregator needed 2"), (2, "2 aggregators needed 4")]
)
def test_hosts_are_counted(hosts: int, text: str) -> None:
    nodes = [Delivered(node=node, host=f"n{node}", wanted_files=2) for node in range(hosts)]
    assert f"\n{text} files: 0 from their caches" in report(nodes)
