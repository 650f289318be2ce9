"""The next step of a verdict that is not certain: readers of a report have no session."""

from __future__ import annotations

import re

import pytest

from pgdb.frontend.analysis.why.waiting import NO_WATCH, Watch
from pgdb.frontend.commands.table import COMMANDS
from pgdb.ranks import RankSet
from tests.support.late_ranks import LATE
from tests.support.why_jobs import ALL, BARRIER, FAULTS, WATCHED, Job, explained

JOBS: dict[str, Job] = {
    **{name: job for name, (job, *_) in FAULTS.items()},
    **{name: {"0-2": BARRIER, "3": status} for name, (status, *_) in LATE.items()},
}
WATCHES = {
    "no watch": NO_WATCH,
    "all stood still": WATCHED,
    "rank 3 moved": Watch(still=ALL - RankSet([3]), seconds=1.0),
}


@pytest.mark.parametrize("watch", WATCHES)
@pytest.mark.parametrize("name", JOBS)
def test_the_step_holds_without_a_session_and_its_commands_exist(name: str, watch: str) -> None:
    for each in explained(JOBS[name], WATCHES[watch]).verdicts:
        # 'Words' in quotation marks are commands. They have a field of their own.
        assert not re.search(r"'\w|--", each.decides), each.decides
        assert each.decides or not each.commands
        for line in each.commands:
            word, _, argument = line.partition(" ")
            command = COMMANDS.find(word)
            assert command is not None, line
            command.parse(argument)
