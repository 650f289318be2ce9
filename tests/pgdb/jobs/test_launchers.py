import os
import re
import shutil
import subprocess
import time
from pathlib import Path

import pytest

from pgdb.errors import StartError, UsageError
from pgdb.jobs import launch_lines, launchers
from pgdb.jobs.launch_lines import TABLES, check_program, given_words, parse_launch_line
from pgdb.jobs.launchers import Family, Launcher, find_launcher, launcher_of_process
from pgdb.jobs.placement import scrubbed_environment

VERSIONS = {
    Family.OPEN_MPI_4: "mpirun (Open MPI) 4.1.4",
    Family.OPEN_MPI_5: "mpirun (Open MPI) 5.0.11",
    Family.MPICH: "HYDRA build details:\n    Version:            4.0.2",
    Family.INTEL: "Intel(R) MPI Library for Linux* OS, Version 2021.18.1 Build 20260626",
    Family.SLURM: "slurm-wlm 22.05.8",
}
HYDRAS = (Family.MPICH, Family.INTEL)
MPIRUNS = (Family.OPEN_MPI_4, Family.OPEN_MPI_5, *HYDRAS)

# PGDB_TEST_LAUNCHERS=/path/mpiexec:… adds launchers of wheels or of own builds.
REAL = [
    "mpirun.openmpi",
    "mpirun.mpich",
    *filter(None, os.environ.get("PGDB_TEST_LAUNCHERS", "").split(":")),
]


def script(path, text):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    return path


@pytest.fixture
def place(tmp_path, monkeypatch):
    """A working directory with a program, and PATH with one fake launcher of each family."""
    for family, version in VERSIONS.items():
        name = "srun" if family is Family.SLURM else "mpirun"
        script(tmp_path / family / name, f"cat <<'END'\n{version}\nEND")
    script(tmp_path / "work" / "app", "exit 0")
    script(tmp_path / "work" / "sub" / "inner", "exit 0")
    script(tmp_path / "tools" / "tool", "exit 0")
    monkeypatch.chdir(tmp_path / "work")
    monkeypatch.setenv("PATH", f"{tmp_path / 'tools'}:{os.environ['PATH']}")
    for name in list(os.environ):
        if name.startswith(("SLURM", "PBS_", "LSB_", "OMPI_MCA_", "PRTE_MCA_", "HYDRA_", "I_MPI")):
            monkeypatch.delenv(name)
    return tmp_path


def line_of(place, family, text, **more):
    name = "srun" if family is Family.SLURM else "mpirun"
    return parse_launch_line([str(place / family / name), *text.split()], **more)


def words_of(line):
    return [line.argv[program.index] for program in line.programs]


@pytest.mark.parametrize("family", TABLES)
def test_a_launcher_is_known_by_its_version(place, family):
    name = "srun" if family is Family.SLURM else "mpirun"
    found = find_launcher(str(place / family / name))
    assert found.family is family
    assert found.version in {
        "Open MPI 4.1.4",
        "Open MPI 5.0.11",
        "MPICH 4.0.2",
        "Intel MPI 2021.18.1",
        "Slurm 22.05.8",
    }


def test_a_launcher_is_found_through_path_and_by_a_relative_path(place, monkeypatch):
    monkeypatch.setenv("PATH", f"{place / Family.INTEL}:{os.environ['PATH']}")
    assert find_launcher("mpirun").path == place / Family.INTEL / "mpirun"
    assert find_launcher("../MPICH/mpirun").path == place / "MPICH" / "mpirun"


def test_a_link_of_another_name_is_a_launcher(place):
    (place / "tools" / "site-run").symlink_to(place / Family.MPICH / "mpirun")
    assert find_launcher("site-run").family is Family.MPICH


@pytest.mark.parametrize(
    ("word", "message"),
    [
        ("mpirrun", "'mpirrun' is not in PATH"),
        ("./mpirun", "'./mpirun' does not exist"),
        ("./sub", "'./sub' is a directory"),
        ("./app", "'./app' is not an MPI launcher by its name"),
    ],
)
def test_what_is_no_launcher_is_refused(place, word, message):
    with pytest.raises(StartError, match=message):
        find_launcher(word)


def test_a_program_that_is_no_launcher_is_never_run(place):
    for name in ("app", "mpirun.sh", "my_mpirun"):
        program = script(place / "work" / name, f"touch {place / 'was-run'}")
        with pytest.raises(StartError):
            find_launcher(str(program))
    assert not (place / "was-run").exists()


def test_a_launcher_of_another_make_is_named_with_what_it_says(place):
    mpiexec = script(place / "other" / "mpiexec", "echo 'mpiexec: PALS 1.2.3'")
    with pytest.raises(StartError, match=r"says 'mpiexec: PALS 1\.2\.3'; PGDB knows mpirun"):
        find_launcher(str(mpiexec))


def test_a_failing_srun_is_reported_with_its_own_words(place):
    srun = script(place / "other" / "srun", "echo 'srun: fatal: no configuration' >&2; exit 1")
    with pytest.raises(StartError, match=r"srun: fatal: no configuration; is SLURM_CONF right"):
        find_launcher(str(srun))


def test_a_launcher_that_hangs_is_ended_with_what_it_started(place, monkeypatch):
    pid_file = place / "pid"
    mpirun = script(place / "other" / "mpirun", f"sleep 300 & echo $! > {pid_file}; wait")
    monkeypatch.setattr(launchers, "VERSION_DEADLINE_S", 0.5)
    with pytest.raises(StartError, match="did not end within"):
        find_launcher(str(mpirun))
    child = Path("/proc", pid_file.read_text().strip(), "stat")
    wait_until(lambda: not child.exists() or child.read_text().rpartition(")")[2].split()[0] == "Z")


@pytest.mark.parametrize("family", MPIRUNS)
@pytest.mark.parametrize("dashes", ["-", "--"])
def test_options_are_not_taken_for_the_program(place, family, dashes):
    line = line_of(place, family, f"{dashes}np 4 {dashes}wdir sub {dashes}map-by x ./inner -np 9")
    assert words_of(line) == ["./inner"]
    assert line.programs[0].arguments == ("-np", "9")
    assert line.programs[0].directory == "sub"
    assert line.rank_count == 4
    assert line.doubts == ()


@pytest.mark.parametrize(
    ("family", "text"),
    [
        (Family.OPEN_MPI_4, "--mca btl self -x A -x B=1 --oversubscribe --tag-output -q -c 2"),
        (Family.OPEN_MPI_4, "-gmca a b --bind-to none --display-topo --report-bindings --n 2"),
        (Family.OPEN_MPI_5, "--prtemca a b --pmixmca c d --display-topo x --output TAG --np=2"),
        (Family.OPEN_MPI_5, "--timeo 5 --allow-run-as-root --bind-to none -n 2"),
        (Family.MPICH, "-genv A 1 -genv B=2 -env C 3 -genvall -l -prepend-rank -n 2"),
        (Family.MPICH, "-launcher fork -bind-to core:2 -outfile-pattern x.%r -ppn 2 -np=2"),
        (Family.INTEL, "-genv I_MPI_DEBUG 5 -print-rank-map -prot -perhost 2 -s all -n 2"),
        (Family.SLURM, "-n2 -l --label -c 1 --mpi=none --cpu-bind none --exclusive -K1"),
        (Family.SLURM, "-ln 2 --mem 0 --kill-on-bad-exit -I60 -J name --het 0 -t 5"),
        (Family.SLURM, "--ntasks=2 -u --no-kill --immediate --x11 --propagate"),
        (Family.SLURM, "--overlap --ntasks 2"),
    ],
)
def test_each_family_has_its_own_options(place, family, text):
    line = line_of(place, family, f"{text} ./app -n 7")
    assert words_of(line) == ["./app"]
    assert line.rank_count == 2
    assert line.doubts == ()


@pytest.mark.slow
@pytest.mark.parametrize("family", TABLES)
def test_every_option_of_the_tables_can_be_read(place, family):
    table = launch_lines.TABLES[family]
    for name, count in table.arguments.items():
        if name in table.program_files:
            continue
        is_letter = len(name) == 1
        word = f"-{name}" if is_letter else f"--{name}"
        values = " ".join(["3"] * max(count, 0))
        assert words_of(line_of(place, family, f"{word} {values} ./app 5")) == ["./app"], name
    assert set(table.letters.values()) <= set(table.arguments)
    for names in (table.count, table.hosts, table.elsewhere, table.directory):
        assert {name for name in names if table.find(name) is None} <= {
            "add-host",
            "add-hostfile",
            "hnp",
            "rf",
        }


@pytest.mark.parametrize("family", TABLES)
def test_mpmd_lines_have_a_program_for_each_part(place, family):
    line = line_of(place, family, "-n 2 ./app a : -n 3 -- tool b")
    assert words_of(line) == ["./app", "tool"]
    assert [program.arguments for program in line.programs] == [("a",), ("b",)]
    assert line.rank_count == 5
    launcher = line.argv[0]
    assert line.held(["/hold", "--"]) == (
        launcher,
        *("-n", "2", "/hold", "--", "./app", "a", ":"),
        *("-n", "3", "/hold", "--", "tool", "b"),
    )


@pytest.mark.parametrize(
    ("family", "option"),
    [
        (Family.OPEN_MPI_4, ("--mca", "orte_fork_agent", "/hold M --")),
        (Family.OPEN_MPI_5, ("--prtemca", "odls_base_exec_agent", "/hold M --")),
        (Family.MPICH, None),
        (Family.INTEL, None),
    ],
)
def test_open_mpis_daemons_start_all_ranks_with_a_prefix(place, family, option):
    line = line_of(place, family, "-n 2 ./app a : -n 3 -- ./app b")
    held = line.held_by_agent(["/hold", "M", "--"])
    if option is None:
        assert held == ()
        return
    assert held == (line.argv[0], *option, *"-n 2 ./app a : -n 3 ./app b".split())
    assert line.held_by_agent(["/with blank/hold", "M"]) == ()


def test_the_rank_count_is_unknown_if_a_part_does_not_give_it(place):
    assert line_of(place, Family.MPICH, "-n 2 ./app : ./app").rank_count is None
    assert line_of(place, Family.OPEN_MPI_4, "-N 2 ./app").rank_count is None


def test_an_unknown_option_with_a_program_behind_it_is_a_doubt(place):
    line = line_of(place, Family.OPEN_MPI_4, "-n 2 -foo ./app 1")
    assert words_of(line) == ["./app"]
    assert line.doubts == (
        "took './app' for the program because -foo is not an option PGDB knows; "
        "put -- before the program to settle it",
    )


def test_an_unknown_option_with_no_program_behind_it_takes_that_as_its_argument(place):
    line = line_of(place, Family.MPICH, "-foo 3 -n 2 ./app")
    assert words_of(line) == ["./app"]
    assert line.rank_count == 2
    assert "took '3' for the argument of -foo" in line.doubts[0]


def test_the_only_word_after_an_unknown_option_is_the_program(place):
    assert words_of(line_of(place, Family.MPICH, "-foo ./appp")) == ["./appp"]


@pytest.mark.parametrize("family", TABLES)
def test_an_unknown_option_with_a_value_in_it_is_no_doubt(place, family):
    line = line_of(place, family, "--foo=3 ./app")
    assert (words_of(line), line.doubts) == (["./app"], ())


def test_two_dashes_settle_what_an_unknown_option_takes(place):
    line = line_of(place, Family.MPICH, "-foo tool -n 2 -- ./app -- 1")
    assert (words_of(line), line.doubts) == (["./app"], ())
    assert line.held(["env"])[1:] == ("-foo", "tool", "-n", "2", "env", "./app", "--", "1")


def test_two_dashes_among_the_arguments_of_the_program_are_left_alone(place):
    line = line_of(place, Family.SLURM, "-n 2 ./app -- 1")
    assert line.held(["env"])[1:] == ("-n", "2", "env", "./app", "--", "1")


@pytest.mark.parametrize(
    ("family", "text", "message"),
    [
        (Family.OPEN_MPI_4, "", "no program follows"),
        (Family.OPEN_MPI_4, "-n 4", "no program follows"),
        (Family.MPICH, "-n 4 --", "no program follows"),
        (Family.MPICH, "-n 4 ./app :", "no program follows ':'"),
        (Family.MPICH, "-n", "option -n needs an argument"),
        (Family.OPEN_MPI_4, "--mca btl", "--mca needs two arguments"),
        (Family.SLURM, "-ln", "-n needs an argument"),
        (Family.SLURM, "--ntasks", "--ntasks needs an argument"),
        (Family.OPEN_MPI_4, "-n four ./app", "'four' is no number of ranks; .* -n 4"),
        (Family.OPEN_MPI_5, "--np 0 ./app", "'0' is no number of ranks; .* --np 4"),
        (Family.SLURM, "-nx ./app", "'x' is no number of ranks; .* --ntasks 4"),
        (Family.OPEN_MPI_4, "--app lines", "--app takes the programs from a file"),
        (Family.INTEL, "-configfile lines", "-configfile .* as in mpirun -n 2 ./a : -n 2 ./b"),
        (Family.SLURM, "--multi-prog lines", "--multi-prog .* attach to it"),
    ],
)
def test_lines_that_cannot_be_understood_say_which_word(place, family, text, message):
    with pytest.raises(UsageError, match=message):
        line_of(place, family, text)


@pytest.mark.parametrize(
    ("given", "reason"),
    [
        ("mpirun -n 4 ./app", "launch line 'mpirun -n 4 ./app' is one text; write a list of words"),
        (["mpirun", "-n", 4, "./app"], "launch line has 4 of type int; write the text '4'"),
        ([b"mpirun"], "launch line has b'mpirun' of type bytes; write the text 'mpirun'"),
    ],
)
def test_words_that_are_no_texts_are_refused(given, reason):
    with pytest.raises(UsageError, match=re.escape(reason)):
        given_words(given)


def test_a_word_may_be_a_path():
    assert given_words(["mpirun", Path("bin") / "app"]) == ("mpirun", "bin/app")


def test_an_empty_line_is_refused():
    with pytest.raises(UsageError, match="launch line is empty"):
        parse_launch_line([])


@pytest.mark.parametrize(
    ("family", "text", "alone"),
    [
        (Family.OPEN_MPI_4, "-n 2 ./app", True),
        (Family.OPEN_MPI_4, "--host localhost:4 ./app", True),
        (Family.OPEN_MPI_4, "--host localhost,node2 ./app", False),
        (Family.OPEN_MPI_4, "-machinefile hosts ./app", False),
        (Family.OPEN_MPI_4, "--mca orte_default_hostfile hosts ./app", False),
        (Family.OPEN_MPI_5, "-n 1 ./app : -H node2 ./app", False),
        (Family.OPEN_MPI_5, "--map-by rankfile:file=x ./app", False),
        (Family.MPICH, "-f hosts ./app", False),
        (Family.MPICH, "-hosts localhost ./app", True),
        (Family.INTEL, "-hosts node1,node2 ./app", False),
        (Family.SLURM, "./app", False),
    ],
)
def test_lines_that_may_use_other_hosts_are_distinguished(place, family, text, alone):
    assert line_of(place, family, text, environment={}).on_this_host_only is alone


@pytest.mark.parametrize("family", [Family.OPEN_MPI_4, Family.SLURM])
def test_an_allocation_is_taken_into_account(place, family):
    one = {"SLURM_JOB_ID": "1", "SLURM_JOB_NUM_NODES": "1", "SLURM_JOB_NODELIST": "n1"}
    two = {"SLURM_JOB_ID": "1", "SLURM_JOB_NUM_NODES": "2", "SLURM_JOB_NODELIST": "n[1-2]"}
    on_node = one | {"SLURMD_NODENAME": "n1"}
    assert line_of(place, family, "./app", environment=on_node).on_this_host_only
    assert not line_of(place, family, "./app", environment=two).on_this_host_only
    # salloc without an interactive step: we are on the login host, the ranks will be on n1.
    assert not line_of(place, family, "./app", environment=one).on_this_host_only


def test_a_host_file_in_the_environment_is_taken_into_account(place):
    environment = {"HYDRA_HOST_FILE": "hosts"}
    assert not line_of(place, Family.MPICH, "./app", environment=environment).on_this_host_only


@pytest.mark.parametrize("family", TABLES)
def test_a_program_is_found_where_the_launcher_would(place, family):
    option = "--chdir" if family is Family.SLURM else "-wdir"
    path = os.environ["PATH"]
    found = check_program(line_of(place, family, f"{option} sub ./inner").programs[0], path)
    assert found == place / "work" / "sub" / "inner"
    found = check_program(line_of(place, family, "tool").programs[0], path)
    assert found == place / "tools" / "tool"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("./appp", "'./appp' does not exist"),
        ("appp", "'appp' is not in PATH"),
        ("./sub", "'./sub' is a directory, not a program"),
        ("./data", r"'./data' is not executable \(chmod \+x ./data\)"),
        ("app", "'app' is not in PATH; for the one here write ./app"),
        ("-wdir sub ./app", "'./app' does not exist in 'sub'"),
        ("-wdir none ./app", "working directory 'none' does not exist"),
        ("-path sub tool", "'tool' is not in 'sub', as -path says"),
    ],
)
def test_a_program_that_cannot_run_is_reported_before_anything_is_started(place, text, message):
    (place / "work" / "data").write_text("1 2 3\n")
    program = line_of(place, Family.MPICH, text).programs[0]
    with pytest.raises(StartError, match=message):
        check_program(program, os.environ["PATH"])


@pytest.mark.parametrize(
    ("family", "held"),
    [(Family.OPEN_MPI_4, "./app"), (Family.SLURM, "./app"), (Family.MPICH, "app")],
)
def test_a_bare_name_that_only_the_launcher_finds_becomes_a_path(place, family, held):
    line = line_of(place, family, "app 1")
    assert line.held(["env"])[1:] == ("env", held, "1")


def test_a_program_of_a_search_path_becomes_absolute(place):
    line = line_of(place, Family.OPEN_MPI_5, "-path sub inner")
    assert check_program(line.programs[0], "") == place / "work" / "sub" / "inner"
    assert line.held(["/hold"])[-2:] == ("/hold", str(place / "work" / "sub" / "inner"))


def wait_until(condition, deadline_s=20.0):
    end = time.monotonic() + deadline_s
    while not condition():
        assert time.monotonic() < end, "the condition did not come true in time"
        os.sched_yield()


def anything(path):
    return True


def test_a_launcher_that_is_not_to_be_run_is_not_run(place):
    text = f'echo "$1" >> {place / "runs"}; read line'
    mpirun = script(place / "theirs" / "mpirun", text)
    asked = []
    with subprocess.Popen([mpirun, "4"], stdin=subprocess.PIPE) as process:
        wait_until((place / "runs").exists)
        assert launcher_of_process(process.pid, asked.append) is None
    assert asked == [mpirun]
    assert (place / "runs").read_text() == "4\n"


def test_a_wrapper_script_that_runs_is_a_launcher(place):
    text = f'[ "$1" = --version ] && {{ echo "{VERSIONS[Family.INTEL]}"; exit; }}; read line'
    mpirun = script(place / "intel" / "mpirun", text)
    with subprocess.Popen([mpirun, "-n", "2", "./app"], stdin=subprocess.PIPE) as process:
        wait_until(lambda: b"mpirun" in Path(f"/proc/{process.pid}/cmdline").read_bytes())
        found = launcher_of_process(process.pid, anything)
    assert found == Launcher(mpirun, Family.INTEL, "Intel MPI 2021.18.1")


@pytest.mark.parametrize("called", ["prterun", "prte"])
def test_a_prterun_that_is_a_link_to_prte_is_the_mpirun_beside_it(place, called):
    text = f'[ "$1" = --version ] && echo "{VERSIONS[Family.OPEN_MPI_5]}"'
    mpirun = script(place / "theirs" / "mpirun", text)
    prte = mpirun.with_name("prte")
    shutil.copy(shutil.which("cat"), prte)
    mpirun.with_name("prterun").symlink_to("prte")
    with subprocess.Popen([called], executable=prte, stdin=subprocess.PIPE) as process:
        wait_until(lambda: Path(f"/proc/{process.pid}/exe").resolve() == prte)
        # The kernel shows the words later than the program.
        wait_until(Path(f"/proc/{process.pid}/cmdline").read_bytes)
        found = launcher_of_process(process.pid, anything)
    # The daemon of a cluster's other hosts is called prte.
    expected = (
        Launcher(mpirun, Family.OPEN_MPI_5, "Open MPI 5.0.11") if called == "prterun" else None
    )
    assert found == expected


def test_a_process_that_is_no_launcher_is_none(place):
    assert launcher_of_process(os.getpid(), anything) is None
    assert launcher_of_process(2**22 + 1, anything) is None
    # A job script is not run a second time because of its name.
    job = script(place / "work" / "mpirun.sh", f'echo "$1" >> {place / "runs"}; read line')
    with subprocess.Popen([job], stdin=subprocess.PIPE) as process:
        wait_until((place / "runs").exists)
        assert launcher_of_process(process.pid, anything) is None
    assert (place / "runs").read_text() == "\n"


@pytest.fixture
def root_allowed(monkeypatch):
    monkeypatch.setenv("OMPI_ALLOW_RUN_AS_ROOT", "1")
    monkeypatch.setenv("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1")


def real_launcher(word):
    if shutil.which(word) is None:
        pytest.skip(f"{word} is not installed")
    return find_launcher(word)


@pytest.mark.mpi
@pytest.mark.parametrize("word", REAL)
def test_a_held_line_runs_the_prefix_for_every_rank(word, root_allowed):
    launcher = real_launcher(word)
    more = ["--oversubscribe"] if "Open MPI" in launcher.family else []
    first = ["-n", "2", "sh", "-c", "echo first:$HELD"]
    line = parse_launch_line([word, *more, *first, ":", "-n", "1", "--", "printenv", "HELD"])
    done = subprocess.run(
        line.held([shutil.which("env"), "HELD=1"]),
        env=scrubbed_environment(os.environ),
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert sorted(done.stdout.split()) == ["1", "first:1", "first:1"], done.stderr


@pytest.mark.mpi
@pytest.mark.parametrize("word", REAL)
def test_a_running_launcher_is_recognised(word, root_allowed):
    launcher = real_launcher(word)
    argv = [word, "-n", "1", "sh", "-c", "echo up; read line"]
    with subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout.readline() == b"up\n"
        found = launcher_of_process(process.pid, anything)
        process.communicate(b"\n", timeout=60)
    assert found is not None
    assert (found.family, found.version) == (launcher.family, launcher.version)
