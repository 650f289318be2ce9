"""Fuzzing of all that PGDB reads from others: see README.md in this folder."""
