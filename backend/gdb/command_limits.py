"""The share of a command's time that a GDB gets to print values."""

from __future__ import annotations

PRINTING_SHARE = 0.5
"""Share of a command's time after which GDB is interrupted if it still prints values."""
TOOK_TOO_LONG = "GDB was interrupted after half of the command's time (set timeout): {}"
"""The failure of such a command, around GDB's own message."""
