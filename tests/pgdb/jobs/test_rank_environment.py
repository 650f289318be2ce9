"""The rank in a launcher's variables, for each family of launchers."""

from __future__ import annotations

import pytest

from pgdb.jobs import hold
from pgdb.jobs.rank_environment import RankIdentity, rank_environment, without_torch

# From real ranks; in an allocation Slurm's variables are there under every launcher.
OPEN_MPI_4 = {
    "OMPI_COMM_WORLD_RANK": "1",
    "OMPI_COMM_WORLD_SIZE": "4",
    "OMPI_COMM_WORLD_LOCAL_RANK": "1",
    "OMPI_COMM_WORLD_LOCAL_SIZE": "2",
    "OMPI_MCA_orte_hnp_uri": "1955790848.0;tcp://192.0.2.2:59781",
    "PMIX_NAMESPACE": "1955790849",
    "PMIX_RANK": "1",
    "SLURM_PROCID": "0",
    "SLURM_JOB_ID": "7",
    "SLURM_STEP_ID": "0",
}


@pytest.mark.parametrize(
    ("env", "identity"),
    [
        (OPEN_MPI_4, RankIdentity(1, 4, 1, 2, "1955790848.0;tcp://192.0.2.2:59781 1955790849")),
        (
            {
                "OMPI_COMM_WORLD_RANK": "0",
                "OMPI_COMM_WORLD_SIZE": "2",
                "PMIX_NAMESPACE": "prterun-vm-6470@1",
                "PMIX_RANK": "0",
            },
            RankIdentity(0, 2, None, None, "prterun-vm-6470@1"),
        ),
        (
            {"PMI_RANK": "3", "PMI_SIZE": "4", "MPI_LOCALRANKID": "1", "MPI_LOCALNRANKS": "2"},
            RankIdentity(3, 4, 1, 2, None),
        ),
        (
            {"PMI_RANK": "3", "PMI_SIZE": "4", "I_MPI_HYDRA_UUID": "f00"},
            RankIdentity(3, 4, None, None, "f00"),
        ),
        (
            {
                "SLURM_PROCID": "2",
                "SLURM_NTASKS": "4",
                "SLURM_LOCALID": "0",
                "SLURM_JOB_ID": "7",
                "SLURM_STEP_ID": "1",
            },
            RankIdentity(2, 4, 0, None, "7.1"),
        ),
        (
            {
                "PMIX_RANK": "2",
                "PMIX_NAMESPACE": "slurm.pmix.7.1",
                "SLURM_PROCID": "2",
                "SLURM_NTASKS": "4",
                "SLURM_LOCALID": "0",
                "SLURM_STEP_ID": "1",
            },
            RankIdentity(2, 4, 0, None, "slurm.pmix.7.1"),
        ),
        (
            {"FLUX_TASK_RANK": "1", "FLUX_JOB_SIZE": "2", "FLUX_JOB_ID": "fA"},
            RankIdentity(1, 2, None, None, "fA"),
        ),
        ({"RANK": "1", "WORLD_SIZE": "2"}, RankIdentity(1, 2, None, None, None, "plain")),
        (
            {"RANK": "0", "WORLD_SIZE": "1", "LOCAL_SIZE": "1", "MASTER_PORT": "29500"},
            RankIdentity(0, 1, None, 1, "29500", "plain"),
        ),
        ({"RANK": "2", "WORLD_SIZE": "2", "MASTER_PORT": "29500"}, None),
        ({"RANK": "1", "MASTER_PORT": "29500"}, None),
        # A batch script has a SLURM_PROCID, but it is not a task of a step.
        ({"SLURM_PROCID": "0", "SLURM_JOB_ID": "7", "SLURM_LOCALID": "0"}, None),
        ({"PMI_RANK": "-1"}, None),
        ({"PMI_RANK": "\u0663"}, None),
        ({"OMPI_COMM_WORLD_RANK": ""}, None),
        ({}, None),
    ],
)
def test_rank_environment(env: dict[str, str], identity: RankIdentity | None) -> None:
    assert rank_environment(env) == identity


def test_spawned_ranks_have_another_key_than_those_that_spawned_them() -> None:
    first = rank_environment(OPEN_MPI_4)
    spawned = rank_environment(OPEN_MPI_4 | {"PMIX_NAMESPACE": "1955790850"})
    assert first is not None and spawned is not None
    assert first.job_key != spawned.job_key


def test_a_worker_of_torchrun_is_a_rank_of_the_innermost_launcher() -> None:
    environment = {
        "OMPI_COMM_WORLD_RANK": "1",
        "OMPI_COMM_WORLD_SIZE": "2",
        "RANK": "5",
        "WORLD_SIZE": "8",
        "LOCAL_RANK": "1",
        "LOCAL_WORLD_SIZE": "4",
        "MASTER_ADDR": "node1",
        "MASTER_PORT": "29500",
        "TORCHELASTIC_RUN_ID": "none",
    }
    worker = RankIdentity(5, 8, 1, 4, "none node1 29500", "elastic")
    assert rank_environment(environment) == worker
    assert hold.identity(environment) == (5, 8, 1, 4)
    # Two agents on one host, with four workers each.
    several = {"OMPI_COMM_WORLD_LOCAL_RANK": "1", "OMPI_COMM_WORLD_LOCAL_SIZE": "2"}
    assert hold.identity(environment | several) == (5, 8, 5, 8)
    # DeepSpeed's workers, and those of a script, have no run.
    del environment["TORCHELASTIC_RUN_ID"]
    assert rank_environment(environment) == RankIdentity(5, 8, 1, 4, "node1 29500", "plain")
    assert without_torch(environment) == RankIdentity(1, 2, None, None, None)
    assert hold.identity(environment) == (5, 8, 1, 4)
    # Programs have a RANK of their own.
    del environment["MASTER_PORT"]
    found = rank_environment(environment)
    assert found is not None and found.rank == 1
    assert hold.identity(environment)[:2] == (1, 2)
