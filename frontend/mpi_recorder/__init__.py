"""The library of the recorder of MPI calls: its C source, its build, its cache.

It never runs a job and never reads a process.
"""
