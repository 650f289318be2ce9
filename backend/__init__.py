"""The aggregators and their GDBs, which the MPI launcher starts; never imports the front end."""

import importlib

import pgdb


def _refuse_another_pgdb() -> None:
    """Raise ImportError where ``pgdb`` is the package of another distribution.

    PyGreSQL and PyPI's ``pgdb`` bring one too: installed after ours they overwrite its
    ``__init__``, and beside an editable install of ours they stand in its place while this
    folder is still found.
    """
    try:
        ours = importlib.import_module("pgdb.version").__version__
    except ModuleNotFoundError:
        ours = None
    if ours is None or getattr(pgdb, "__version__", None) != ours:
        raise ImportError(
            f"{pgdb.__file__} is not PGDB, the parallel debugger, but a package of the same name "
            "(PyGreSQL, or pgdb of PyPI): uninstall that one here and install pgdb-mpi again, "
            "or give pgdb-mpi an environment of its own"
        )


_refuse_another_pgdb()
