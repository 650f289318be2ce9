#!/bin/sh
# Run a program in a mount namespace of its own that has another root: inside.sh ROOT PROGRAM...
# To be started by unshare --mount; ROOT has an empty directory "old".
set -e
root=$1
shift
mount --make-rprivate /
mount --bind "$root" "$root"
cd "$root"
pivot_root . old
exec "$@"
