#!/bin/sh
# make demo: a program of 8 ranks that hangs, and what PGDB says of it.
set -u
. "$(dirname "$0")/setup.sh"

setup_venv run
setup_gdb
setup_mpi
allow_root

command -v cc >/dev/null || command -v gcc >/dev/null || command -v clang >/dev/null ||
    fail "no C compiler on PATH (cc, gcc or clang); on Debian: apt install gcc libc6-dev"
quietly "building examples/hang_one_rank.c with $MPICC" \
    "$MPICC" -g -O0 -o build/hang_one_rank examples/hang_one_rank.c

# More ranks than cores are no problem for a debugger; only Open MPI needs an option.
case $MPI in
    openmpi) oversubscribe=" --oversubscribe" ;;
    *) oversubscribe= ;;
esac
word=$(basename "$MPIRUN")
[ "$(command -v "$word")" = "$MPIRUN" ] || word=$MPIRUN
job="$word -n 8$oversubscribe build/hang_one_rank"

# The line that the user will type needs the same words that this run needs.
launch=".venv/bin/pgdb launch"
case $(command -v gdb) in
    "$venv"/*) launch="$launch --gdb .venv/bin/gdb" ;;
esac
root_words=
if [ "$(id -u)" = 0 ] && [ "$MPI" = openmpi ]; then
    root_words="OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 "
fi

bold= plain=
if [ -t 1 ] && [ -z "${NO_COLOR:-}" ]; then
    bold=$(printf '\033[1m') plain=$(printf '\033[0m')
fi
title() { printf '\n%s%s%s\n' "$bold" "$*" "$plain"; }

title "The program"
cat <<'EOF'
examples/hang_one_rank.c: 8 ranks form a ring and pass numbers on. It hangs: it prints nothing, all
ranks keep their cores busy, and from outside nobody can see which rank is at fault.
EOF

title "The session, examples/demo.pgdb"
cat <<'EOF'
  next               over MPI_Init, on all ranks
  continue &         let them run,
  wait 3             and hang
  interrupt          stop them, as Ctrl-C does at the prompt
  bt                 the stacks of all ranks, equal ones once
  print log_busy     a variable of all ranks, equal values once
EOF
title "$launch --batch -x examples/demo.pgdb \\
    $job"

# The status of the left side of a pipe is lost, hence the file.
{
    # shellcheck disable=SC2086  # several words each
    $launch --batch -x examples/demo.pgdb $job
    echo $? >build/demo.status
} 2>&1 | tee build/demo.log

# 4: ranks were still running when `wait` gave up, as they are in a job that hangs.
status=$(cat build/demo.status)
case $status in
    0 | 4) ;;
    *) fail "the session failed (status $status); what it said is in build/demo.log" ;;
esac
grep -q '^\[1\].*log_busy = 1' build/demo.log ||
    fail "the session has not found the hang; what it said is in build/demo.log"

title "The result"
cat <<EOF
Ranks 0 and 2-7 wait in MPI_Sendrecv for a neighbour. Rank 1 alone is not in MPI: it waits for
log_busy to become 0, but only rank 1 itself can have set it. docs/guide/tutorial.md goes on from
here to the line at fault.

Next, at the prompt: 'continue', some seconds, Ctrl-C, 'why' for the cause, 'bt', 'print alarms',
'help', 'quit'

  $root_words$launch $job
EOF
