"""``python -m fuzz TARGET``: try inputs on one target, or on all."""

from __future__ import annotations

import argparse
import logging
import os
import resource
import sys
from pathlib import Path

from fuzz.common import close_loop
from fuzz.targets import TARGETS
from fuzz.watch import Watch, name_of

_MOST_MEMORY_BYTES = 6 << 30


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m fuzz", description=__doc__)
    parser.add_argument("target", choices=[*TARGETS, "all"], help="what is to be fuzzed")
    parser.add_argument("--inputs", type=int, default=100_000, help="how many inputs are tried")
    parser.add_argument("--seconds", type=float, default=float("inf"), help="and for how long")
    parser.add_argument("--seed", type=int, default=1, help="the inputs follow from it")
    parser.add_argument(
        "--grow",
        type=int,
        default=0,
        metavar="BYTES",
        help="first try inputs of so many bytes that are words over and over",
    )
    parser.add_argument(
        "--most-growth",
        type=float,
        default=64.0,
        metavar="MIB",
        help="more memory than this at the end than after a fifth is a failure",
    )
    parser.add_argument("--save", type=Path, metavar="DIR", help="where inputs of crashes go")
    parser.add_argument(
        "--coverage",
        action="store_true",
        help="be guided by coverage; needs atheris (the extra 'fuzz')",
    )
    options = parser.parse_args()  # fmt: skip
    logging.disable()
    # An allocation above this limit is a fault; it must fail here and not harm the machine.
    resource.setrlimit(resource.RLIMIT_AS, (_MOST_MEMORY_BYTES, _MOST_MEMORY_BYTES))
    names = list(TARGETS) if options.target == "all" else [options.target]
    if options.coverage:
        from fuzz.guided import run

        return run(TARGETS[names[0]], options.inputs, options.seed)
    failed = False
    for name in names:
        watch = Watch(TARGETS[name])
        if options.grow:
            print(f"{name}: grown: {watch.grow(options.grow).text()}", flush=True)
            crashes = watch.outcome.crashes
            watch = Watch(TARGETS[name])
            watch.outcome.crashes.update(crashes)
        outcome = watch.run(options.inputs, options.seed, options.seconds)
        print(f"{name}: seed {options.seed}: {outcome.text()}", flush=True)
        grown = (outcome.rss_end_bytes - outcome.rss_begin_bytes) / 2**20
        if grown > options.most_growth:
            print(f"{name}: memory has grown by {grown:.1f} MiB")
            failed = True
        failed = failed or bool(outcome.crashes)
        if options.save:
            options.save.mkdir(parents=True, exist_ok=True)
            for data in outcome.crashes.values():
                (options.save / f"{name}-{name_of(data)}").write_bytes(data)
    close_loop()
    return int(failed)


if __name__ == "__main__":
    os.environ.setdefault("PYTHONHASHSEED", "0")
    sys.exit(main())
