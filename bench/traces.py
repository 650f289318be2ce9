"""The cost of a hit of a trace, beside that of a breakpoint whose condition is false.

``python bench/traces.py [HITS]`` runs a program whose loop calls a function, in one GDB after the
other, in turns, and prints ratios to the breakpoint. Nothing of MPI is in it: each rank has its GDB
for itself.
"""

from __future__ import annotations

import re
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

SOURCE = """
#include <stdio.h>
#include <time.h>
volatile int step; volatile double residual;
__attribute__((noinline)) void hit(int i) { step = i; residual = 1.0 / (i + 1); }
int main(void)
{
    struct timespec begin, end;
    clock_gettime(CLOCK_MONOTONIC, &begin);
    for (int i = 0; i < HITS; i++)
        hit(i);
    clock_gettime(CLOCK_MONOTONIC, &end);
    double s = (end.tv_sec - begin.tv_sec) + 1e-9 * (end.tv_nsec - begin.tv_nsec);
    printf("%.0f ns per hit\\n", 1e9 * s / HITS);
    return 0;
}
"""
ROUNDS = 3
CODE = Path(__file__).resolve().parent.parent / "backend" / "gdb"
REFERENCE = "break hit if i < 0"


def trace(*expressions: str, condition: str = "") -> list[str]:
    """Return the GDB commands that make a trace."""
    start = f"tracing_in_gdb.start(1, 'hit', {list(expressions)}, {condition!r}, 1, 0)"
    return [f"python import sys; sys.path.insert(0, {str(CODE)!r}); import tracing_in_gdb; {start}"]


WAYS = {
    REFERENCE: [REFERENCE],
    "trace hit i": trace("i"),
    "trace hit i, step, residual": trace("i", "step", "residual"),
    "trace hit i if i < 0": trace("i", condition="i < 0"),
    "dprintf hit": ['dprintf hit,"%d\\n",i'],
}


def main(arguments: list[str]) -> None:
    """Measure each way in turns, and print the medians as ratios."""
    hits = int(arguments[0]) if arguments else 5000
    with tempfile.TemporaryDirectory() as folder:
        source, program = Path(folder, "hits.c"), Path(folder, "hits")
        source.write_text(SOURCE)
        subprocess.run(["cc", "-g", f"-DHITS={hits}", source, "-o", program], check=True)
        found: dict[str, list[float]] = {way: [] for way in WAYS}
        for _ in range(ROUNDS):
            for way, commands in WAYS.items():
                found[way].append(_per_hit_ns(program, commands))
    medians = {way: statistics.median(times) for way, times in found.items()}
    for way, median in medians.items():
        print(f"{median / medians[REFERENCE]:6.2f}  {way}")


def _per_hit_ns(program: Path, commands: list[str]) -> float:
    arguments = [word for each in (*commands, "run") for word in ("-ex", each)]
    line = ["gdb", "-nx", "-q", "-batch", *arguments, str(program)]
    text = subprocess.run(line, check=True, capture_output=True, text=True).stdout
    match = re.search(r"(\d+) ns per hit", text)
    if match is None:
        sys.exit(f"no result of {' '.join(line)}:\n{text}")
    return float(match[1])


if __name__ == "__main__":
    main(sys.argv[1:])
