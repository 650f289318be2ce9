"""The convenience variable of each GDB that says whether reports of sanitizers stop its rank.

Conditions of the hidden breakpoints read it, so that one GDB command is the switch. A new GDB stops
at reports; the session sends the command to it if its option is off.
"""

STOPS_ON_REPORT = "$_pgdb_stops_on_report"


def switch_line(is_on: bool) -> str:
    """Return the setting for the user. The journal of settings keeps no such line: a change while
    no rank is there would not be in it."""
    return f"stop-on-report {'on' if is_on else 'off'}"


def switch(is_on: bool) -> str:
    """Return the GDB command that turns the stops on or off."""
    return f"set {STOPS_ON_REPORT} = {int(is_on)}"
