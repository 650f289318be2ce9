"""Write the page of all commands: ``python -m pgdb.frontend.commands > docs/commands.md``."""

import sys

from pgdb.frontend.commands.table import COMMANDS


def page() -> str:
    """Return docs/commands.md."""
    lines = [
        "# Commands",
        "",
        "Made from the command table by `python -m pgdb.frontend.commands > docs/commands.md`.",
        "Every other command is GDB's: it goes to the GDBs of the selected ranks and what they",
        "say is merged.",
    ]
    group = None
    for command in COMMANDS.commands:
        if command.group is not group:
            group = command.group
            lines += ["", f"## {group.value}"]
        lines += ["", f"### {command.word}", "", "```", command.help, "```"]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    sys.stdout.write(page())
