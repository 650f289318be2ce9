"""The recorder of MPI calls, as both sides see it: its layout in memory.

It never builds the recorder, and never reads a process.
"""
