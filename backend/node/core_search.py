"""The search for core files on this host, for a session over core files of several hosts."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING

from pgdb.cores.search import CoreSearch, HostCores

if TYPE_CHECKING:
    from pgdb.cores.finding import Folder

LOG = logging.getLogger(__name__)


class CoreSearcher:
    """Finder and reader of core files; owns those that it expands, until the session ends."""

    def __init__(self) -> None:
        self._folder: Folder | None = None

    async def search(self, search: CoreSearch, node: int) -> HostCores:
        """Return the core files of this host, nothing if another aggregator of it is to search."""
        if node not in search.nodes:
            return HostCores()
        # Other sessions need not load what finds and expands core files.
        from pgdb.cores.finding import Folder
        from pgdb.cores.host_search import search_host

        if self._folder is None:
            self._folder = Folder()
        try:
            return await asyncio.to_thread(search_host, search, node, self._folder)
        except Exception as error:
            # The front end waits for an answer of each host.
            LOG.exception("the search for core files failed")
            return HostCores(error=f"{type(error).__name__}: {error}")

    async def close(self) -> None:
        """Remove the files that were expanded."""
        if self._folder is not None:
            await asyncio.to_thread(self._folder.remove)
