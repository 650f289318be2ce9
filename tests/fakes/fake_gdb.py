"""A program that answers MI by a script: ``python fake_gdb.py SCRIPT``.

SCRIPT is a JSON object: command without its token -> list of actions for that command. Each action
is a line to print, in which TOKEN stands for the command's token, or one of

* ``RAW text``: print the text without a newline, ``\\xNN`` as bytes,
* ``REPEAT count line``: print the line so many times,
* a line with ``RUN count text`` in it, up to a quotation mark: the text so many times,
* ``EXIT status``: end at once,
* ``FAIL status text``: write the text to standard error and end,
* ``KILL``: end by SIGKILL,
* ``SLEEP``: from here on ignore everything, the end of the input too.

The answer to a command that is not in the script is ``TOKEN^done``. The program ends when its input
ends.
"""

from __future__ import annotations

import json
import os
import re
import signal
import sys

_COMMAND = re.compile(r"(\d*)(.*)", re.S)
_RUN = re.compile(r'RUN (\d+) ([^"]*)')


def main(script: dict[str, list[str]]) -> None:
    """Answer commands until the input ends."""
    for line in sys.stdin:
        match = _COMMAND.match(line.rstrip("\n"))
        assert match is not None
        token, command = match[1], match[2]
        for action in script.get(command, ["TOKEN^done"]):
            perform(action.replace("TOKEN", token))


def perform(action: str) -> None:
    """Do one thing of the script."""
    word, _, rest = action.partition(" ")
    if word == "EXIT":
        os._exit(int(rest))
    elif word == "FAIL":
        status, _, text = rest.partition(" ")
        print(text, file=sys.stderr, flush=True)
        os._exit(int(status))
    elif word == "KILL":
        os.kill(os.getpid(), signal.SIGKILL)
    elif word == "SLEEP":
        while True:
            signal.pause()
    elif word == "REPEAT":
        count, _, line = rest.partition(" ")
        for _ in range(int(count)):
            print(line, flush=True)
    elif word == "RAW":
        os.write(1, rest.encode("latin-1").decode("unicode_escape").encode("latin-1"))
    else:
        line = _RUN.sub(lambda match: int(match[1]) * match[2], action)
        sys.stdout.write(line + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
