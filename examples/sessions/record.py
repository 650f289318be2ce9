"""Record the transcripts of ../README.md again: run every session and replace its output.

Run it in the folder of the examples after building them: python sessions/record.py [LAUNCHER …]
The default launcher is mpirun -n 4; pgdb must be on PATH.
"""

import re
import socket
import subprocess
import sys
from pathlib import Path

PAGE = Path("README.md")
BLOCK = re.compile(r"(<!-- (sessions/(\w+)\.pgdb) -->\n```console\n)(.*?)(```\n)", re.S)
OF_A_SESSION = (0, 1, 4, 5)  # a rank that crashes or gives no answer is what some show
LIBRARY = re.compile(r" from /\S+/site-packages/(\S+)")


def program_of(session: str) -> list[str]:
    """Return the words that run the program of a session."""
    name = session.removesuffix("_cause")
    if Path(f"{name}.py").exists():
        return ["python", f"{name}.py"]
    return [f"build/{name}"]


def transcript(path: Path, launcher: list[str]) -> str:
    """Return the output of a session."""
    program = program_of(path.stem)
    done = subprocess.run(
        ["pgdb", "launch", "--batch", "-x", str(path), *launcher, *program],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=300,
        check=False,
    )
    if done.returncode not in OF_A_SESSION:
        raise SystemExit(f"{path}: status {done.returncode}:\n{done.stdout}")
    lines = [f"$ pgdb launch mpirun -n 4 {' '.join(program)}"]
    for line in done.stdout.splitlines():
        line = re.sub(rf"\b{re.escape(socket.gethostname())}\b", "node1", line)
        lines.append(LIBRARY.sub(r" from …/\1", line))
    return "\n".join(lines) + "\n"


def main() -> None:
    """Record all sessions of the page."""
    launcher = sys.argv[1:] or ["mpirun", "-n", "4"]

    def record(match: re.Match[str]) -> str:
        print(match[2], file=sys.stderr)
        return match[1] + transcript(Path(match[2]), launcher) + match[5]

    page = PAGE.read_text(encoding="utf-8")
    PAGE.write_text(BLOCK.sub(record, page), encoding="utf-8")


if __name__ == "__main__":
    main()
