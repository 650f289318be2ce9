"""Convenience variables of a rank."""

from __future__ import annotations

import os
import socket
import subprocess

from pgdb.backend.gdb.rank_variables import definitions

HOST = socket.gethostname()


def test_size_is_that_of_the_environment() -> None:
    environment = {**os.environ, "PMI_RANK": "3", "PMI_SIZE": "8"}
    with subprocess.Popen(["cat"], stdin=subprocess.PIPE, env=environment) as process:
        found = "\n".join(definitions(3, process.pid))
        process.communicate()
    assert "init-if-undefined $_rank = 3" in found
    assert "init-if-undefined $_size = 8" in found
    assert "init-if-undefined $_world = 0" in found
    assert "init-if-undefined $_host = " in found and HOST in found


def test_size_is_left_out_where_nobody_knows_it() -> None:
    assert len(definitions(0, 0)) == 3
