"""Inputs guided by coverage, with atheris, where it is installed."""

from __future__ import annotations

import importlib
import pkgutil
import sys
import tempfile

from fuzz.targets import CORPUS, CRASHES, Target


def run(target: Target, inputs: int, seed: int) -> int:
    """Try inputs until one crashes, which atheris saves; the function does not return otherwise."""
    try:
        import atheris
    except ImportError:
        print("atheris is not installed: pip install '.[fuzz]'", file=sys.stderr)
        return 2
    # Imported modules have no counters, so the sources and the target are imported again.
    for name in [name for name in sys.modules if name.partition(".")[0] in ("pgdb", "fuzz")]:
        if name not in ("fuzz", "fuzz.__main__", __name__):
            del sys.modules[name]
    with atheris.instrument_imports(include=["pgdb"]):
        for package in ("pgdb.merge", "pgdb.overlay", "pgdb.jobs", "pgdb.backend.gdb"):
            found = importlib.import_module(package)
            for each in pkgutil.iter_modules(found.__path__, package + "."):
                if not each.name.endswith("_in_gdb"):
                    importlib.import_module(each.name)
        again = importlib.import_module("fuzz.targets").TARGETS[target.name]

    def one(data: bytes) -> None:
        try:
            again.run(data)
        except again.errors:
            pass

    # atheris saves new inputs in the first folder, which is not the committed one.
    folders = [tempfile.mkdtemp(prefix=f"pgdb-fuzz-{target.name}-")]
    folders += [
        str(root / target.name) for root in (CORPUS, CRASHES) if (root / target.name).is_dir()
    ]
    atheris.Setup([sys.argv[0], f"-runs={inputs}", f"-seed={seed}", "-timeout=30", *folders], one)
    atheris.Fuzz()
    return 0
