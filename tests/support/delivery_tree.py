"""A tree of nodes that deliver files, without links between them."""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

from pgdb.files.delivery import Delivery
from pgdb.files.delivery_state import PART_BYTES
from pgdb.files.file_cache import FileCache
from pgdb.overlay.message_codec import decode, encode
from pgdb.overlay.messages import (
    FRONT_END,
    AnyMessage,
    FileKey,
    FilePart,
    WantedFile,
)
from pgdb.overlay.topology import Topology

ID = "ab" * 20


KEY = FileKey(build_id=ID)


BODY = random.Random(1).randbytes(5 * PART_BYTES // 2)


DEADLINE_S = 60.0


class Tree:
    """Nodes of a tree, the front end at its top, without links."""

    def __init__(self, directory: Path, count: int, fan_out: int = 2, **caches: Any) -> None:
        self.directory = directory
        self.topology = Topology(count=count, fan_out=fan_out)
        self.parents = {node: self.topology.parent(node) for node in range(count)}
        self.notices: dict[int, list[str]] = {}
        self.sent: list[tuple[int, int, AnyMessage]] = []
        self.spoil: Callable[[AnyMessage], AnyMessage | None] = lambda message: message
        self.caches = caches
        self.loop = asyncio.get_running_loop()
        self.nodes = {node: self._node(node) for node in (FRONT_END, *range(count))}

    def cache_of(self, node: int) -> Path:
        return self.directory / f"cache{node}"

    def _node(self, node: int) -> Delivery:
        def open_cache() -> FileCache:
            how = self.caches.get(f"node{node}", {})
            if isinstance(how, OSError):
                raise how
            return FileCache(self.cache_of(node), **how)

        def up(message: AnyMessage) -> None:
            self._carry(node, self.parents[node], message)

        return Delivery(
            node,
            f"host{node}",
            open_cache=open_cache,
            up=up if node != FRONT_END else None,
            down=lambda child, message: self._carry(node, child, message),
            notice=self.notices.setdefault(node, []).append,
        )

    def _carry(self, sender: int, receiver: int, message: AnyMessage) -> None:
        spoilt = self.spoil(decode(encode(message)))
        if spoilt is None:
            return
        self.sent.append((sender, receiver, spoilt))

        def arrive() -> None:
            if self.parents.get(sender) == receiver:
                self.nodes[receiver].from_child(sender, spoilt)
            elif self.parents.get(receiver) == sender:
                self.nodes[receiver].from_above(spoilt)

        self.loop.call_soon(arrive)

    async def want(self, node: int, path: Path, key: FileKey = KEY, own: str = "") -> Path | None:
        wanted = WantedFile(key=key, path=str(path))
        (result,) = self.nodes[node].want([(wanted, (own,) if own else ())])
        async with asyncio.timeout(DEADLINE_S):
            return await result

    async def close(self) -> None:
        for node in self.nodes.values():
            await node.close()

    def parts(self, *, to: int | None = None) -> Counter[int]:
        return Counter(
            message.offset
            for _, receiver, message in self.sent
            if isinstance(message, FilePart) and to in (None, receiver)
        )
