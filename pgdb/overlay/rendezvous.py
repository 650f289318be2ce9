"""What the front end tells the aggregators before there is a link to them."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

RENDEZVOUS_VARIABLE = "PGDB_RENDEZVOUS"
"""Environment variable with the path of the rendezvous file."""
WIRE_UP_VARIABLE = "PGDB_WIRE_UP"
"""``mpi`` (the default) or ``direct``."""
USER_PYTHONPATH_VARIABLE = "PGDB_USER_PYTHONPATH"
"""The PYTHONPATH before ours, which the Python inside GDB gets."""
USER_LIBRARY_PATH_VARIABLE = "PGDB_USER_LD_LIBRARY_PATH"
"""The LD_LIBRARY_PATH before ours, which GDB gets."""


@dataclass(frozen=True, slots=True)
class Rendezvous:
    """What the front end tells all aggregators before the wire-up."""

    credentials: str
    front_end: str
    fan_out: int
    count: int
    grace_s: float

    @classmethod
    def parse(cls, text: str | bytes) -> Rendezvous:
        """Read a rendezvous as :meth:`dump` wrote it."""
        told: dict[str, Any] = json.loads(text)
        return cls(
            credentials=told["credentials"],
            front_end=told["front_end"],
            fan_out=told["fan_out"],
            count=told["count"],
            grace_s=told["grace_s"],
        )

    def dump(self) -> str:
        """Return the rendezvous as one line."""
        return json.dumps(
            {
                "credentials": self.credentials,
                "front_end": self.front_end,
                "fan_out": self.fan_out,
                "count": self.count,
                "grace_s": self.grace_s,
            }
        )
