"""What is typed at the prompt; importing the package fills the table."""

from pgdb.frontend.commands import (
    breakpoints,
    checking,
    data,
    looking,
    ranks,
    running,
    session_commands,
)

__all__ = ["breakpoints", "checking", "data", "looking", "ranks", "running", "session_commands"]
