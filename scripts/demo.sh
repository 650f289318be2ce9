#!/bin/sh
# make demo: a program of 8 ranks that hangs, and what PGDB says of it.
set -u
. "$(dirname "$0")/setup.sh"

setup_venv run
setup_gdb
setup_mpi
allow_root

say "building examples/hang_one_rank.c with $MPICC"
command -v cc >/dev/null || command -v gcc >/dev/null || command -v clang >/dev/null ||
    fail "no C compiler on PATH (cc, gcc or clang); on Debian: apt install gcc libc6-dev"
mkdir -p build
"$MPICC" -g -O0 -o build/hang_one_rank examples/hang_one_rank.c || fail "$MPICC could not build it"

# More ranks than cores is nothing special for a debugger; only Open MPI has to be told.
case $MPI in
    openmpi) oversubscribe=--oversubscribe ;;
    *) oversubscribe= ;;
esac

# The command of the demonstration: the one place for it.
set -- .venv/bin/pgdb launch --batch -x examples/demo.pgdb \
    "$MPIRUN" -n 8 $oversubscribe build/hang_one_rank

say "$*"
exec "$@"
