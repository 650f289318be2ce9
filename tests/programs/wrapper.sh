#!/usr/bin/env bash
# Become the program: the process stays the same through the exec.
exec "$@"
