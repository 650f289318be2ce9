"""Shipping PGDB to a host without it: an interpreter without site-packages, with its own home."""

from __future__ import annotations

import asyncio
import os
import subprocess
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pgdb.frontend.startup import shipping
from pgdb.frontend.startup.shipping import Shipper
from pgdb.overlay.credentials import make_credentials

DEADLINE_S = 60.0
CREDENTIALS = make_credentials()

# A stand-in for PGDB for tests of the transfer.
SMALL = {
    "pgdb/__init__.py": b"",
    "pgdb/backend/__init__.py": b"",
    "pgdb/backend/__main__.py": b"""\
import json, os, sys
names = ("PYTHONPATH", "PGDB_SHIP", "PGDB_USER_PYTHONPATH")
reported = {name: os.environ.get(name) for name in names}
reported["input"] = sys.stdin.read()
print(json.dumps(reported | {"file": __file__}))
""",
}


@dataclass
class Remote:
    """A host without PGDB."""

    home: Path
    python: Path
    environment: dict[str, str] = field(default_factory=dict)

    @property
    def cache(self) -> Path:
        return self.home / ".cache" / "pgdb"

    @property
    def entries(self) -> list[Path]:
        return [path for path in self.cache.iterdir() if len(path.name) == 64]

    async def start(
        self, command: Sequence[str], ship: str | None, text: bytes = b""
    ) -> tuple[int, str, str]:
        """Run a command there; return its status, its output and its errors."""
        variables = {"PATH": os.environ["PATH"], "HOME": str(self.home), **self.environment}
        if ship is not None:
            variables["PGDB_SHIP"] = ship
        pipe = asyncio.subprocess.PIPE
        process = await asyncio.create_subprocess_exec(
            *command, env=variables, stdin=pipe, stdout=pipe, stderr=pipe
        )
        async with asyncio.timeout(DEADLINE_S):
            out, err = await process.communicate(text)
        return process.returncode or 0, out.decode(), err.decode()

    async def bootstrap(self, shipper: Shipper, text: bytes = b"") -> tuple[int, str, str]:
        """Run the command there that fetches PGDB from the shipper."""
        command = shipping.remote_command(str(self.python))
        return await self.start(command, shipper.describe_environment(), text)

    def python_says(self, program: str, path: str) -> str:
        """Return the output of a program with *path* as its only path."""
        return subprocess.run(
            [self.python, "-P", "-c", program],
            env={"PATH": os.environ["PATH"], "HOME": str(self.home), "PYTHONPATH": path},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            text=True,
            timeout=DEADLINE_S,
            check=True,
        ).stdout.strip()


def shipped(act: Callable[[Shipper], Coroutine[Any, Any, Any]]) -> Any:
    """Run *act* with a shipper."""

    async def run() -> Any:
        shipper = Shipper()
        await shipper.start("127.0.0.1", CREDENTIALS)
        try:
            return await act(shipper)
        finally:
            await shipper.close()

    return asyncio.run(run())
