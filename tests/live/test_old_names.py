"""The commands of the PGDB of 2014 on real ranks, under their names."""

from __future__ import annotations

import re
from typing import Any

import pytest

from tests.conftest import Build
from tests.support.programs import Mpi
from tests.support.terminal import Finished, ex, run_json

pytestmark = [pytest.mark.mpi, pytest.mark.any_mpi]


def texts(finished: Finished, command: str) -> list[str]:
    """Return the text of each class, for each answer to a command."""
    return [each["text"] for answer in finished.answers(command) for each in answer["classes"]]


def own(finished: Finished) -> str:
    """Return the messages of PGDB."""
    lines: list[dict[str, Any]] = finished.of_type("output")
    return "".join(str(each["text"]) for each in lines if each["stream"] == "pgdb")


def test_breakpoints_and_running(mpi: Mpi, build: Build) -> None:
    finished = run_json(
        "launch",
        *ex("break -t -c 'round > 0' work", "list break", "continue --all", "print round"),
        *ex("break -d -i 2 work", "info break", "bt 0 1", "step --thread-group i1", "print sum"),
        *ex("watch -a sum", "next", "delete", "break -f nosuch.c:3", "continue"),
        *mpi.line(2, build("bodies.c")),
    )
    (listed, after) = texts(finished, "info breakpoints") + texts(finished, "info break")
    assert "del" in listed and "round > 0" in listed
    assert "keep n" in after and "ignore next 2 hits" in after
    rounds = finished.answers("print round")[0]["classes"]
    assert [(each["ranks"], each["value"]) for each in rounds] == [("0", 1), ("1", 2)]
    stacks = texts(finished, "frame apply level 0-1 echo")
    assert stacks and all("#0" in stack and "#1" in stack for stack in stacks)
    assert not any("#2" in stack for stack in stacks)
    assert any("watchpoint 3: sum" in text for text in texts(finished, "awatch sum"))
    assert any(
        "pending" in text
        for text in texts(finished, "with breakpoint pending on -- break nosuch.c:3")
    )
    assert "rank 0 sum 100 args 1" in finished.out and "rank 1 sum 63 args 1" in finished.out


def test_data_and_interpreters(mpi: Mpi, build: Build) -> None:
    finished = run_json(
        "launch",
        *ex("break work", "continue", "x -o 0 &round 4", "interpreter exec console print 40 + 2"),
        *ex(
            'interpreter-exec mi "-data-evaluate-expression round"', "dir -r /tmp", "tvariable $n 3"
        ),
        *ex("tvariables", "tfind frame-number 1", "path -r", "set inferior tty /dev/null"),
        *ex("info reg d 0 rip", "info reg x nosuch"),
        *mpi.line(2, build("bodies.c")),
    )
    assert all(
        "0x00\t0x00\t0x00\t0x00" in text for text in texts(finished, "x/4xb (char *)(&round) + (0)")
    )
    assert texts(finished, "print 40 + 2") == ["40 + 2 = 42"]
    said = texts(finished, 'interpreter-exec mi "-data-evaluate-expression round"')
    assert said == ['^done,value="0"']
    assert texts(finished, "directory /tmp") == ["Source directories searched: /tmp:$cdir:$cwd"]
    assert any("$n" in text and "3" in text for text in texts(finished, "info tvariables"))
    assert all(each.startswith("Executable and object") for each in texts(finished, "path -r"))
    rows = texts(finished, "info registers d 0 rip")
    assert rows and all(re.fullmatch(r"rax +(-?\d+|…)\nrip +(\d+|…)", each) for each in rows)
    assert "no register 'nosuch'" in texts(finished, "info registers x nosuch")[0]
    assert "'set inferior-tty' has no effect on the job" in finished.out


def test_blocked_ranks_and_filtered_kinds_are_not_shown(mpi: Mpi, build: Build) -> None:
    finished = run_json(
        "launch",
        *ex("block 1", "filter exec", "break work", "continue", "print rank", "unblock"),
        *ex("print rank", "unfilter", "continue", "enable timings", "print 1"),
        *mpi.line(2, build("bodies.c")),
    )
    first, second = finished.answers("print rank")
    assert [each["ranks"] for each in first["classes"]] == ["0"]
    assert [each["ranks"] for each in second["classes"]] == ["0", "1"]
    stops = [each for each in finished.of_type("stop") if "Breakpoint" in str(each)]
    assert len(stops) >= 1 and all(each["request"] == stops[-1]["request"] for each in stops)
    assert "elapsed: " in own(finished)
