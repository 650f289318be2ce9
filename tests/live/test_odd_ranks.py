"""Jobs with ranks in containers, replaced, stopped, traced, stuck; launches of scripts."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import uuid
from contextlib import suppress
from pathlib import Path

import pytest

from pgdb.backend.care.breakpoint_repair import RankText, Repair
from pgdb.backend.gdb.unstoppable import frozen_group
from tests.conftest import Build, StartJob
from tests.support.named_jobs import assert_free, running
from tests.support.processes import is_alive, is_traced, status, wait_until
from tests.support.programs import Builder, Mpi, Program, find_mpi
from tests.support.single_ranks import started
from tests.support.terminal import DEADLINE_S, Finished, assert_untouched, ex, run_json

# -- containers ----------------------------------------------------------------------------------


@pytest.fixture(scope="session")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A root directory with a program in it, under the name of one that is here as well."""
    compiler = shutil.which("cc") or pytest.skip("this machine has no C compiler")
    source = Path(__file__).parents[1] / "programs" / "inside.c"
    root = tmp_path_factory.mktemp("tree")
    for name in ("usr/bin", "opt/inside", "old"):
        (root / name).mkdir(parents=True)
    build = [compiler, "-g", "-O0", str(source)]
    library = root / "opt/inside/libinside.so"
    subprocess.run([*build, "-DLIBRARY", "-fPIC", "-shared", "-o", library], check=True, timeout=60)
    link = ["-L", str(library.parent), "-linside", "-Wl,-rpath,/opt/inside"]
    subprocess.run([*build, *link, "-o", root / "usr/bin/env"], check=True, timeout=60)
    reported = subprocess.run(
        ["ldd", root / "usr/bin/env"], check=True, capture_output=True, text=True, timeout=60
    ).stdout
    for word in reported.split():
        if word.startswith("/"):
            (root / word[1:]).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(word, root / word[1:])
    return root


NEW_ROOT = Path(__file__).parents[1] / "programs" / "inside.sh"
CONTAINERS = {
    "chroot": ("unshare", "--mount", "chroot"),
    "chroot of a user": ("unshare", "--map-root-user", "--mount", "chroot"),
    "new root": ("unshare", "--mount", str(NEW_ROOT)),
    "new root of a user": ("unshare", "--map-root-user", "--mount", str(NEW_ROOT)),
    "with its own process ids": (
        *("unshare", "--map-root-user", "--mount", "--pid", "--fork", "--kill-child"),
        str(NEW_ROOT),
    ),
}


@pytest.mark.mpi
@pytest.mark.parametrize("kind", CONTAINERS)
def test_ranks_in_containers(builder: Builder, tree: Path, kind: str) -> None:
    words = [*CONTAINERS[kind], str(tree)]
    if subprocess.run([*words[: words.index("--mount") + 1], "true"], check=False).returncode:
        pytest.skip(f"this machine does not allow {' '.join(words[:3])}")
    mpi = find_mpi("openmpi")
    line = mpi.line(2, words[0], *words[1:], "/usr/bin/env")
    source = Program(path=tree, source=Path(__file__).parents[1] / "programs" / "inside.c")
    with running(line, 2, "env") as (launcher, ranks):
        commands = ("bt", "info sharedlibrary", "break library_pause", "c", "p last_step >= 0")
        finished = run_json("attach", *ex(*commands), launcher)
        assert finished.status == 0, finished.out
        (stack,) = finished.answer("backtrace")["classes"]
        frames = {each["function"]: each for each in stack["record"]["frames"]}
        assert frames["main"]["line"] == source.line("main")
        assert frames["library_pause"]["arguments"][0]["name"] == "step"
        # By the rank's own names, so that all ranks are of one class.
        (libraries,) = finished.answer("info sharedlibrary")["classes"]
        assert " /opt/inside/libinside.so" in libraries["record"]["text"]
        (hit,) = finished.answer("continue")["classes"]
        assert (hit["record"]["reason"], hit["record"]["frame"]["line"]) == (
            "breakpoint-hit",
            source.line("library"),
        )
        assert finished.answer("print last_step >= 0")["classes"][0]["value"] == 1
        assert_free(ranks)


def test_breakpoints_are_taken_out_of_a_rank_in_a_container(tree: Path) -> None:
    words = [*CONTAINERS["chroot of a user"], str(tree)]
    if subprocess.run([*words[:3], "true"], check=False).returncode:
        pytest.skip("this machine does not allow unshare --map-root-user --mount")
    with started(*words, "/usr/bin/env", name="env") as pid:
        assert_restored(pid)


def test_breakpoints_are_taken_out_of_a_rank_whose_program_was_deleted(
    builder: Builder, tmp_path: Path
) -> None:
    path = builder.build(find_mpi("openmpi"), "nompi.c").copied(tmp_path / "nompi").path
    with started(str(path), name="nompi") as pid:
        path.unlink()
        assert_restored(pid)


def assert_restored(pid: int) -> None:
    """Check that a breakpoint is taken out of the first code that a process has mapped."""
    with open(f"/proc/{pid}/maps") as maps:
        fields = next(line.split() for line in maps if " r-xp " in line)
    at = int(fields[0].partition("-")[0], 16) + 64
    with open(f"/proc/{pid}/mem", "r+b", buffering=0) as memory:
        memory.seek(at)
        original = memory.read(1)
        memory.seek(at)
        memory.write(b"\xcc")
        assert RankText().repair(pid) == Repair(restored=int(original != b"\xcc"))
        memory.seek(at)
        assert memory.read(1) == original


# -- ranks of ordinary jobs ------------------------------------------------------------------------


@pytest.mark.mpi
@pytest.mark.any_mpi
@pytest.mark.parametrize("replacement", [None, "/bin/true"])
def test_a_program_that_was_replaced_while_it_runs(
    build: Build, mpi: Mpi, tmp_path: Path, replacement: str | None
) -> None:
    program = build("nompi.c")
    path = program.copied(tmp_path / "nompi").path
    with running(mpi.line(2, path), 2, "nompi") as (launcher, ranks):
        path.unlink()
        if replacement:
            shutil.copy(replacement, path)
        finished = run_json("attach", *ex("bt"), launcher)
        assert finished.status == 0
        (stack,) = finished.answer("backtrace")["classes"]
        assert stack["record"]["frames"][-1]["function"] == "main"
        assert stack["record"]["frames"][-1]["line"] == program.line("step")
        assert_free(ranks)


@pytest.mark.mpi
@pytest.mark.any_mpi
def test_a_rank_that_was_stopped_is_stopped_again(build: Build, start_job: StartJob) -> None:
    with start_job(3, build("threads.c")) as job:
        os.kill(job.ranks[1], signal.SIGSTOP)
        wait_until(lambda: status(job.ranks[1], "State").startswith("T"), "rank 1 is stopped")
        # It runs while it is debugged, and does not stop at what stopped it.
        commands = ("c &", "p 1", "interrupt", "wait", "c &", "interrupt", "wait", "bt")
        finished = run_json("attach", *ex(*commands), job.pid)
        reasons = {each["reason"] for stop in finished.of_type("stop") for each in stop["classes"]}
        assert "signal-received" not in reasons, finished.out
        assert finished.answer("backtrace")["ranks"] == "0-2"
        wait_until(lambda: status(job.ranks[1], "State").startswith("T"), "rank 1 is stopped again")
        os.kill(job.ranks[1], signal.SIGCONT)
        assert_untouched(job.ranks)


@pytest.mark.mpi
@pytest.mark.any_mpi
def test_a_rank_that_is_traced_already(build: Build, start_job: StartJob) -> None:
    with start_job(3, build("storm.c")) as job:
        other = subprocess.Popen(
            ["gdb", "-nx", "-q", "-p", str(job.ranks[1])],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        try:
            wait_until(lambda: is_traced(job.ranks[1]), "rank 1 is traced", DEADLINE_S)
            finished = run_json("attach", *ex("break hit", "c"), job.pid)
            said = finished.out + finished.err
            assert f"is already traced by {other.pid} (gdb)" in said
            assert [each["ranks"] for each in finished.answer("continue")["classes"]] == ["0,2"]
        finally:
            other.communicate()  # the end of its input
        assert_untouched(job.ranks)


@pytest.mark.mpi
@pytest.mark.any_mpi
def test_the_program_ends_below_a_shell_that_lives_on(build: Build, mpi: Mpi) -> None:
    program = build("nompi.c")
    line = mpi.line(2, "bash", "-c", f"{program.path}; exec sleep 300")
    with running(line, 2, "nompi") as (launcher, ranks):
        commands = (f"break {program.at('step')}", "c", "delete", "set var steps = 0", "c")
        finished = run_json("attach", *ex(*commands), launcher)
        reported = [each["record"] for each in finished.answers("continue")[1]["classes"]]
        assert [(each["kind"], each["code"]) for each in reported] == [("exit", 0)]
        assert ends(finished) == {0}
        assert is_alive(launcher)
        assert not any(is_alive(pid) for pid in ranks.values())


@pytest.mark.mpi
def test_a_script_that_starts_one_short_program_after_the_other(mpi: Mpi) -> None:
    line = mpi.line(3, "bash", "-c", "while :; do /bin/sleep 0.001; done")
    with running(line, 3, "bash") as (launcher, _):
        for _ in range(4):
            finished = run_json("attach", *ex("print 40 + 2"), launcher)
            assert finished.status == 0, finished.out + finished.err
            assert finished.texts("print 40 + 2") == {"0-2": "42"}


@pytest.mark.mpi
@pytest.mark.any_mpi
def test_ranks_beside_one_that_nothing_can_stop_are_attached_to(
    mpi: Mpi, build: Build, tmp_path: Path
) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    script = tmp_path / "job.sh"
    rank = "${OMPI_COMM_WORLD_RANK:-${PMI_RANK:-$PMIX_RANK}}"
    program = build("vforked.c").path
    begin = tmp_path / "begin"
    words = f"{program} {begin} {pipe}"
    script.write_text(f"#!/bin/sh\n[ {rank} = 1 ] && exec {words}\nexec {program}\n")
    script.chmod(0o755)
    with running(mpi.line(3, script), 3, "vforked") as (launcher, ranks):
        begin.touch()
        wait_until(lambda: status(ranks[1], "State").startswith("D"), "it waits in vfork")
        finished = run_json("attach", *ex("print 6 * 7"), launcher)
        assert [each["ranks"] for each in finished.answer("print 6 * 7")["classes"]] == ["0,2"]
        assert "sleeps in the kernel" in finished.out + finished.err
        pipe.write_bytes(b"x")
        assert_free(ranks)


FREEZERS = {
    "cgroup v1": ("/sys/fs/cgroup/freezer", "freezer.state", "FROZEN", "THAWED"),
    "cgroup v2": ("/sys/fs/cgroup", "cgroup.freeze", "1", "0"),
    "cgroup v2 beside v1": ("/sys/fs/cgroup/unified", "cgroup.freeze", "1", "0"),
}


class Freezer:
    """A control group that freezes the processes in it."""

    def __init__(self, top: str, file: str, frozen: str, thawed: str) -> None:
        self._top = Path(top)
        self.folder = self._top / f"pgdb-test-{uuid.uuid4().hex[:8]}"
        self._file, self._frozen, self._thawed = file, frozen, thawed

    def __enter__(self) -> Freezer:
        try:
            self.folder.mkdir()
        except OSError as error:
            pytest.skip(f"this machine allows no control group in {self._top}: {error.strerror}")
        if not (self.folder / self._file).exists():
            self.folder.rmdir()
            pytest.skip(f"{self._top} is not a hierarchy of control groups that freezes")
        return self

    def __exit__(self, *_: object) -> None:
        self.thaw()
        for pid in (self.folder / "cgroup.procs").read_text().split():
            with suppress(OSError):  # it has ended
                (self._top / "cgroup.procs").write_text(pid)
        wait_until(lambda: not (self.folder / "cgroup.procs").read_text(), "the group is empty")
        self.folder.rmdir()

    def freeze(self, pid: int) -> None:
        (self.folder / "cgroup.procs").write_text(str(pid))
        (self.folder / self._file).write_text(self._frozen)
        wait_until(lambda: frozen_group(pid) == str(self.folder), f"process {pid} is frozen")

    def thaw(self) -> None:
        (self.folder / self._file).write_text(self._thawed)


@pytest.mark.mpi
@pytest.mark.any_mpi
@pytest.mark.parametrize("kind", FREEZERS)
def test_ranks_beside_a_frozen_one_are_attached_to(mpi: Mpi, build: Build, kind: str) -> None:
    program = build("nompi.c")
    with (
        running(mpi.line(3, program), 3, "nompi") as (launcher, ranks),
        Freezer(*FREEZERS[kind]) as freezer,
    ):
        freezer.freeze(ranks[1])
        finished = run_json("attach", *ex("print 6 * 7"), launcher)
        assert [each["ranks"] for each in finished.answer("print 6 * 7")["classes"]] == ["0,2"]
        said = finished.out + finished.err
        assert f"control group is frozen ({freezer.folder})" in said
        assert "'reattach'" in said
        freezer.thaw()
        finished = run_json("attach", *ex("print 6 * 7"), launcher)
        assert [each["ranks"] for each in finished.answer("print 6 * 7")["classes"]] == ["0-2"]
        assert_free(ranks)


# -- launching -------------------------------------------------------------------------------------


def ends(finished: Finished) -> set[int]:
    return {each["code"] for line in finished.of_type("exit") for each in line.get("classes", ())}


@pytest.mark.mpi
def test_a_script_that_names_its_interpreter(mpi: Mpi, build: Build) -> None:
    finished = run_json("launch", *ex("c"), *mpi.line(2, build("script.py"), "3"))
    stop = finished.of_type("stop")[0]["classes"][0]
    assert (stop["ranks"], stop["reason"]) == ("0-1", "main")
    assert stop["frame"]["function"] in ("main", "Py_BytesMain", "Py_RunMain")
    assert "the script runs" in "".join(each["text"] for each in finished.of_type("output"))
    assert ends(finished) == {3}


@pytest.mark.mpi
def test_arguments_with_newlines(mpi: Mpi, build: Build) -> None:
    program = build("nompi.c")
    finished = run_json("launch", *ex("p argv[3]", "c"), *mpi.line(2, program, "-", "1", "a\nb\n"))
    assert finished.answer("print argv[3]")["classes"][0]["record"]["text"].endswith('"a\\nb\\n"')
    assert ends(finished) == {0}
