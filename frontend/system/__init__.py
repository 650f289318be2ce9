"""This process and its machine: time limits, threads, programs, files of the user."""
