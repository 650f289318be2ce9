#!/usr/bin/env python3
"""Arrays and tables of Apache Arrow in one frame; a test reads them from outside."""

import datetime
import os

import pandas as pd
import pyarrow as pa


def values():
    missing, whole = pa.array([1, 2, None, 4]), pa.array([1.5, 2.5])
    part, small = pa.array(range(100))[3:7], pa.array([1, 2], pa.uint8())
    chunks, chunk = pa.chunked_array([[1, 2], [3]]), pa.chunked_array([[1, 2]])
    nothing, nulls = pa.chunked_array([], pa.int8()), pa.nulls(2)
    texts, long_texts = pa.array(["ab", "\u00e9", None]), pa.array(["ab"], pa.large_string())
    data, truths = pa.array([b"x"]), pa.array([True, False, None] * 4)[2:]
    labels = pa.array(["x", "y", "x", None]).dictionary_encode()
    moments = pa.array([datetime.datetime(2026, 1, 2), None])
    zoned, spans = pa.array([0], pa.timestamp("s", tz="UTC")), pa.array([3], pa.duration("ms"))
    days, lists = pa.array([datetime.date(2026, 1, 2)]), pa.array([[1], [2, 3]])
    table = pa.table({"a": [1, 2, 3], "b": ["x", "y", None], "l": [[1], [], None]})
    batch, schema, kind = table.to_batches()[0].slice(1), table.schema, lists.type
    many, held = pa.array(range(1000)), {"k": whole}
    frame = pd.DataFrame({"a": [1, 2], "s": pd.array(["x", None], dtype="string[pyarrow]")})
    frame.columns = pd.Index(["a", "s"], dtype="string[pyarrow]")
    series = pd.Series([1, 2], dtype="int64[pyarrow]")
    wait()
    return locals()


def wait():
    os.write(1, b"ready\n")
    os.read(0, 1)


values()
