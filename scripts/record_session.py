"""Record the terminal session of the README as an SVG picture.

Run ``python scripts/record_session.py docs/session.svg`` in the checkout, in an environment with
PGDB. It needs tmux, which is the terminal, an MPI (``MPIRUN``, ``MPICC``) and a GDB. The session is
real: the script types the commands below and waits for the prompt after each of them.
"""

import argparse
import io
import os
import re
import shlex
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from rich.console import Console
from rich.terminal_theme import TerminalTheme
from rich.text import Text

ROOT = Path(__file__).parent.parent
COLUMNS, ROWS = 106, 60
TIMEOUT_S = 60
SHELL_PROMPT = re.compile(r"^\$ *$")
PROMPT = re.compile(r"^\(pgdb [^)]*\) *$")
QUESTION = re.compile(r"\(y or n\) *$")
LAUNCH = "pgdb launch mpirun -n 32 --oversubscribe build/hang_one_rank"
# A command, and the seconds after which Ctrl-C interrupts it (0: wait for the prompt).
SESSION = (
    ("continue", 8.0),
    ("tree", 0.0),
    ("print log_busy", 0.0),
    ("focus @2", 0.0),
    ("up", 0.0),
    ("list 31,40", 0.0),
)
THEME = TerminalTheme(
    (30, 33, 40),
    (220, 223, 228),
    [
        (90, 96, 110),
        (224, 108, 117),
        (152, 195, 121),
        (229, 192, 123),
        (97, 175, 239),
        (198, 120, 221),
        (86, 182, 194),
        (220, 223, 228),
    ],
)
# As rich's own, without the fonts that it loads from another site.
FORMAT = """<svg class="rich-terminal" viewBox="0 0 {width} {height}" xmlns="http://www.w3.org/2000/svg">
<style>
.{unique_id}-matrix {{ font-family: monospace;
font-size: {char_height}px; line-height: {line_height}px; }}
.{unique_id}-title {{ font-size: 18px; font-family: sans-serif; }}
{styles}
</style>
<defs>
<clipPath id="{unique_id}-clip-terminal">
<rect x="0" y="0" width="{terminal_width}" height="{terminal_height}" />
</clipPath>
{lines}
</defs>
{chrome}
<g transform="translate({terminal_x}, {terminal_y})" clip-path="url(#{unique_id}-clip-terminal)">
{backgrounds}
<g class="{unique_id}-matrix">
{matrix}
</g>
</g>
</svg>
"""


class Terminal:
    """A tmux of its own with one shell."""

    def __init__(self, socket_path: Path, environment: dict[str, str]) -> None:
        self._tmux = ["tmux", "-S", str(socket_path), "-f", "/dev/null"]
        size = ["-x", str(COLUMNS), "-y", str(ROWS)]
        self._run("new-session", "-d", *size, "sh", environment=environment)
        self._run("set-option", "-g", "status", "off")
        self._run("set-option", "-g", "history-limit", "5000")
        self.wait_for(re.compile(r"\S"))

    def _run(self, *words: str, environment: dict[str, str] | None = None) -> str:
        done = subprocess.run(
            [*self._tmux, *words], env=environment, capture_output=True, text=True, check=True
        )
        return done.stdout

    def type(self, line: str) -> None:
        """Type a line and Enter."""
        self._run("send-keys", "-l", line)
        self._run("send-keys", "Enter")

    def press(self, key: str) -> None:
        """Press one key, by tmux's name of it."""
        self._run("send-keys", key)

    def screen(self, colours: bool = False) -> str:
        """Return what the terminal shows, with what has scrolled off."""
        words = ["capture-pane", "-p", "-J", "-S", "-"]
        return self._run(*words, *(["-e"] if colours else [])).rstrip("\n") + "\n"

    def wait_for(self, last_line: re.Pattern[str]) -> None:
        """Wait until the last line is the prompt and nothing more comes."""
        deadline = time.monotonic() + TIMEOUT_S
        before = ""
        while time.monotonic() < deadline:
            now = self.screen()
            lines = now.splitlines()
            if now == before and lines and last_line.search(lines[-1]):
                return
            before = now
            time.sleep(0.3)  # tmux reports no end of output: two equal screens are one
        raise SystemExit(f"no prompt after {TIMEOUT_S} s; the terminal shows\n{before}")

    def close(self) -> None:
        """End the shell and its tmux."""
        subprocess.run([*self._tmux, "kill-server"], check=False, capture_output=True)


def record(launch: str, session: tuple[tuple[str, float], ...]) -> tuple[str, str]:
    """Return the screen of a session, as plain text and with colours."""
    environment = dict(os.environ, TERM="xterm-256color")
    environment["PATH"] = f"{Path(sys.executable).parent}:{environment['PATH']}"
    with tempfile.TemporaryDirectory() as folder:
        # The recording has no history to search, and leaves none.
        environment |= {"XDG_STATE_HOME": folder, "XDG_CONFIG_HOME": folder}
        terminal = Terminal(Path(folder) / "socket", environment)
        try:
            terminal.type(f"cd {shlex.quote(str(ROOT))}; PS1='$ '; clear")
            terminal.wait_for(SHELL_PROMPT)
            terminal.type(launch)
            terminal.wait_for(PROMPT)
            for line, patience_s in session:
                terminal.type(line)
                if patience_s:
                    time.sleep(patience_s)  # the ranks run so long before Ctrl-C
                    terminal.press("C-c")
                terminal.wait_for(PROMPT)
            shown = terminal.screen(), terminal.screen(colours=True)
            # The job was started for the recording, and would spin for ever if it were detached.
            terminal.type("kill")
            terminal.wait_for(QUESTION)
            terminal.type("y")
            terminal.wait_for(PROMPT)
        finally:
            terminal.close()
    return shown


def picture(screen: str, title: str) -> str:
    """Return the SVG of a screen with colours."""
    lines = screen.rstrip("\n").split("\n")
    console = Console(
        width=COLUMNS,
        record=True,
        file=io.StringIO(),
        force_terminal=True,
        color_system="truecolor",
    )
    for line in lines:
        console.print(Text.from_ansi(line), soft_wrap=True)
    return console.export_svg(title=title, theme=THEME, code_format=FORMAT, unique_id="pgdb")


def main() -> None:
    """Build the program, record the session, write the picture."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("picture", type=Path, help="the SVG to write")
    parser.add_argument("--text", type=Path, help="the screen as text, to write as well")
    options = parser.parse_args()
    program = ROOT / "build" / "hang_one_rank"
    program.parent.mkdir(exist_ok=True)
    compiler = os.environ.get("MPICC", "mpicc")
    words = [compiler, "-g", "-O0", "-o", str(program), "hang_one_rank.c"]
    subprocess.run(words, cwd=ROOT / "examples", check=True)
    plain, coloured = record(LAUNCH, SESSION)
    host = re.compile(rf"\b{re.escape(socket.gethostname())}\b")
    options.picture.write_text(picture(host.sub("node1", coloured), LAUNCH), encoding="utf-8")
    if options.text:
        options.text.write_text(host.sub("node1", plain), encoding="utf-8")


if __name__ == "__main__":
    main()
