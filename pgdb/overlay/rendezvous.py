"""The rendezvous: the front end's data for the aggregators before they have a link."""

from __future__ import annotations

import json

import msgspec

from pgdb.bootstrap_env import CALL_WORD as CALL_WORD
from pgdb.bootstrap_env import CANNOT_JOIN as CANNOT_JOIN
from pgdb.bootstrap_env import FIRST_NODE_VARIABLE as FIRST_NODE_VARIABLE
from pgdb.bootstrap_env import RENDEZVOUS_TEXT_VARIABLE as RENDEZVOUS_TEXT_VARIABLE
from pgdb.bootstrap_env import RENDEZVOUS_VARIABLE as RENDEZVOUS_VARIABLE
from pgdb.bootstrap_env import USER_LIBRARY_PATH_VARIABLE as USER_LIBRARY_PATH_VARIABLE
from pgdb.bootstrap_env import USER_PYTHONPATH_VARIABLE as USER_PYTHONPATH_VARIABLE
from pgdb.bootstrap_env import USER_SEARCH_PATH_VARIABLE as USER_SEARCH_PATH_VARIABLE
from pgdb.bootstrap_env import WATCH_INPUT_VARIABLE as WATCH_INPUT_VARIABLE
from pgdb.bootstrap_env import WIRE_UP_VARIABLE as WIRE_UP_VARIABLE

MAX_HINTS = 8


class Rendezvous(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The front end's data for all aggregators before the wire-up."""

    credentials: str
    front_end: str
    """``host:port`` at which the front end listens; empty if it calls the aggregators."""
    fan_out: int
    count: int
    grace_s: float
    hosts: tuple[str, ...] = ()
    """Some hosts of the aggregators; each aggregator chooses its own address by the routes to them.
    """

    @classmethod
    def parse(cls, text: str | bytes) -> Rendezvous:
        """Read a rendezvous that :meth:`dump` wrote.

        :raises msgspec.DecodeError: if it is not one.
        """
        return msgspec.json.decode(text, type=cls)

    def dump(self) -> str:
        """Return the rendezvous as one line of ASCII, for any locale of its reader."""
        return json.dumps(msgspec.to_builtins(self))
