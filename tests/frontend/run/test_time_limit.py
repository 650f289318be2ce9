"""The time limit of a batch job, from the environment and from the answers of batch systems."""

from __future__ import annotations

import pytest

from pgdb.frontend.run.time_limit import find

NOW = 1000.0
PBS = "Job Id: 7\n    Resource_List.walltime = 01:00:00\n    resources_used.walltime = 00:10:00\n"


@pytest.mark.parametrize(
    ("environment", "words", "said", "end"),
    [
        ({"SLURM_JOB_ID": "7", "SLURM_JOB_END_TIME": "4600"}, "", "", 4600.0),
        ({"SLURM_JOB_ID": "7"}, "squeue -h -j 7 -o %L", "59:30", NOW + 3570),
        ({"SLURM_JOB_ID": "7"}, "squeue -h -j 7 -o %L", "1-02:00:30\n", NOW + 93630),
        ({"SLURM_JOB_ID": "7"}, "squeue -h -j 7 -o %L", "UNLIMITED", None),
        ({"SLURM_JOB_ID": "7"}, "squeue -h -j 7 -o %L", "", None),
        ({"PBS_JOBID": "7"}, "qstat -f 7", PBS, NOW + 3000),
        ({"PBS_JOBID": "7"}, "qstat -f 7", "", None),
        ({"LSB_JOBID": "7"}, "bjobs -noheader -o time_left 7", "0:10:00 L", NOW + 600),
        ({"FLUX_JOB_ID": "f7"}, "flux job timeleft f7", "1800", NOW + 1800),
        ({}, "", "", None),
    ],
)
def test_limits(environment: dict[str, str], words: str, said: str, end: float | None) -> None:
    def query(asked: tuple[str, ...]) -> str:
        assert " ".join(asked) == words
        return said

    found = find(environment, query=query, now=lambda: NOW)
    assert (None if found is None else found.end) == end
