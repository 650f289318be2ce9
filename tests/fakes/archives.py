"""Archives of PGDB as they are shipped to a host."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from pgdb.frontend.startup import shipped_archive
from pgdb.frontend.startup.shipped_archive import Archive, Tags

HERE = Tags.here()


def packed(files: Mapping[str, bytes], tmp_path: Path) -> Archive:
    return shipped_archive._pack(files, tmp_path)
