"""Base of the operations: the properties that each operation has."""

import enum
import re
from collections.abc import Mapping
from typing import ClassVar, Literal, get_args, get_type_hints

import msgspec

from pgdb.controls import not_utf8
from pgdb.errors import UsageError
from pgdb.patterns import pattern

Logged = Literal["as it is", "expression", "command", "count"]
"""The way in which a log shows a field of an operation; see :mod:`pgdb.frontend.store.redact`."""


class Capability(enum.Flag):
    """A kind of operation that a debugger can carry out; all debuggers can look at the rank."""

    RUN = enum.auto()
    """Orders to resume, interrupt and kill the rank."""
    BREAKPOINTS = enum.auto()
    """Orders to set, change and list breakpoints."""


NO_CAPABILITY = Capability(0)
"""Capabilities that operations need which only look."""

_WRONG_VALUE = pattern(r"Invalid enum value (.*) - at `\$\.(\w+)`", re.DOTALL)
_WRONG_TYPE = pattern(r"Expected `([^`]*)`, got `([^`]*)` - at `\$\.(\w+)`")


class Operation(msgspec.Struct, frozen=True, tag=True, kw_only=True, forbid_unknown_fields=True):
    """The work that a request asks a rank's debugger for.

    The class variables are properties of the operation, which its fields do not change. They do
    not travel.
    """

    only_reads: ClassVar[bool] = False
    """Whether it changes neither the rank nor its debugger."""
    needs_stopped_rank: ClassVar[bool] = False
    capability: ClassVar[Capability] = NO_CAPABILITY
    """The capability that it needs; one that sets the rank running needs RUN besides."""
    is_urgent: ClassVar[bool] = False
    """Whether it does not wait until earlier operations are complete."""
    is_about_breakpoints: ClassVar[bool] = False
    """Whether it must be repeated for a rank that gets a new debugger."""
    can_last: ClassVar[bool] = False
    """Whether it can print values of any size, or carry out code of the user's."""
    uses_frame: ClassVar[bool] = False
    """Whether the answer depends on the selected frame or thread."""
    keeps_answer: ClassVar[bool] = True
    """Whether the aggregator keeps the answer of each rank, for a :class:`Recall`."""
    outdates_answers: ClassVar[bool] = False
    """Whether earlier answers may be wrong after it."""
    logged: ClassVar[Mapping[str, Logged]] = {}
    """The fields that a log shows, besides numbers."""

    def check(self) -> None:
        """Check the types and values of the fields as an aggregator does, which closes its link.

        :raises UsageError: if an aggregator would refuse the operation.
        """
        try:
            msgspec.msgpack.decode(msgspec.msgpack.encode(self), type=type(self))
        except UnicodeEncodeError as error:
            raise UsageError(not_utf8(error, "the text")) from None
        except (msgspec.ValidationError, TypeError, OverflowError) as error:
            raise UsageError(self._why_refused(str(error))) from None

    def _why_refused(self, error: str) -> str:
        """Return the words for a field that the codec refuses."""
        if found := _WRONG_VALUE.fullmatch(error):
            allowed = get_args(get_type_hints(type(self))[found[2]])
            return f"{found[2]}: {found[1]} is none of {', '.join(map(str, allowed))}"
        if found := _WRONG_TYPE.fullmatch(error):
            return f"{found[3]}: {found[2]} in place of {found[1]}"
        return f"{type(self).__name__}: {error}"

    @property
    def sets_running(self) -> bool:
        """Whether it sets the rank running."""
        return False

    @property
    def needed(self) -> Capability:
        """The capability that a debugger must have for it, an empty one if every debugger can."""
        return self.capability | Capability.RUN if self.sets_running else self.capability

    @property
    def needs_process(self) -> bool:
        """Whether there must be a process, which a core file is not."""
        return self.needed is not NO_CAPABILITY

    @property
    def reads_kept_values(self) -> bool:
        """Whether it reads what the debugger has collected; the rank may run, or have ended."""
        return False

    @property
    def joins_arguments(self) -> bool:
        """Whether frames whose arguments differ are of one class."""
        return False

    @property
    def asks_for_numbers(self) -> bool:
        """Whether other addresses are other answers."""
        return False
