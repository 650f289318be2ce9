"""Entries of PyTorch's flight records."""

from __future__ import annotations

import json
import pickle
from typing import Any

from pgdb.frontend.analysis.flight_records import (
    RankRecord,
    read_record,
)

# The parts of a record of PyTorch 2.13 (version 2.10 of the format), as gloo writes it.
FRAMES = [
    {"filename": "/v/torch/distributed/distributed_c10d.py", "line": 3245, "name": "all_reduce"},
    {"filename": "/home/ann/train.py", "line": 10, "name": "<module>"},
]


def entry(sequence: int, name: str = "all_reduce", group: str = "0", **others: Any) -> Any:
    return {
        "collective_seq_id": sequence,
        "frames": FRAMES,
        "input_dtypes": ["Float"],
        "input_sizes": [[4, 8]],
        "is_p2p": False,
        "process_group": (group, "default_pg" if group == "0" else "undefined"),
        "profiling_name": f"gloo:{name}",
        "retired": True,
        "state": "scheduled",
    } | others


def record(*entries: Any, ranks: str = "[]") -> RankRecord:
    config = {"": {"desc": "", "name": "", "ranks": ranks}}
    content = {"entries": list(entries), "pg_config": config, "version": "2.10"}
    found = read_record(pickle.dumps(content))
    assert read_record(json.dumps(content).encode()) == found
    return found


WAITS = {"retired": False}
