#!/bin/sh
# make test: style, types, the site of docs/, tests. `test.sh check` leaves out the tests, `test.sh
# docs` builds the site alone.
set -u
. "$(dirname "$0")/setup.sh"

setup_venv dev
PATH=$PATH:$venv/bin
export PATH

build_site() {
    say "mkdocs build --strict"
    NO_MKDOCS_2_WARNING=1 "$venv/bin/mkdocs" build --quiet --strict || exit 1
}
if [ "${1:-}" = docs ]; then
    build_site
    say "the site is build/site/index.html"
    exit 0
fi

say "ruff check ."
"$venv/bin/ruff" check --quiet . || exit 1
say "ruff format --check ."
"$venv/bin/ruff" format --quiet --check . || fail "not formatted: run .venv/bin/ruff format ."
say "mypy"
"$venv/bin/mypy" || exit 1
build_site
[ "${1:-}" = check ] && exit 0

setup_gdb
setup_mpich
setup_more_mpis
setup_mpi
allow_root
# The tests run their jobs under this MPICH, those above, and the machine's Open MPI and MPICH, if
# it has them.
PGDB_TEST_MPICH=$mpich_venv/bin
export PGDB_TEST_MPICH

say "pytest, with $(gdb --version | head -n 1), $MPIRUN and $PGDB_TEST_MPICH/mpirun"
# shellcheck disable=SC2086  # several arguments
exec "$venv/bin/python" -m pytest ${PYTEST_ARGS:-}
