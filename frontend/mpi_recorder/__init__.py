"""The library of the flight recorder: its C source, its build with the user's compiler, its cache.

It never runs a job and never reads a process.
"""
