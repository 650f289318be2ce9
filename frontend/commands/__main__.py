"""Write the page of all commands, docs/reference/commands.md.

Run ``python -m pgdb.frontend.commands > docs/reference/commands.md``.
"""

import sys

from pgdb.frontend.commands.table import COMMANDS, Command, CommandTable


def section(command: Command) -> list[str]:
    """Return the lines about one command."""
    return ["", f"### {command.word}", "", "```", command.help, "```"]


def page(table: CommandTable = COMMANDS) -> str:
    """Return docs/reference/commands.md."""
    lines = [
        "# Commands",
        "",
        "The command table makes this page:",
        "`python -m pgdb.frontend.commands > docs/reference/commands.md`.",
        "",
        "Every other command is GDB's. PGDB sends it to the GDBs of the selected ranks and merges",
        "their answers.",
    ]
    group = None
    for command in table.commands:
        if command.group is not group:
            group = command.group
            lines += ["", f"## {group.value}"]
        lines += section(command)
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    sys.stdout.write(page())
