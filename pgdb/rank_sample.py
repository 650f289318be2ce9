"""Record of what a rank does at one moment; two of them show whether it has made progress."""

from pgdb.record_base import Struct


class SampledThread(Struct, frozen=True):
    """The activity of a thread outside MPI at one moment."""

    thread: str
    """GDB's number of the thread."""
    own: str = ""
    """Checksum of all that it can change without its memory; empty where it waits."""
    cpu_s: float = 0.0
    """CPU time so far, in seconds."""


class RankSample(Struct, frozen=True, tag="sample"):
    """The activity of a stopped rank at one moment."""

    stacks: str
    """A text that is the same if the rank has made no progress in its own functions: the places of
    the user's code on its stacks, with checksums. Empty if GDB finds no stack."""
    threads: tuple[SampledThread, ...] = ()
    """The threads outside MPI."""
    children_s: float = 0.0
    """CPU time of the processes that the rank has started, in seconds; other ranks do not count."""
    time_s: float = 0.0
    """Monotonic time of its host, in seconds."""
