"""The options of MPI launchers: how many arguments each has, and which of them matter to PGDB.

A launcher's options can be separated from the program's only if every option before the program is
known. The tables were checked with the real launchers: each option was given, followed by three
programs, to see which of them the launcher ran. Versions: Open MPI 4.1.4 and 5.0.11, MPICH 4.0.2
and
5.0.2, Intel MPI 2021.18, Slurm 22.05. Names of older and newer versions come from their
documentation.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from pgdb.errors import UsageError

ATTACHED = -1
"""Number of arguments of an option whose one argument is optional: only ``--name=value``."""


class OptionTable(msgspec.Struct, frozen=True):
    """The options of one family of launchers; names are without dashes."""

    arguments: Mapping[str, int]
    """Number of words that an option takes after it, or :data:`ATTACHED`."""
    letters: Mapping[str, str]
    """Long names of getopt's one-letter options (``-ln2``); empty if the family has none."""
    abbreviates: bool
    """Whether long names may be abbreviated, as getopt_long allows."""
    count: frozenset[str]
    """Options that give the number of ranks."""
    hosts: frozenset[str]
    """Options whose argument is a list of hosts, ``HOST[:SLOTS],…``."""
    elsewhere: frozenset[str]
    """Other options that may place ranks on other hosts."""
    directory: frozenset[str]
    """Options that set the working directory of the ranks."""
    search_path: frozenset[str]
    """Options that name the directories in which a program without a slash is looked up."""
    program_files: frozenset[str]
    """Options that read programs from a file instead of the command line."""
    assignments: frozenset[str] = frozenset()
    """Options that take ``NAME VALUE`` or, as one word, ``NAME=VALUE``."""

    def find(self, name: str) -> str | None:
        """Return the full name of the option *name*, None if there is none."""
        if name in self.arguments:
            return name
        if not self.abbreviates or len(name) < 2:
            return None
        meant = [full for full in self.arguments if len(full) > 1 and full.startswith(name)]
        return meant[0] if len(meant) == 1 else None


class ReadOption(msgspec.Struct, frozen=True):
    """One option in a command line."""

    name: str
    """Full name without dashes; empty if the option is unknown."""
    value: str | None
    """The (first) argument of the option."""
    end: int
    """Index of the word after the option and its arguments."""


def read_option(table: OptionTable, words: Sequence[str], at: int) -> list[ReadOption]:
    """Read the word ``words[at]``, which starts with a dash; one word may hold several letters.

    :raises UsageError: if an argument of the option is missing.
    """
    word = words[at]
    if table.letters and not word.startswith("--"):
        return _read_letters(table, words, at)
    # Open MPI and hydra accept both -name and --name.
    given, equals, value = word[2 if word.startswith("--") else 1 :].partition("=")
    name = table.find(given)
    if name is None:
        return [ReadOption("", None, at + 1)]
    if equals:
        return [ReadOption(name, value, at + 1)]
    count = max(table.arguments[name], 0)
    if name in table.assignments and at + 1 < len(words) and "=" in words[at + 1]:
        count = 1
    if at + count >= len(words):
        missing = "two arguments" if count == 2 else "an argument"
        raise UsageError(f"launcher option {word} needs {missing}, and the line ends there")
    return [ReadOption(name, words[at + 1] if count else None, at + 1 + count)]


def _read_letters(table: OptionTable, words: Sequence[str], at: int) -> list[ReadOption]:
    letters = words[at][1:]
    found = []
    for position, letter in enumerate(letters):
        name = table.letters.get(letter)
        rest = letters[position + 1 :]
        if name is None:
            return [ReadOption("", None, at + 1)]
        if table.arguments[name] == 1:
            if not rest and at + 1 >= len(words):
                raise UsageError(
                    f"launcher option -{letter} needs an argument, and the line ends there"
                )
            found.append(ReadOption(name, rest or words[at + 1], at + (1 if rest else 2)))
            return found
        found.append(ReadOption(name, rest or None, at + 1))
        if table.arguments[name] == ATTACHED:
            return found
    return found


def _arguments(*, none: str, one: str, two: str = "", attached: str = "") -> dict[str, int]:
    groups = ((none, 0), (one, 1), (two, 2), (attached, ATTACHED))
    return {name: count for names, count in groups for name in names.split()}


_OPEN_MPI_NONE = """
    allow-run-as-root bind-to-core bind-to-socket bycore bynode byslot continuous debug
    debug-daemons debug-daemons-file disable-recovery display-allocation
    display-devel-allocation display-devel-map display-map do-not-launch do-not-resolve
    enable-recovery get-stack-traces leave-session-attached merge-stderr-to-stdout nolocal
    nooversubscribe noprefix output-proctable oversubscribe pernode preload-binary quiet q
    report-bindings report-child-jobs-separately report-state-on-timeout s
    set-cwd-to-session-dir show-progress tag-output timestamp-output use-hwthread-cpus v
    verbose V version xml
"""
_OPEN_MPI_ONE = """
    H N am amca app bind-to c cpu-list cpu-set cpus-per-proc cpus-per-rank default-hostfile
    host hostfile launch-agent machinefile map-by max-restarts max-vm-size n np npernode
    npersocket output-filename path personality ppr prefix preload-files rank-by rankfile
    report-pid report-uri stdin timeout tmpdir tune wd wdir x xterm
"""
_OPEN_MPI_ELSEWHERE = """
    add-host add-hostfile default-hostfile dvm hnp hostfile machinefile nolocal rankfile rf
"""


def _open_mpi(arguments: Mapping[str, int], *, abbreviates: bool) -> OptionTable:
    return OptionTable(
        arguments=arguments,
        letters={},
        abbreviates=abbreviates,
        count=frozenset({"n", "np", "c"}),
        hosts=frozenset({"H", "host"}),
        elsewhere=frozenset(_OPEN_MPI_ELSEWHERE.split()),
        directory=frozenset({"wd", "wdir"}),
        search_path=frozenset({"path"}),
        program_files=frozenset({"app"}),
    )


OPEN_MPI_4 = _open_mpi(
    _arguments(
        none=_OPEN_MPI_NONE
        + """
            bysocket d debug-devel display-diffable-map display-topo dvm
            enable-instant-on-support fwd-mpirun-port index-argv-by-rank novm tv use-regexp
        """,
        one=_OPEN_MPI_ONE
        + """
            cf cartofile debugger h help hnp ompi-server report-events rf
            server-wait-time xml-file
        """,
        two="mca gmca",
    ),
    abbreviates=False,
)
"""Open MPI up to 4.1 (orterun)."""

OPEN_MPI_5 = _open_mpi(
    _arguments(
        none=_OPEN_MPI_NONE
        + """
            display-comm display-comm-finalize hetero-nodes no-app-prefix no-ready-msg p
            parsable parseable set-sid soft stop-in-app stop-in-init stop-on-exec
            system-server
        """,
        one=_OPEN_MPI_ONE
        + """
            add-host add-hostfile app-pmix-prefix arch display display-topo dvm file
            forward-signals gpu-support initial-errhandler keepalive memory-alloc-kinds output
            output-directory pmix-prefix pset rtos runtime-options set-env singleton
            spawn-timeout stream-buffering unset-env with-ft
        """,
        two="""
            append-env gmca gomca gpmixmca gprtemca mca omca pmixmca prepend-env prtemca
        """,
        attached="fwd-environment h help",
    ),
    abbreviates=True,
)
"""Open MPI from 5.0 on (prterun)."""

_HYDRA_NONE = """
    dac debug disable-auto-cleanup disable-hostname-propagation disable-x
    enable-auto-cleanup enable-hostname-propagation enable-x envall envnone genvall genvnone
    help info l prepend-rank print-all-exitcodes profile v verbose version
"""
_HYDRA_ONE = """
    bind-to binding bootstrap bootstrap-exec configfile demux envlist errfile errfile-pattern
    f genvlist host hostfile hostlist hosts iface launcher launcher-exec localhost machine
    machinefile machinelist machines map-by membind n nameserver np order-nodes outfile
    outfile-pattern path ppn prepend-pattern rmk topolib usize wdir
"""
_HYDRA_HOSTS = frozenset({"host", "hosts", "hostlist", "machine", "machines", "machinelist"})

MPICH = OptionTable(
    arguments=_arguments(
        none=_HYDRA_NONE + " hybrid-hosts pmi-port skip-launch-node",
        one=_HYDRA_ONE
        + """
            gpu-subdevs-per-proc gpus-per-proc memory-alloc-kinds output-from rankmap
        """,
        two="env genv",
    ),
    letters={},
    abbreviates=False,
    count=frozenset({"n", "np"}),
    hosts=_HYDRA_HOSTS,
    elsewhere=frozenset({"f", "hostfile", "machinefile", "rmk", "skip-launch-node"}),
    directory=frozenset({"wdir"}),
    search_path=frozenset({"path"}),
    program_files=frozenset({"configfile"}),
    assignments=frozenset({"env", "genv"}),
)
"""MPICH's hydra, and its relatives with the same options."""

INTEL = OptionTable(
    arguments=_arguments(
        none=_HYDRA_NONE
        + """
            aps check_mpi gdb ilp64 mps noconf nolocal ordered-output pmi-aggregate
            prepend-timestamp print-rank-map prot rr silent-abort trace tv
        """,
        one=_HYDRA_ONE
        + """
            branch-count cpu-bind file gdb-args gdba grr gtool gtoolfile hosts-group perhost
            pmi-connect s tmpdir tune use-app-topology
        """,
        two="env genv",
    ),
    letters={},
    abbreviates=False,
    count=frozenset({"n", "np"}),
    hosts=_HYDRA_HOSTS,
    elsewhere=frozenset({"f", "file", "hostfile", "hosts-group", "machinefile", "nolocal", "rmk"}),
    directory=frozenset({"wdir"}),
    search_path=frozenset({"path"}),
    program_files=frozenset({"configfile"}),
    assignments=frozenset({"env", "genv"}),
)
"""Intel MPI's hydra and its mpirun script."""

SLURM = OptionTable(
    arguments=_arguments(
        none="""
            contiguous debugger-test disable-status exact help hold interactive label
            multi-prog no-allocate overcommit overlap oversubscribe preserve-env pty quiet
            quit-on-interrupt reboot share spread-job stepmgr test-only unbuffered usage
            use-min-nodes verbose version whole
        """,
        one="""
            accel-bind account acctg-freq bb bbf bcast-exclude begin chdir cluster
            cluster-constraint clusters comment constraint container container-id context
            core-spec cores-per-socket cpu-bind cpu-freq cpus-per-gpu cpus-per-task deadline
            delay-boot dependency distribution epilog error exclude export export-file extra
            extra-node-info gid gpu-bind gpu-freq gpus gpus-per-node gpus-per-socket
            gpus-per-task gres gres-flags het-group hint input job-name jobid licenses
            mail-type mail-user mcs-label mem mem-bind mem-per-cpu mem-per-gpu mincpus mpi
            msg-timeout network nodefile nodelist nodes ntasks ntasks-per-core
            ntasks-per-gpu ntasks-per-node ntasks-per-socket ntasks-per-tres open-mode output
            pack-group partition power prefer priority profile prolog qos relative
            reservation segment signal slurmd-debug sockets-per-node switches task-epilog
            task-prolog tasks tasks-per-node thread-spec threads threads-per-core time
            time-min tmp treewidth tres-bind tres-per-task uid wait wckey
        """,
        attached="""
            bcast compress exclusive get-user-env immediate kill-on-bad-exit nice no-kill
            oom-kill-step propagate resv-ports send-libs x11
        """,
    ),
    letters={
        "A": "account",
        "B": "extra-node-info",
        "C": "constraint",
        "D": "chdir",
        "E": "preserve-env",
        "F": "nodefile",
        "G": "gpus",
        "H": "hold",
        "I": "immediate",
        "J": "job-name",
        "K": "kill-on-bad-exit",
        "L": "licenses",
        "M": "clusters",
        "N": "nodes",
        "O": "overcommit",
        "Q": "quiet",
        "S": "core-spec",
        "T": "threads",
        "V": "version",
        "W": "wait",
        "X": "disable-status",
        "Z": "no-allocate",
        "b": "begin",
        "c": "cpus-per-task",
        "d": "dependency",
        "e": "error",
        "h": "help",
        "i": "input",
        "k": "no-kill",
        "l": "label",
        "m": "distribution",
        "n": "ntasks",
        "o": "output",
        "p": "partition",
        "q": "qos",
        "r": "relative",
        "s": "oversubscribe",
        "t": "time",
        "u": "unbuffered",
        "v": "verbose",
        "w": "nodelist",
        "x": "exclude",
    },
    abbreviates=True,
    count=frozenset({"ntasks", "tasks"}),
    hosts=frozenset({"nodelist"}),
    elsewhere=frozenset({"nodefile", "nodes", "relative", "jobid", "clusters", "het-group"}),
    directory=frozenset({"chdir"}),
    search_path=frozenset(),
    program_files=frozenset({"multi-prog"}),
)
"""Slurm's srun."""
