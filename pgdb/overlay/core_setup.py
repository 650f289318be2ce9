"""The part of a session's setup that is about core files."""

import msgspec


class CoreSetup(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Core files in place of processes."""

    paths: dict[int, str]
    """The core file of each rank, by the name that its aggregator's host has for it."""
    executable: str = ""
    """The program of all cores; empty for the one that each core names."""
    most_gdbs: int = 0
    """Most GDBs of one aggregator at a time; 0 for as many as fit into its part of the memory."""
    sharers: int = 1
    """Most aggregators of a host, which divide half of its free memory among themselves."""
