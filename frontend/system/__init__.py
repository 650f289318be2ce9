"""This process and its machine: time limits, threads, programs, files; never knows a session."""
