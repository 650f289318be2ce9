"""The version of PGDB, in one place."""

__version__ = "0.1.0"
