"""Answers of Slurm's commands are parsed; stand-ins give those of Slurm 22.05.8."""

from __future__ import annotations

import os
import pwd
from collections.abc import Callable
from pathlib import Path

import pytest

from pgdb.errors import DiscoveryError
from pgdb.frontend.discovery import slurm

ME = pwd.getpwuid(os.geteuid()).pw_name
UID = os.geteuid()

# Fields of squeue -s: shown, job, uid, user, nodes, tasks, time, name.
STEPS = f"""\
8.0|8|{UID}|{ME}|n1|1|1-02:03:04|sleep|
8.1|8|{UID}|{ME}|n[1-2]|3|0:03|a|b c|
8.batch|8|{UID}|{ME}|n1|1|0:03|batch|
8.extern|8|{UID}|{ME}|n1|1|0:03|extern|
8.TBD|8|{UID}|{ME}|n1|1|0:00|waits|
8.2|8|{UID}|{ME}|n1|1|0:01|pgdb|
9.0|9|{UID}|{ME}|n[1-2]|2|INVALID|orted|
9.batch|9|{UID}|{ME}|n1|1|0:03|batch|
10.0|10|{UID}|{ME}|n[1-2]|4|59:03|my job|
CLUSTER: dbg
11_1.0|15|{UID}|{ME}|n1|1|0:03|sleep|
11_1.batch|15|{UID}|{ME}|n1|1|0:03|batch|
11_2.0|16|{UID}|{ME}|n2|1|0:03|sleep|
"""
# scontrol omits the elements of arrays unless it is asked for the array.
ALL_PLACES = """\
StepId=8.0 UserId=0 State=RUNNING NodeList=n1 Tasks=1 Name=sleep SrunHost:Pid=vm:111
StepId=8.1 UserId=0 State=RUNNING NodeList=n[1-2] Tasks=3 Name=a|b c SrunHost:Pid=vm:112
StepId=8.batch UserId=0 State=RUNNING NodeList=n1 Tasks=1 Name=batch SrunHost:Pid=(null):0
StepId=10.0 UserId=0 State=RUNNING NodeList=n[1-2] Tasks=4 Name=my job SrunHost:Pid=login:7
"""
ARRAY_PLACES = """\
StepId=11_1.0 UserId=0 State=RUNNING NodeList=n1 Tasks=1 Name=sleep SrunHost:Pid=vm:115
"""
# Fields of squeue: number, shown, uid, user, state, reason, nodes, name.
JOBS = f"""\
4|4|{UID}|{ME}|COMPLETED|None|n1|done.sh
5|5|{UID}|{ME}|SUSPENDED|None|n1|s.sh
6|6|{UID + 1}|somebody|RUNNING|None|n1|theirs.sh
8|8|{UID}|{ME}|RUNNING|None|n[1-2]|two steps|b1.sh
9|9|{UID}|{ME}|RUNNING|None|n[1-2]|b2.sh
10|10|{UID}|{ME}|RUNNING|None|n[1-2]|my job
11|11_10|{UID}|{ME}|PENDING|JobArrayTaskLimit||b3.sh
16|11_2|{UID}|{ME}|RUNNING|None|n2|b3.sh
15|11_1|{UID}|{ME}|RUNNING|None|n1|b3.sh
12|12|{UID}|{ME}|PENDING|BeginTime||later.sh
13|13|{UID}|{ME}|COMPLETING|None|n1|ends.sh
"""
SQUEUE = """\
#!/bin/sh
[ -z "$SQUEUE_STATES" ] || exit 0
selected=
for word in "$@"; do
    case $before in -j | --jobs) selected=$word ;; -o | -O) format=$word ;; esac
    [ "$word" = -s ] && steps=1
    before=$word
done
if [ "$steps" ]; then
    if [ "$selected" ]; then awk -F'|' -v job="$selected" '$2 == job' {here}/steps
    else cat {here}/steps; fi
    exit
fi
found=$(awk -F'|' -v job="$selected" \\
    '$1 == job || $2 == job || index($2, job "_") == 1' {here}/jobs)
[ "$found" ] || {{ echo "slurm_load_jobs error: Invalid job id specified" >&2; exit 1; }}
echo "$found"
"""
SCONTROL = """\
#!/bin/sh
case $4 in
    "" | 8 | 9 | 10) cat {here}/all_places ;;
    *) cat {here}/array_places ;;
esac
"""


@pytest.fixture
def commands(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A directory of commands that comes first in PATH, with a squeue and an scontrol in it."""
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    for name, text in (
        ("steps", STEPS),
        ("jobs", JOBS),
        ("all_places", ALL_PLACES),
        ("array_places", ARRAY_PLACES),
    ):
        (tmp_path / name).write_text(text)
    write(tmp_path / "squeue", SQUEUE.format(here=tmp_path))
    write(tmp_path / "scontrol", SCONTROL.format(here=tmp_path))
    return tmp_path


def write(path: Path, text: str) -> None:
    path.write_text(text)
    path.chmod(0o755)


def error_of(call: Callable[[], object]) -> str:
    with pytest.raises(DiscoveryError) as caught:
        call()
    assert "\n" not in str(caught.value)
    return str(caught.value)


@pytest.mark.parametrize(
    ("text", "hosts"),
    [
        ("", ""),
        ("n1", "n1"),
        ("n1,n2", "n1 n2"),
        ("n[1-3,7],m1", "n1 n2 n3 n7 m1"),
        ("n[01-03]", "n01 n02 n03"),
        ("n[8-11]", "n8 n9 n10 n11"),
        ("n[098-101]", "n098 n099 n100 n101"),
        ("n[1,03]", "n1 n03"),
        ("r[1-2]c[1-2]", "r1c1 r1c2 r2c1 r2c2"),
        ("r[1-2]n[01,3]x", "r1n01x r1n3x r2n01x r2n3x"),
        ("a-b.example.org,c[0-1]-ib", "a-b.example.org c0-ib c1-ib"),
        ("[1-2]", "1 2"),
    ],
)
def test_expand_hosts(text: str, hosts: str) -> None:
    assert slurm.expand_hosts(text) == tuple(hosts.split())


@pytest.mark.parametrize(
    "text", ["n[1", "n1]", "n[2-1]", "n[a-b]", "n[]", "n[[1]]", ",n1", "n[1-]"]
)
def test_malformed_hosts(text: str) -> None:
    assert repr(text) in error_of(lambda: slurm.expand_hosts(text))


def test_steps(commands: Path) -> None:
    found = {step.target: step for step in slurm.steps()}
    # In order, without PGDB's own steps and those that no srun has started.
    assert list(found) == ["8.0", "8.1", "9.0", "10.0", "15.0", "16.0"]
    assert found["8.1"] == slurm.Step(
        job="8",
        step="1",
        hosts=("n1", "n2"),
        tasks=3,
        user=ME,
        name="a|b c",
        age_s=3.0,
        srun_host="vm",
        srun_pid=112,
    )
    assert found["8.0"].age_s == 86400 + 2 * 3600 + 3 * 60 + 4
    assert found["9.0"].age_s == 0.0
    assert found["9.0"].has_daemons
    assert (found["9.0"].srun_host, found["9.0"].srun_pid) == ("", 0)
    assert (found["10.0"].srun_host, found["10.0"].srun_pid) == ("login", 7)
    assert (found["15.0"].srun_host, found["15.0"].srun_pid) == ("vm", 115)
    assert [step.target for step in slurm.steps("8")] == ["8.0", "8.1"]


def test_settings_of_the_user_hide_nothing(commands: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SQUEUE_STATES", "PENDING")
    assert len(slurm.steps()) == 6


@pytest.mark.parametrize(
    ("text", "job", "step", "hosts"),
    [
        ("8.1", "8", "8.1", "n1 n2"),
        ("8.0", "8", "8.0", "n1"),
        ("8.batch", "8", None, "n1 n2"),
        ("9", "9", None, "n1 n2"),
        ("9.0", "9", None, "n1 n2"),
        ("10", "10", "10.0", "n1 n2"),
        ("11_2", "16", "16.0", "n2"),
        ("11_2.0", "16", "16.0", "n2"),
        ("15", "15", "15.0", "n1"),
    ],
)
def test_find_step(commands: Path, text: str, job: str, step: str | None, hosts: str) -> None:
    found = slurm.find_step(text)
    assert found.job == job
    assert (found.step.target if found.step is not None else None) == step
    assert found.hosts == tuple(hosts.split())
    assert found.user == ME
    assert found.steps == slurm.steps(job)


def test_name_of_a_job_may_hold_anything(commands: Path) -> None:
    assert slurm.find_step("8.0").name == "two steps|b1.sh"


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("4", ["Slurm job 4 has ended (COMPLETED)"]),
        ("13", ["Slurm job 13 has ended (COMPLETING)"]),
        ("5", ["suspended", "scontrol resume 5"]),
        ("8", ["several steps", "8.0 (sleep, 1 task)", "8.1 (a|b c, 3 tasks)", "pgdb attach 8.0"]),
        ("8.7", ["no running step 7", "8.0 (sleep), 8.1 (a|b c)"]),
        ("8.extern", ["has no ranks", "pgdb attach 8"]),
        ("11", ["array", "11_1, 11_2", "pgdb attach 11_1"]),
        ("11_10", ["does not run yet (PENDING, JobArrayTaskLimit)"]),
        ("12", ["does not run yet (PENDING, BeginTime)"]),
        ("77", ["squeue knows no job 77"]),
        ("77.0", ["squeue knows no job 77"]),
        ("ring", ["'ring' is no Slurm job", "JOB.STEP"]),
        ("8.x", ["'8.x' is no Slurm job"]),
        ("08", ["'08' is no Slurm job"]),
        ("8\n", ["'8\\n' is no Slurm job"]),
        ("", ["'' is no Slurm job"]),
    ],
)
def test_what_cannot_be_attached_to(commands: Path, text: str, parts: list[str]) -> None:
    message = error_of(lambda: slurm.find_step(text))
    assert not [part for part in parts if part not in message], message


def test_job_of_another_user(commands: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: UID + 2)
    message = error_of(lambda: slurm.find_step("6"))
    assert message == "Slurm job 6 belongs to user somebody; run pgdb as that user"
    # root may debug all.
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    assert slurm.find_step("6").step is None


def test_without_slurm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert not slurm.is_available()
    assert "squeue is not in PATH" in error_of(slurm.steps)
    assert "no squeue" in error_of(lambda: slurm.find_step("8"))


def test_steps_are_listed_without_scontrol(commands: Path) -> None:
    (commands / "scontrol").write_text("#!/bin/sh\nexit 1\n")
    found = slurm.steps()
    assert len(found) == 6
    assert {step.srun_pid for step in found} == {0}


def test_failure_is_quoted(commands: Path) -> None:
    assert slurm.is_available()
    said = "squeue: error: one thing\\nslurm_load_jobs error: Unable to contact slurm controller"
    write(commands / "squeue", f"#!/bin/sh\nprintf '{said}\\n' >&2\nexit 1\n")
    message = error_of(slurm.steps)
    assert message == (
        "Slurm's squeue failed: slurm_load_jobs error: Unable to contact slurm controller"
    )
    assert "Unable to contact" in error_of(lambda: slurm.find_step("8"))


def test_controller_that_does_not_answer(commands: Path) -> None:
    write(commands / "squeue", "#!/bin/sh\nexec sleep 3600\n")
    message = error_of(lambda: slurm.steps(timeout_s=0.2))
    assert "squeue did not answer within 0.2 s" in message
