"""The sets of a partition, for comparison with those that were encoded."""

from __future__ import annotations

from pgdb.merge.partition_labels import Labels
from pgdb.merge.rankset_codec import Partition, read_partition
from pgdb.ranks import RankSet


def from_partition(partition: Partition) -> tuple[RankSet, ...]:
    """Return the sets that *partition* was made of.

    :raises ProtocolError: if sets overlap, are empty or go beyond the base.
    """
    found = read_partition(partition)
    return found.sets() if isinstance(found, Labels) else found
