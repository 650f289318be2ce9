"""Search for a job by a name that may be a pid, a Slurm job or a step of one."""

from __future__ import annotations

from msgspec.structs import replace

from pgdb.errors import DiscoveryError
from pgdb.frontend.discovery import discover, mpir, slurm
from pgdb.frontend.discovery.found_job import DiscoveryStep, FoundJob
from pgdb.proctable import ProcTable
from pgdb.ranks import RankSet


def find_target(target: str) -> FoundJob:
    """Find a job by a number that may be a pid or a Slurm job (the pid comes first), by
    ``JOB.STEP``, or by ``PID@WORLD``, which is one world of a launcher, or all."""
    pid, at, world = target.partition("@")
    if at:
        if not pid.isdecimal():
            raise DiscoveryError(f"a world needs the pid of its launcher, and {pid!r} is no pid")
        return discover.find_job(int(pid), world=world)
    if not target.isdecimal():
        return _find_in_slurm(target)
    try:
        return _with_slurm_hosts(discover.find_job(int(target)))
    except DiscoveryError as error:
        if not slurm.is_available():
            raise
        try:
            return _find_in_slurm(target)
        except DiscoveryError as in_slurm:
            raise DiscoveryError(f"{error}; it is no job of Slurm either: {in_slurm}") from None


def _with_slurm_hosts(job: FoundJob) -> FoundJob:
    """Add the hosts that only Slurm knows, for a launcher whose daemons srun has started."""
    has_all = job.job_size is not None and len(job.table.processes) >= job.job_size
    if not job.slurm_job or has_all or len(job.hosts) > 1 or not slurm.is_available():
        return job
    try:
        # The hosts of the whole job, whatever other steps run in it.
        hosts = slurm.find_step(f"{job.slurm_job}.batch").hosts
    except DiscoveryError as error:
        step = DiscoveryStep(name="Slurm", outcome=str(error))
        return replace(job, steps=(*job.steps, step))
    return replace(job, hosts=hosts)


def _find_in_slurm(target: str) -> FoundJob:
    found = slurm.find_step(target)
    step = found.step
    steps = []
    if step is not None and step.srun_pid and mpir.is_this_host(step.srun_host):
        try:
            return discover.find_job(step.srun_pid)
        except DiscoveryError as error:
            steps.append(DiscoveryStep(name="srun's MPIR_proctable", outcome=str(error)))
    name = f"Slurm job {found.job}" if step is None else f"Slurm step {step.target}"
    outcome = f"{name} runs on {', '.join(found.hosts)}"
    steps.append(DiscoveryStep(name="Slurm", outcome=outcome))
    return FoundJob(
        launcher_pid=0,
        table=ProcTable(processes=(), source=name),
        steps=tuple(steps),
        job_size=step.tasks if step is not None else None,
        local_ranks=RankSet(),
        ended=RankSet(),
        hosts=found.hosts,
        selector=f"slurm:{found.job if step is None else step.target}",
        slurm_job=found.job,
        command=(),
    )
