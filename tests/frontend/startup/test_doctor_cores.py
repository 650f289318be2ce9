"""The doctor says whether jobs leave core files, and where."""

from __future__ import annotations

from pathlib import Path

import pytest

from pgdb.cores.policy import Policy
from pgdb.frontend.startup.doctor_cores import check_core_files, finding_of
from pgdb.frontend.startup.doctor_findings import Host

SYSTEMD = "|/usr/lib/systemd/systemd-coredump %P"


@pytest.mark.parametrize(
    ("policy", "verdict", "words", "remedy"),
    [
        (Policy(pattern="core.%p"), "ok", "named core.%p", ""),
        (Policy(pattern="core.%p", soft_bytes=0), "note", "a job leaves none", "ulimit -c"),
        (Policy(pattern="core"), "note", "overwrite each other's", "kernel.core_pattern=core.%p"),
        (
            Policy(pattern="core.%p", soft_bytes=0, hard_bytes=0),
            "note",
            "hard limit is 0",
            "their death",
        ),
        (Policy(pattern=""), "note", "off for all of this host", "before their death"),
        (Policy(pattern=SYSTEMD), "note", "no coredumpctl", "install coredumpctl"),
        (Policy(pattern="|/usr/share/apport/apport %p"), "ok", "apport-unpack", ""),
    ],
)
def test_settings_are_judged(
    policy: Policy, verdict: str, words: str, remedy: str, tmp_path: Path
) -> None:
    finding = finding_of(policy, str(tmp_path))
    assert finding.verdict == verdict
    assert words in finding.message
    assert remedy in finding.remedy


def test_the_settings_are_those_of_the_host(tmp_path: Path) -> None:
    kernel = tmp_path / "sys" / "kernel"
    kernel.mkdir(parents=True)
    (kernel / "core_pattern").write_text("|/site/collect %p\n")
    (finding,) = check_core_files(Host(proc=tmp_path))
    assert "/site/collect" in finding.message
