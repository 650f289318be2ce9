"""Slurm's running jobs and their steps, from its own commands.

The ranks of a job are in a step if srun started them. An MPI launcher in the batch script starts
the ranks of its own host itself, and the others through a step of daemons. Slurm does not know
those ranks.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Iterable, Iterator

import msgspec

from pgdb.errors import DiscoveryError
from pgdb.jobs.placement import OVERLAY_STEP_NAME
from pgdb.patterns import pattern

_TARGET = pattern(r"(?P<job>[1-9]\d*(?:[_+]\d+)?)(?:\.(?P<step>\d+(?:\+\d+)?|batch|extern))?\Z")
_STEP_NUMBER = pattern(r"\d+(?:\+\d+)?\Z")
_DAEMONS = frozenset({"orted", "prted", "hydra_pmi_proxy", "hydra_bstrap_proxy", "pmi_proxy"})
_WILL_RUN = frozenset({"PENDING", "CONFIGURING", "REQUEUED", "REQUEUE_HOLD", "REQUEUE_FED"})
_RUNS = frozenset({"RUNNING", "RESIZING", "SIGNALING"})
_IS_HELD = frozenset({"SUSPENDED", "STOPPED"})
_DURATION = pattern(r"(?:(\d+)-)?(?:(\d+):)?(\d+):(\d+)\Z")
_SRUN = pattern(r"^StepId=(\S+) .*SrunHost:Pid=(\S+):(\d+)", re.MULTILINE)
_MANY = 8

# One field for each attribute; the last one may contain any character.
_STEP_FIELDS = (
    "stepid",
    "jobid",
    "userid",
    "username",
    "nodes",
    "numtasks",
    "timeused",
    "stepname",
)
_STEP_FORMAT = ",".join(f"{field}:|" for field in _STEP_FIELDS)
_JOB_FORMAT = "%A|%i|%U|%u|%T|%r|%N|%j"


class Step(msgspec.Struct, frozen=True):
    """One running step of a Slurm job, started by srun."""

    job: str
    """The job's own number, as in SLURM_JOB_ID: an element of an array has one, too."""
    step: str
    """The step's number in the job, as in SLURM_STEP_ID."""
    hosts: tuple[str, ...]
    """Slurm's names of the nodes, in order."""
    tasks: int
    user: str
    name: str
    """Usually the program's name; ``--job-name`` of srun."""
    age_s: float
    srun_host: str
    """Host of the srun that started the step; empty if Slurm does not report it."""
    srun_pid: int
    """Pid of that srun on :attr:`srun_host`; 0 if Slurm does not report it."""

    @property
    def target(self) -> str:
        """The step's name for ``pgdb attach``."""
        return f"{self.job}.{self.step}"

    @property
    def has_daemons(self) -> bool:
        """Whether it runs the daemons of an MPI launcher, which have the ranks below them."""
        return self.name in _DAEMONS


class JobOrStep(msgspec.Struct, frozen=True):
    """A running job that a user has named, and its chosen step."""

    job: str
    """The job's own number, as in SLURM_JOB_ID."""
    user: str
    name: str
    hosts: tuple[str, ...]
    """The nodes of the chosen step, else all of the job's."""
    step: Step | None
    """The chosen step; None if an MPI launcher inside the job has started the ranks."""
    steps: tuple[Step, ...]
    """All running steps of the job, those of daemons too."""


class _Job(msgspec.Struct, frozen=True):
    number: str
    shown: str
    """The job's name as squeue writes it: ``JOB_TASK`` for an element of an array."""
    uid: int
    user: str
    state: str
    reason: str
    hosts: str
    name: str


def is_available() -> bool:
    """Return whether this host has Slurm's commands."""
    return shutil.which("squeue") is not None


def steps(
    job: str | None = None, user: str | None = None, *, timeout_s: float = 10.0
) -> tuple[Step, ...]:
    """Return the running steps that srun started, of one job or one user if given.

    The list omits steps of squeue that no srun started (the batch script, the shell of salloc,
    ``extern``, which is for ssh), and PGDB's own steps.

    :raises DiscoveryError: if there is no Slurm here, or a command takes longer than *timeout_s*.
    """
    options = [*(("--jobs", job) if job else ()), *(("--users", user) if user else ())]
    output = _run("squeue", "-h", "-a", "-s", *options, "-O", _STEP_FORMAT, timeout_s=timeout_s)
    rows = []
    for line in output.splitlines():
        fields = line.removesuffix("|").split("|", len(_STEP_FIELDS) - 1)
        # With several clusters, squeue adds lines with their names.
        if len(fields) == len(_STEP_FIELDS) and fields[-1] != OVERLAY_STEP_NAME:
            number = fields[0].rpartition(".")[2]
            if _STEP_NUMBER.match(number):
                rows.append((number, fields))
    places = _srun_places([fields[0] for _, fields in rows], job, timeout_s) if rows else {}
    found = []
    for number, (shown, own, _, owner, nodes, tasks, age, name) in rows:
        srun_host, srun_pid = places.get(shown, ("", 0))
        found.append(
            Step(
                job=own,
                step=number,
                hosts=expand_hosts(nodes),
                tasks=int(tasks) if tasks.isdecimal() else 0,
                user=owner,
                name=name,
                age_s=_seconds(age),
                srun_host=srun_host,
                srun_pid=srun_pid,
            )
        )
    return tuple(sorted(found, key=lambda each: (_numbers(each.job), _numbers(each.step))))


def find_step(text: str) -> JobOrStep:
    """Find the running job or step with the name ``JOB``, ``JOB_TASK`` or ``JOB.STEP``.

    :raises DiscoveryError: if there is none, it does not run, it is another user's, the name is
        ambiguous, or there is no Slurm here.
    """
    match = _TARGET.match(text)
    if match is None:
        raise DiscoveryError(f"{text!r} is no Slurm job; write JOB, JOB.STEP or JOB_TASK")
    if not is_available():
        raise DiscoveryError(
            f"{text!r} would be a Slurm job, but {os.uname().nodename} has no squeue; "
            "use pgdb attach --host with the cluster's login host"
        )
    job = _find_job(match["job"])
    if job.uid != os.geteuid() != 0:
        raise DiscoveryError(
            f"Slurm job {job.shown} belongs to user {job.user}; run pgdb as that user"
        )
    running = steps(job.number)
    step = _choose(job, running, match["step"])
    return JobOrStep(
        job=job.number,
        user=job.user,
        name=job.name,
        hosts=step.hosts if step is not None else expand_hosts(job.hosts),
        step=step,
        steps=running,
    )


def _find_job(text: str) -> _Job:
    """Return the running job with that number.

    :raises DiscoveryError: if there is none, or an array has several.
    """
    try:
        # squeue lists jobs for some minutes after their end (MinJobAge).
        output = _run("squeue", "-h", "-r", "-a", "-t", "all", "-j", text, "-o", _JOB_FORMAT)
    except _NotKnownError:
        output = ""
    jobs = [
        _Job(fields[0], fields[1], int(fields[2]), *fields[3:])
        for fields in (line.split("|", 7) for line in output.splitlines())
        if len(fields) == 8 and fields[2].isdecimal()
    ]
    if not jobs:
        raise DiscoveryError(
            f"squeue knows no job {text}; it forgets those that ended some minutes ago"
        )
    running = sorted(
        (job for job in jobs if job.state in _RUNS), key=lambda job: _numbers(job.shown)
    )
    if len(running) > 1:
        names = _listed(job.shown for job in running)
        raise DiscoveryError(
            f"Slurm job {text} is an array that runs as {names}; use pgdb attach {running[0].shown}"
        )
    if running:
        return running[0]
    raise DiscoveryError(_why_not_running(text, jobs))


def _why_not_running(text: str, jobs: list[_Job]) -> str:
    for job in jobs:
        if job.state in _IS_HELD:
            return f"Slurm job {text} is suspended; resume it with scontrol resume {job.shown}"
    for job in jobs:
        if job.state in _WILL_RUN:
            return (
                f"Slurm job {text} does not run yet ({job.state}, {job.reason}); wait until it does"
            )
    # COMPLETING is among these: Slurm is ending its processes.
    return f"Slurm job {text} has ended ({jobs[0].state})"


def _choose(job: _Job, running: tuple[Step, ...], wanted: str | None) -> Step | None:
    """Return the chosen step, None for ranks that run in the job without one."""
    if wanted == "extern":
        raise DiscoveryError(f"step {job.shown}.extern has no ranks; use pgdb attach {job.shown}")
    if wanted == "batch":
        return None
    if wanted is not None:
        chosen = [step for step in running if step.step == wanted]
        if not chosen:
            others = _listed(f"{job.shown}.{step.step} ({step.name})" for step in running)
            raise DiscoveryError(
                f"Slurm job {job.shown} has no running step {wanted}; it has {others or 'none'}"
            )
    else:
        chosen = [step for step in running if not step.has_daemons]
        if len(chosen) > 1:
            names = _listed(f"{step.target} ({step.name}, {_tasks(step)})" for step in chosen)
            raise DiscoveryError(
                f"Slurm job {job.shown} has several steps: {names}; "
                f"use pgdb attach {chosen[0].target}"
            )
    return None if not chosen or chosen[0].has_daemons else chosen[0]


def _tasks(step: Step) -> str:
    return f"{step.tasks} task" if step.tasks == 1 else f"{step.tasks} tasks"


def _listed(names: Iterable[str]) -> str:
    found = list(names)
    more = f" and {len(found) - _MANY} more" if len(found) > _MANY else ""
    return ", ".join(found[:_MANY]) + more


def _srun_places(shown: list[str], job: str | None, timeout_s: float) -> dict[str, tuple[str, int]]:
    """Return host and pid of the srun of each step, which squeue does not print."""
    found: dict[str, tuple[str, int]] = {}
    # scontrol of Slurm 22.05 omits the elements of arrays from a list of all steps.
    arrays = {each.partition("_")[0] for each in shown if "_" in each}
    for wanted in [job] if job else ["", *sorted(arrays)]:
        try:
            output = _run("scontrol", "-o", "show", "step", wanted or "", timeout_s=timeout_s)
        except DiscoveryError:
            continue  # the steps are known anyway, or have just ended
        for step, host, pid in _SRUN.findall(output):
            if int(pid):
                found[step] = (host, int(pid))
    return found


class _NotKnownError(DiscoveryError):
    """Report of Slurm that there is no such job."""


def _run(*argv: str, timeout_s: float = 10.0) -> str:
    """Return the output of one of Slurm's commands.

    :raises DiscoveryError: if it fails, or takes longer than *timeout_s*.
    """
    environment = {
        # SQUEUE_STATES, SQUEUE_USERS and the like would hide jobs.
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("SQUEUE_", "SCONTROL_"))
    }
    try:
        done = subprocess.run(
            [word for word in argv if word],
            env=environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=timeout_s,
            check=False,
        )
    except FileNotFoundError:
        raise DiscoveryError(
            f"there is no Slurm on {os.uname().nodename}: {argv[0]} is not in PATH"
        ) from None
    except OSError as error:
        raise DiscoveryError(f"cannot run Slurm's {argv[0]}: {error.strerror}") from None
    except subprocess.TimeoutExpired:
        raise DiscoveryError(
            f"Slurm's {argv[0]} did not answer within {timeout_s:g} s; is slurmctld up (sinfo)?"
        ) from None
    if done.returncode:
        lines = [line.strip() for line in done.stderr.splitlines() if line.strip()]
        said = lines[-1] if lines else f"status {done.returncode}"
        kind = _NotKnownError if "Invalid job id" in said else DiscoveryError
        raise kind(f"Slurm's {argv[0]} failed: {said}")
    return done.stdout


def _seconds(text: str) -> float:
    """Return the seconds in ``[DAYS-][HOURS:]MINUTES:SECONDS``, 0 for any other text."""
    match = _DURATION.match(text)
    if match is None:
        return 0.0  # INVALID, where clocks differ
    days, hours, minutes, seconds = (int(each or 0) for each in match.groups())
    return float(((days * 24 + hours) * 60 + minutes) * 60 + seconds)


def _numbers(text: str) -> list[int]:
    return [int(number) for number in re.findall(r"\d+", text)]


def expand_hosts(text: str) -> tuple[str, ...]:
    """Return the hosts in a host list of Slurm, in its order.

    >>> expand_hosts("n[1-3,07],m1")
    ('n1', 'n2', 'n3', 'n07', 'm1')
    >>> expand_hosts("r[1-2]c[09-10]")
    ('r1c09', 'r1c10', 'r2c09', 'r2c10')

    :raises DiscoveryError: if it is malformed.
    """
    return tuple(host for part in _parts(text) for host in _expand(part, text))


def _parts(text: str) -> Iterator[str]:
    """Yield the parts between commas that are not in brackets."""
    start = depth = 0
    for at, character in enumerate(text):
        depth += (character == "[") - (character == "]")
        if depth not in (0, 1):
            raise _malformed(text)
        if character == "," and depth == 0:
            yield text[start:at]
            start = at + 1
    if depth:
        raise _malformed(text)
    if start < len(text):
        yield text[start:]


def _expand(part: str, text: str) -> Iterator[str]:
    head, bracket, rest = part.partition("[")
    if not bracket:
        if not head:
            raise _malformed(text)
        yield head
        return
    inside, _, tail = rest.partition("]")
    tails = list(_expand(tail, text)) if tail else [""]
    for numbers in inside.split(","):
        first, dash, last = numbers.partition("-")
        last = last if dash else first
        if not (first.isdecimal() and last.isdecimal()) or int(first) > int(last):
            raise _malformed(text)
        for number in range(int(first), int(last) + 1):
            for end in tails:
                yield f"{head}{number:0{len(first)}d}{end}"


def _malformed(text: str) -> DiscoveryError:
    return DiscoveryError(f"{text!r} is no list of hosts such as n[1-3,7],m1")
