"""Names of a rank's own: convenience variables, and files that several ranks write."""

from __future__ import annotations

import os
import socket
import subprocess

import pytest

from pgdb.backend.gdb.rank_variables import definitions, with_own_file
from pgdb.frontend.api.gdb_commands import with_file_for_each

HOST = socket.gethostname()


def test_size_is_that_of_the_environment() -> None:
    environment = {**os.environ, "PMI_RANK": "3", "PMI_SIZE": "8"}
    with subprocess.Popen(["cat"], stdin=subprocess.PIPE, env=environment) as process:
        found = "\n".join(definitions(3, process.pid))
        process.communicate()
    assert "init-if-undefined $_rank = 3" in found
    assert "init-if-undefined $_size = 8" in found
    assert "init-if-undefined $_host = " in found and HOST in found


def test_size_is_left_out_where_nobody_knows_it() -> None:
    assert len(definitions(0, 0)) == 2


@pytest.mark.parametrize(
    ("command", "own"),
    [
        ("generate-core-file /tmp/a.%r", "generate-core-file /tmp/a.5"),
        ("generate-core-file /tmp/%h.%p.%%r", f"generate-core-file /tmp/{HOST}.77.%r"),
        ("generate-core-file core.%r", f"generate-core-file {os.getcwd()}/core.5"),
        ("dump binary memory m.%r &x &y", "dump binary memory m.5 &x &y"),
        ("append value m.%r x", "append value m.5 x"),
        ("dump value m.%r grid%rho + n%p", "dump value m.5 grid%rho + n%p"),
        ("dump value m  grid%rho", "dump value m  grid%rho"),
        ('printf "%r\\n", 3', 'printf "%r\\n", 3'),
        ("record save my log.%r", "record save my log.5"),
        ("tsave -ctf d.%r", "tsave -ctf d.5"),
        ("record stop", "record stop"),
        ("print x%r", "print x%r"),
    ],
)
def test_placeholders_stand_for_the_rank(command: str, own: str) -> None:
    assert with_own_file(command, 5, 77) == own


@pytest.mark.parametrize(
    ("line", "count", "sent"),
    [
        ("gcore", 4, "generate-core-file core.%r.%h.%p"),
        ("gcore", 1, "generate-core-file core.%p"),
        ("generate-core-file a b", 2, "generate-core-file a b.%r"),
        ("gcore c.%p", 2, "generate-core-file c.%p"),
        ("dump memory m 1 2", 2, "dump memory m.%r 1 2"),
        ("dump binary value m x", 2, "dump binary value m.%r x"),
        ("append memory m.%r 1 2", 2, "append memory m.%r 1 2"),
        ("dump memory m 1 2", 1, "dump memory m 1 2"),
        ("record save log", 2, "record save log.%r"),
        ("rec sa log.%p", 2, "rec sa log.%p"),
        ("record save log", 1, "record save log"),
        ("record save", 2, "record save"),
        ("record stop", 2, "record stop"),
        ("tsave -r t", 2, "tsave -r t.%r"),
        ("print x", 3, "print x"),
    ],
)
def test_each_of_several_ranks_has_a_file(line: str, count: int, sent: str) -> None:
    assert with_file_for_each(line, count) == sent
