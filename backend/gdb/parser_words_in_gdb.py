"""Words of GDB's parser for Fortran; imported by PGDB, and inside GDB, in its Python."""

WORDS = (
    *("rank", "size", "shape", "kind", "abs", "mod", "modulo", "floor", "ceiling", "cmplx"),
    *("lbound", "ubound", "allocated", "associated", "loc", "sizeof", "real", "integer", "logical"),
    *("character", "complex", "single", "double", "precision"),
)
"""The words of GDB 13.1, a part of which 18.1 has; programs may use them as names."""
