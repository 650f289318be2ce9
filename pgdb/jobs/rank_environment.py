"""The rank that a launcher's environment variables name."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Literal

import msgspec


class RankIdentity(msgspec.Struct, frozen=True):
    """The rank that the environment of a process names."""

    rank: int
    """Rank in MPI_COMM_WORLD."""
    size: int | None
    """Number of ranks in MPI_COMM_WORLD, if the environment has it."""
    local_rank: int | None
    """Number among the ranks of its host."""
    local_size: int | None
    """Number of ranks on its host."""
    job_key: str | None
    """Text that is equal for the ranks of one job and different for another job's; None under
    MPICH's hydra, which leaves no such text in the environment."""
    torch: Literal["", "elastic", "plain", "spawn"] = ""
    """Starter of a rank of PyTorch: torchrun's agent; anything that sets RANK and WORLD_SIZE;
    torch.multiprocessing.spawn. Empty for MPI."""


def rank_environment(env: Mapping[str, str]) -> RankIdentity | None:
    """Return the rank that a launcher's variables name, or None if there are none.

    The innermost launcher wins: Open MPI and MPICH ranks in a Slurm allocation also inherit Slurm's
    variables, from the daemon or from the batch script, and the workers of a torchrun below mpirun
    inherit those of Open MPI.

    >>> rank_environment({"PMI_RANK": "3", "PMI_SIZE": "4"})
    RankIdentity(rank=3, size=4, local_rank=None, local_size=None, job_key=None, torch='')
    """
    worker = torch_environment(env)
    if worker is not None and worker.job_key is not None:
        return worker
    if (rank := _number(env, "OMPI_COMM_WORLD_RANK")) is not None:
        # Open MPI 4 gives the launcher's address, Open MPI 5 only the namespace. The namespace also
        # distinguishes jobs that MPI_Comm_spawn started from the job that started them.
        key = _joined(env, ("OMPI_MCA_orte_hnp_uri", "PMIX_NAMESPACE"))
        return RankIdentity(
            rank=rank,
            size=_number(env, "OMPI_COMM_WORLD_SIZE"),
            local_rank=_number(env, "OMPI_COMM_WORLD_LOCAL_RANK"),
            local_size=_number(env, "OMPI_COMM_WORLD_LOCAL_SIZE"),
            job_key=key,
        )
    if (rank := _number(env, "PMIX_RANK")) is not None and "PMIX_NAMESPACE" in env:
        return RankIdentity(
            rank=rank,
            size=_number(env, "SLURM_NTASKS"),
            local_rank=_number(env, "SLURM_LOCALID"),
            local_size=None,
            job_key=env["PMIX_NAMESPACE"],
        )
    if (rank := _number(env, "PMI_RANK")) is not None:
        return RankIdentity(
            rank=rank,
            size=_number(env, "PMI_SIZE"),
            local_rank=_number(env, "MPI_LOCALRANKID"),
            local_size=_number(env, "MPI_LOCALNRANKS"),
            job_key=env.get("I_MPI_HYDRA_UUID") or env.get("PMI_JOBID"),
        )
    if (rank := _number(env, "SLURM_PROCID")) is not None and "SLURM_STEP_ID" in env:
        return RankIdentity(
            rank=rank,
            size=_number(env, "SLURM_NTASKS"),
            local_rank=_number(env, "SLURM_LOCALID"),
            local_size=None,
            job_key=f"{env.get('SLURM_JOB_ID', '')}.{env['SLURM_STEP_ID']}",
        )
    if (rank := _number(env, "FLUX_TASK_RANK")) is not None:
        return RankIdentity(
            rank=rank,
            size=_number(env, "FLUX_JOB_SIZE"),
            local_rank=_number(env, "FLUX_TASK_LOCAL_ID"),
            local_size=None,
            job_key=env.get("FLUX_JOB_ID"),
        )
    return worker


def torch_environment(env: Mapping[str, str]) -> RankIdentity | None:
    """Return the rank that PyTorch's variables name, or None if there are none.

    torchrun, accelerate and DeepSpeed set them for their workers, Ray Train's workers for
    themselves. Without an address of the job they may be a program's own, and any launcher's
    variables count more.
    """
    rank, size = _number(env, "RANK"), _number(env, "WORLD_SIZE")
    is_elastic = "TORCHELASTIC_RUN_ID" in env
    if rank is None or (size is None and not is_elastic) or (size is not None and rank >= size):
        return None
    # The run's name is "none" in most cases; the address is that of one job at a time.
    names = ("TORCHELASTIC_RUN_ID", "MASTER_ADDR", "MASTER_PORT")
    local_size = _number(env, "LOCAL_WORLD_SIZE")
    return RankIdentity(
        rank=rank,
        size=size,
        local_rank=_number(env, "LOCAL_RANK"),
        # DeepSpeed's name.
        local_size=_number(env, "LOCAL_SIZE") if local_size is None else local_size,
        job_key=_joined(env, names) if is_elastic or "MASTER_PORT" in env else None,
        torch="elastic" if is_elastic else "plain",
    )


def without_torch(env: Mapping[str, str]) -> RankIdentity | None:
    """Return the rank that the variables other than PyTorch's name."""
    return rank_environment({name: env[name] for name in env if name != "RANK"})


def _number(env: Mapping[str, str], name: str) -> int | None:
    value = env.get(name, "")
    return int(value) if value.isascii() and value.isdecimal() else None


def _joined(env: Mapping[str, str], names: Iterable[str]) -> str | None:
    values = [env[name] for name in names if env.get(name)]
    return " ".join(values) or None
