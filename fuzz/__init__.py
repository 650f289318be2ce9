"""Fuzzing of every reader of foreign data in PGDB: see README.md in this folder."""
