#!/bin/sh
# test.sh [all]       style, types, the site of docs/, all tests
# test.sh check       style, types, the site
# test.sh docs        the site
# test.sh fast        the tests without real jobs that are not slow
# test.sh only ARG... set-up, then pytest with these arguments
#
# PGDB_TEST_WORKERS is the number of pytest-xdist's workers, PYTEST_ARGS more arguments of pytest.
set -u
. "$(dirname "$0")/setup.sh"

what=${1:-all}
[ $# = 0 ] || shift
workers=${PGDB_TEST_WORKERS:-$(($(nproc) + 2))}

setup_venv dev
PATH=$PATH:$venv/bin
export PATH

build_site() {
    say "mkdocs build --strict"
    NO_MKDOCS_2_WARNING=1 "$venv/bin/mkdocs" build --quiet --strict || exit 1
}

check() {
    say "ruff check ."
    "$venv/bin/ruff" check --quiet . || exit 1
    say "ruff format --check ."
    "$venv/bin/ruff" format --quiet --check . || fail "not formatted: run .venv/bin/ruff format ."
    say "mypy"
    "$venv/bin/mypy" || exit 1
    build_site
}

setup_live() {
    setup_gdb
    setup_mpich
    setup_more_mpis
    setup_mpi
    allow_root
    # The tests run their jobs under this MPICH, those above, and the machine's Open MPI and MPICH,
    # if it has them.
    PGDB_TEST_MPICH=$mpich_venv/bin
    export PGDB_TEST_MPICH
}

# Print the folder of the debug file that belongs to the build id of the library $1.
debug_folder() {
    id=$(readelf -n "$(cc -print-file-name="$1")" 2>/dev/null | sed -n 's/.*Build ID: \(..\).*/\1/p')
    [ -n "$id" ] && printf '%s\n' "/usr/lib/debug/.build-id/$id"
}

# run_pytest ARG...: pytest, in a mount namespace without the C library's debug information.
#
# Debian's Valgrind brings that information. Each of the thousands of GDBs would read it, which more
# than doubles the CPU time of an attach. Valgrind itself needs that of the loader alone. The fast
# subset and ordinary users, who may not mount, run without the namespace.
run_pytest() {
    hidden=$(debug_folder libc.so.6)
    if [ "$what" = fast ] || [ ! -d "$hidden" ] ||
        [ "$hidden" = "$(debug_folder ld-linux-x86-64.so.2)" ] ||
        ! unshare --mount mount -t tmpfs none "$hidden" 2>/dev/null
    then
        exec "$venv/bin/python" -m pytest "$@"
    fi
    # shellcheck disable=SC2016  # expanded inside
    exec unshare --mount sh -c 'mount -t tmpfs none "$0" && exec "$@"' \
        "$hidden" "$venv/bin/python" -m pytest "$@"
}

# run_tests EXPRESSION ARG...: pytest over the tests whose marks match.
run_tests() {
    marks=$1
    shift
    # shellcheck disable=SC2086  # several arguments
    (run_pytest -m "$marks" "$@" ${PYTEST_ARGS:-})
}

case $what in
    check)
        check
        ;;
    docs)
        build_site
        say "the site is build/site/index.html"
        ;;
    fast)
        say "pytest, without real jobs"
        run_tests "not mpi and not gdb and not hosts and not slurm and not slow" \
            --numprocesses "$workers" --dist loadgroup --hypothesis-profile "few examples"
        ;;
    only)
        setup_live
        # shellcheck disable=SC2086  # several arguments
        run_pytest "$@" ${PYTEST_ARGS:-}
        ;;
    all)
        check
        setup_live
        # They come first because their one process compiles the tests, which each of the workers
        # would do for itself.
        say "pytest, the tests that need the machine to themselves"
        run_tests alone
        alone=$?
        [ "$alone" -le 1 ] || [ "$alone" = 5 ] || exit "$alone"
        say "pytest, $workers workers, with $(gdb --version | head -n 1), $MPIRUN and" \
            "$PGDB_TEST_MPICH/mpirun"
        run_tests "not alone" --numprocesses "$workers" --dist loadgroup
        status=$?
        # 1: tests failed, which CI runs once more; a run that broke off is no such case.
        [ "$status" -le 1 ] || [ "$status" = 5 ] || exit "$status"
        # 5: no test was selected, as PYTEST_ARGS may have it for one of the two.
        [ "$status" = 5 ] && exit "$alone"
        [ "$alone" = 0 ] || [ "$alone" = 5 ] || exit "$alone"
        exit "$status"
        ;;
    *)
        fail "test.sh: no such word: $what (all, check, docs, fast, only)"
        ;;
esac
