#!/usr/bin/env bash
# Run the program as a child and exit with its status: the program is not the process that the
# launcher started.  The assignment after it keeps bash from replacing itself by its last command.
"$@"
status=$?
exit "$status"
