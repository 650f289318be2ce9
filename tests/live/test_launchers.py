"""Attaching to the jobs of every launcher, started in all the ways that users start them.

Each launcher on this host and on four: attach and detach without a trace, launch and run to the
end. Then programs between a launcher and its ranks, or between a user and the launcher.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest

from pgdb.ranks import RankSet
from tests.support.hosts import Hosts
from tests.support.jobs import Job, run_job
from tests.support.launcher_scenes import START_DEADLINE_S, Scene
from tests.support.processes import is_alive, is_traced, wait_until
from tests.support.programs import MPI_DIRECTORIES, Builder, Mpi, Program, find_mpi
from tests.support.terminal import (
    PGDB,
    Finished,
    Terminal,
    assert_untouched,
    environment,
    ex,
    run_json,
    run_pgdb,
)

pytestmark = pytest.mark.mpi

ALL = ("openmpi", "openmpi5", "mpich", "mpich-system", "intel")
FOUR_HOSTS = ("openmpi", "openmpi5", "mpich", "intel")
FOUND_BY = {
    "openmpi": r"MPIR_proctable of mpirun \d+",
    "openmpi5": r"environment of the ranks of prterun \d+",
    "mpich": r"table of ranks in the memory of mpirun\S* \d+",
    "mpich-system": r"table of ranks in the memory of mpirun\S* \d+",
    "intel": r"MPIR_proctable of mpiexec.hydra \d+",
}
"""Message of --verbose about the discovery step that found the ranks."""


@pytest.fixture(
    params=[
        *(pytest.param((name, 1), id=f"{name}-1") for name in ALL),
        *(pytest.param((name, 4), id=f"{name}-4", marks=pytest.mark.hosts) for name in FOUR_HOSTS),
    ]
)
def scene(request: pytest.FixtureRequest) -> Scene:
    name, hosts = request.param
    mpi = find_mpi(name)
    if hosts == 1:
        return Scene(mpi, None)
    if name == "mpich" and MPI_DIRECTORIES[name] not in os.environ:
        pytest.skip("the MPICH of Debian 12 (4.0.2) hangs in MPI_Finalize on several hosts")
    return Scene(mpi, request.getfixturevalue("four_hosts"))


@pytest.fixture(params=ALL)
def mpi(request: pytest.FixtureRequest) -> Mpi:
    return find_mpi(request.param)


@pytest.fixture
def openmpi() -> Mpi:
    return find_mpi("openmpi")


def attach(*arguments: object, commands: Sequence[str] = ("bt",), **how: object) -> Finished:
    return run_json("attach", *ex(*commands), *arguments, deadline_s=START_DEADLINE_S, **how)


def assert_in_program(finished: Finished, ranks: str) -> None:
    """Check that a backtrace of just these ranks leads to `main` of the ring."""
    assert finished.status == 0, finished.out + finished.err
    stacks = finished.answer("backtrace")
    assert stacks["ranks"] == ranks, finished.err
    assert not any(stacks.get("missing", {}).values()), stacks
    for each in stacks["classes"]:
        names = [frame["function"] for frame in each["record"]["frames"]]
        # Between two steps a rank is in neither for a moment.
        assert names[-2:] in (["advance", "main"], ["main"]), names


def output_of(finished: Finished) -> str:
    return "".join(each["text"] for each in finished.of_type("output"))


def exit_codes(finished: Finished) -> dict[int, int]:
    """Return the exit code of each rank."""
    reported = [each for line in finished.of_type("exit") for each in line.get("classes", ())]
    return {rank: each["code"] for each in reported for rank in RankSet.parse(each["ranks"])}


# -- every launcher, on one host and on four ---------------------------------------------------


def test_attach(scene: Scene, builder: Builder) -> None:
    ring = builder.build(scene.mpi, "ring")
    line = scene.mpi.line(scene.ranks, ring, hosts=scene.names)
    with run_job(builder, scene.here(line), ring, scene.ranks) as job:
        # The second session finds what the first has left.
        for options in (("--verbose",), ("--aggregators", "2")):
            finished = scene.json("attach", *options, *ex("bt", "ranks"), job.pid)
            everybody = f"0-{scene.ranks - 1}"
            assert finished.objects[0]["hosts"] == scene.shares, finished.err
            assert_in_program(finished, everybody)
            if options == ("--verbose",):
                assert re.search(rf"found .*\((?:{FOUND_BY[scene.mpi.name]})", finished.err)
            assert_untouched(job.ranks, progress=5)
        assert job.process.poll() is None


SAY = """\
#!/bin/bash
echo "say: $PWD, $PGDB_TEST_WORD"
compgen -e | sort >"$PGDB_TEST_WORD.$$"
exec "$@"
"""
"""A user's script around the program; it leaves the names of the variables that it has got."""


def users_line(scene: Scene, directory: Path, program: Program, word: str) -> list[str]:
    """Return a launch line as users write them, with all that there can be in it.

    Two programs, the first below a script that is named relative to the ranks' working directory;
    a host file; a variable for the ranks. Rank 0 is to end with status 7.
    """
    names = scene.names or ("localhost",)
    slots = -(-scene.ranks // len(names))
    is_open_mpi = scene.mpi.name.startswith("openmpi")
    form = "{0} slots={1}\n" if is_open_mpi else "{0}:{1}\n"
    file = directory / "hostfile"
    file.write_text("".join(form.format(name, slots) for name in names))
    if is_open_mpi:
        options = ["--hostfile", str(file), "--oversubscribe", "--bind-to", "none"]
        options += ["--mca", "mpi_show_mca_params", "none", "-x", f"PGDB_TEST_WORD={word}"]
        options += ["--wdir", str(directory), "-np"]
    else:
        options = ["-f", str(file), *(["-ppn", str(slots)] if scene.mpi.name == "intel" else [])]
        options += ["-genv", "PGDB_TEST_WORD", word, "-wdir", str(directory), "-n"]
    first = [str(scene.ranks - 1), "./say.sh", str(program.path), "0", "7"]
    return [scene.mpi.launcher, *options, *first, ":", "-n", "1", str(program.path), "0", "7"]


def run_plain(line: Sequence[str], out: Path) -> int:
    """Run a job without PGDB to its end, with its output in a file; return its status."""
    with out.open("wb") as file:
        done = subprocess.run(
            line,
            stdin=subprocess.DEVNULL,
            stdout=file,
            stderr=subprocess.DEVNULL,
            env=environment(uuid.uuid4().hex),
            timeout=START_DEADLINE_S,
            check=False,
            start_new_session=True,
        )
    return done.returncode


def names_left(directory: Path, word: str) -> list[set[str]]:
    """Return the names of the variables that each run of the script has got."""
    return [set(path.read_text().split()) for path in directory.glob(f"{word}.*")]


def test_launch(scene: Scene, builder: Builder) -> None:
    program = builder.build(scene.mpi, "exitcode")
    directory = builder.directory / uuid.uuid4().hex
    directory.mkdir()
    script = directory / "say.sh"
    script.write_text(SAY)
    script.chmod(0o755)
    plain = users_line(scene, directory, program, "plain")
    # Intel's ends the other hosts' ranks at the first that fails, and then 255 may come of it.
    assert run_plain(scene.here(plain), directory / "out") in (7, 255)
    # All end MPI, then all but rank 0 end, and it last: so no launcher ends ranks by itself.
    everybody, others = f"0-{scene.ranks - 1}", f"1-{scene.ranks - 1}"
    commands = ex(f"break {program.at('exit')}", "c", f"proc {others} c", "proc 0 c")
    ours = users_line(scene, directory, program, "ours")
    finished = scene.json("launch", "--exit-code=job", *commands, *ours)
    stop = finished.of_type("stop")[0]
    assert [each["ranks"] for each in stop["classes"]] == [everybody], finished.out + finished.err
    assert stop["classes"][0]["reason"] == "main"
    assert stop["classes"][0]["frame"]["line"] == program.line("main")
    # Hydra begins anew with the first host for the second program.
    hosts = {each["host"]: RankSet.parse(each["ranks"]) for each in finished.objects[0]["hosts"]}
    assert sorted(hosts) == [each["host"] for each in scene.shares]
    assert RankSet.union(hosts.values()) == RankSet.parse(everybody)
    assert exit_codes(finished) == {rank: 7 * (rank == 0) for rank in range(scene.ranks)}
    assert finished.status == 7
    for word, text in (("plain", (directory / "out").read_text()), ("ours", output_of(finished))):
        assert text.count(f"say: {directory}, {word}\n") == scene.ranks - 1
    expected, got = names_left(directory, "plain"), names_left(directory, "ours")
    assert len(got) == scene.ranks - 1
    assert sorted(map(sorted, got)) == sorted(map(sorted, expected))


# -- what is between a launcher and its ranks, and between us and the launcher -----------------


@contextmanager
def started_by(
    kind: str, directory: Path, builder: Builder, line: Sequence[str], program: Program, ranks: int
) -> Iterator[Job]:
    """Run a job that make, a Python program or a shell script has started."""
    command = shlex.join(line)
    if kind == "make":
        path = directory / "Makefile"
        path.write_text(f"check:\n\t{command.replace('$', '$$')}\n\t@echo done\n")
        words = ["make", "-f", str(path), "check"]
    elif kind == "python":
        path = directory / "run.py"
        path.write_text(f"import subprocess\nsubprocess.run({list(line)!r})\nprint('done')\n")
        words = [sys.executable, str(path)]
    else:
        path = directory / "run.sh"
        path.write_text(f"#!/bin/sh\n{command} &\nwait\n")
        path.chmod(0o755)
        words = [str(path)]
    with run_job(builder, words, program, ranks) as job:
        yield job


STARTERS = {
    "openmpi": "make",
    "openmpi5": "python",
    "mpich": "script",
    "mpich-system": "make",
    "intel": "python",
}


def test_any_process_of_a_job_stands_for_it(builder: Builder, mpi: Mpi, tmp_path: Path) -> None:
    ring = builder.build(mpi, "ring")
    shell = ["sh", "-c", 'taskset -c 0 "$0"; exit $?', str(ring.path)]
    line = [*mpi.line(1, "taskset"), "-c", "0", str(ring.path)]
    line += [":", "-n", "1", *shell, ":", "-n", "1", str(ring.path)]
    with started_by(STARTERS[mpi.name], tmp_path, builder, line, ring, 3) as job:
        for pid in (job.pid, job.ranks[1]):
            finished = attach("--program", "ring", pid)
            assert_in_program(finished, "0-2")
            assert_untouched(job.ranks, progress=5)


def test_explicit_pids(builder: Builder, openmpi: Mpi, tmp_path: Path) -> None:
    ring = builder.build(openmpi, "ring")
    with run_job(builder, openmpi.line(3, ring), ring, 3) as job:
        pids = [str(job.ranks[rank]) for rank in (2, 0)]
        file = tmp_path / "pids"
        file.write_text("\n".join([*pids, ""]))
        for given, stdin in ((",".join(pids), b""), (file, b""), ("-", " ".join(pids).encode())):
            assert_in_program(attach("--pids", given, stdin=stdin), "0,2")
        assert_untouched(job.ranks, progress=5)


@pytest.mark.hosts
def test_pids_of_several_hosts(builder: Builder, four_hosts: Hosts) -> None:
    scene = Scene(find_mpi("openmpi"), four_hosts)
    ring = builder.build(scene.mpi, "ring")
    line = scene.mpi.line(scene.ranks, ring, hosts=scene.names)
    with run_job(builder, scene.here(line), ring, scene.ranks) as job:
        wanted = {0: "h1", 3: "h2", 6: "h4"}
        given = ",".join(f"{host}:{job.ranks[rank]}" for rank, host in wanted.items())
        finished = scene.json("attach", *ex("bt"), "--pids", given)
        assert [each["host"] for each in finished.objects[0]["hosts"]] == ["h1", "h2", "h4"]
        assert_in_program(finished, "0-2")
        assert_untouched(job.ranks, progress=5)


@pytest.mark.hosts
def test_a_rank_of_another_host_that_is_traced(builder: Builder, four_hosts: Hosts) -> None:
    scene = Scene(find_mpi("openmpi"), four_hosts)
    ring = builder.build(scene.mpi, "ring")
    line = scene.mpi.line(scene.ranks, ring, hosts=scene.names)
    with run_job(builder, scene.here(line), ring, scene.ranks) as job:
        gdb = subprocess.Popen(
            ["gdb", "-nx", "-q", "-p", str(job.ranks[5])],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        try:
            wait_until(lambda: is_traced(job.ranks[5]), "rank 5 is traced", START_DEADLINE_S)
            finished = scene.json("attach", *ex("bt"), job.pid)
            assert f"is already traced by {gdb.pid} (gdb)" in finished.out + finished.err
            ranks = [each["ranks"] for each in finished.answer("backtrace")["classes"]]
            assert ranks, finished.out
            assert not any("5" in each for each in ranks), ranks
            assert finished.answer("backtrace")["missing"]["lost"] == "5"
        finally:
            gdb.communicate()  # the end of its input, at which it detaches
        assert_untouched(job.ranks, progress=5)


@pytest.mark.parametrize("name", ["openmpi", "openmpi5", "mpich", "intel"])
def test_some_ranks_have_ended(builder: Builder, name: str) -> None:
    mpi = find_mpi(name)
    program = builder.build(mpi, "nompi")
    end = builder.directory / f"end-{uuid.uuid4().hex}"
    line = [*mpi.line(1, program, str(end)), ":", "-n", "2", str(program.path)]
    with run_job(builder, line, program, 3, in_mpi=False) as job:
        end.touch()
        wait_until(lambda: not is_alive(job.ranks[0]), "rank 0 has ended")
        finished = attach(job.pid)
        assert finished.objects[0]["ranks"] == "1-2", finished.err
        assert "note: ranks [0] have ended already" in finished.err
        del job.ranks[0]
        assert_untouched(job.ranks, progress=5)


LAUNCHER = """\
import os, subprocess, sys
size, *line = sys.argv[1:]
ranks = [
    subprocess.Popen(line, env={**os.environ, "PMI_RANK": str(rank), "PMI_SIZE": size})
    for rank in range(int(size))
]
sys.exit(max(rank.wait() for rank in ranks))
"""


def test_a_launcher_that_nobody_knows(builder: Builder, openmpi: Mpi, tmp_path: Path) -> None:
    program = builder.build(openmpi, "nompi")
    script = tmp_path / "start"
    script.write_text(LAUNCHER)
    line = [sys.executable, str(script), "3", str(program.path)]
    with run_job(builder, line, program, 3, in_mpi=False) as job:
        finished = attach("--verbose", job.pid)
        assert "is no launcher PGDB knows; looked for ranks below it" in finished.err
        assert re.search(r"found 3 ranks on 1 host \(environment of the ranks", finished.err)
        assert finished.answer("backtrace")["ranks"] == "0-2"
        assert_untouched(job.ranks, progress=5)


@pytest.mark.hosts
def test_pids_that_lead_to_no_job(four_hosts: Hosts) -> None:
    def refusal(finished: Finished) -> str:
        assert finished.status == 3, finished.out + finished.err
        assert finished.err.count("\n") == 1, finished.err
        return finished.err

    here = four_hosts.command("h1", PGDB)
    arguments = ("attach", "--batch", *ex("bt"))
    sshd = refusal(run_pgdb(*arguments, four_hosts.sshd("h1"), command=here))
    assert "(sshd) is no MPI launcher" in sshd
    ended = subprocess.Popen(["true"])
    ended.wait()
    assert "there is no process" in refusal(run_pgdb(*arguments, ended.pid, command=here))
    # The shell turns into PGDB, which so gets its own pid.
    own = ["sh", "-c", 'exec "$@" $$', "sh", *PGDB]
    assert "is no MPI launcher" in refusal(run_pgdb(*arguments, command=own))


# -- the one job there is, or which ------------------------------------------------------------


@pytest.mark.hosts
def test_jobs_and_the_choice_of_one(builder: Builder, four_hosts: Hosts) -> None:
    # On a host of our own there are no other people's jobs.
    here = four_hosts.command("h1", PGDB)
    one, other = find_mpi("openmpi"), find_mpi("mpich-system")
    finished = run_pgdb("attach", "--batch", *ex("bt"), command=here)
    assert finished.status == 3
    assert "no running job on this host" in finished.err
    ring, nompi = builder.build(one, "ring"), builder.build(other, "nompi")
    with run_job(builder, four_hosts.command("h1", one.line(2, ring)), ring, 2) as first:
        assert_in_program(attach(command=here), "0-1")
        line = four_hosts.command("h1", other.line(3, nompi))
        with run_job(builder, line, nompi, 3, in_mpi=False) as second:
            listed: set[tuple[str, int | None, int | None]] = set()

            def are_counted() -> bool:
                # On a busy machine it takes longer than there is time for a list.
                rows = run_pgdb("jobs", "--json", command=here).out.splitlines()
                found = [json.loads(row) for row in rows]
                listed.clear()
                listed.update((row["target"], row.get("ranks"), row.get("hosts")) for row in found)
                return all(ranks is not None for _, ranks, _ in listed)

            wait_until(are_counted, "the ranks of both jobs are counted", START_DEADLINE_S)
            assert listed == {(str(first.pid), 2, 1), (str(second.pid), 3, 1)}
            table = run_pgdb("jobs", command=here).out
            assert str(ring.path) in table and str(nompi.path) in table
            finished = run_pgdb("attach", "--batch", *ex("bt"), command=here)
            assert finished.status == 3
            for job in (first, second):
                assert f"{job.pid}: " in finished.err
            with Terminal(*here, "attach") as terminal:
                terminal.expect("attach to JOB:", deadline_s=START_DEADLINE_S)
                terminal.line("1")
                terminal.expect("'1' is none of")
                terminal.line(str(second.pid))
                terminal.expect(r"\(pgdb 0-2\)", deadline_s=START_DEADLINE_S)
                terminal.line("quit")
                assert terminal.wait() == 0
            assert_untouched(second.ranks, progress=5)
        assert_untouched(first.ranks, progress=5)


# -- launch lines ------------------------------------------------------------------------------


SITE_MPIRUN = """\
#!/bin/sh
# An option that a wrapper of the site takes and that mpirun itself does not know.
if [ "$1" = --site-queue ]; then
    shift 2
fi
exec {launcher} "$@"
"""


@pytest.mark.parametrize("name", ["openmpi", "mpich"])
def test_an_option_that_only_the_launcher_knows(
    builder: Builder, name: str, tmp_path: Path
) -> None:
    mpi = find_mpi(name)
    program = builder.build(mpi, "exitcode")
    site = tmp_path / "mpirun"
    site.write_text(SITE_MPIRUN.format(launcher=mpi.launcher))
    site.chmod(0o755)
    options = ["--site-queue", "short", *mpi.line(2, program)[1:-1]]
    for between in ([], ["--"]):
        line = [str(site), *options, *between, str(program.path)]
        finished = run_json("launch", *ex("c"), *line, deadline_s=START_DEADLINE_S)
        assert finished.of_type("stop")[0]["classes"][0]["reason"] == "main"
        assert exit_codes(finished) == {0: 0, 1: 0}
        doubt = "took 'short' for the argument of --site-queue" in finished.err
        assert doubt == (not between), finished.err


@pytest.mark.parametrize("name", ALL)
def test_a_program_found_through_path(
    builder: Builder, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    mpi = find_mpi(name)
    program = builder.build(mpi, "exitcode")
    monkeypatch.setenv("PATH", f"{program.path.parent}:{os.environ['PATH']}")
    # Below a script that starts it and lives on, and a shell script that turns into it.
    forker, wrapper = builder.build(mpi, "forker.sh"), builder.build(mpi, "wrapper.sh")
    line = [*mpi.line(1, program.path.name), ":", "-n", "1", str(forker.path), program.path.name]
    line += [":", "-n", "1", str(wrapper.path), program.path.name]
    finished = run_json("launch", *ex("c"), *line, deadline_s=START_DEADLINE_S)
    stop = finished.of_type("stop")[0]["classes"]
    assert [(each["ranks"], each["reason"]) for each in stop] == [("0-2", "main")], finished.out
    assert stop[0]["frame"]["line"] == program.line("main")
    assert finished.status == 0


# One write per line: print() makes several where PYTHONUNBUFFERED is set, and lines get mixed up.
PYTHON_PROGRAM = """\
#!/usr/bin/env python3
import os
from mpi4py import MPI

os.write(1, f"rank {MPI.COMM_WORLD.rank} of {MPI.COMM_WORLD.size}\\n".encode())
"""


def test_a_python_program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    mpi = find_mpi("mpich")
    library = Path(mpi.launcher).parent.parent / "lib" / "libmpi.so.12"
    if not library.exists():
        pytest.skip(f"{mpi.launcher} has no {library}, which mpi4py would have to load")
    program = tmp_path / "program.py"
    program.write_text(PYTHON_PROGRAM)
    program.chmod(0o755)
    # As in an activated virtual environment.
    monkeypatch.setenv("PATH", f"{Path(sys.executable).parent}:{os.environ['PATH']}")
    monkeypatch.setenv("MPI4PY_LIBMPI", str(library))
    finished = run_json("launch", *ex("c"), *mpi.line(2, program), deadline_s=START_DEADLINE_S)
    assert finished.of_type("stop")[0]["classes"][0]["reason"] == "main"
    assert sorted(output_of(finished).splitlines()) == ["rank 0 of 2", "rank 1 of 2"]
    assert finished.status == 0
