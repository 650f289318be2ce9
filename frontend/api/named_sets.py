"""Sets of ranks by name, which programs define. No I/O."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from pgdb.errors import UsageError
from pgdb.patterns import pattern
from pgdb.ranks import RankSet

_AUTOMATIC = pattern(r"(running|stopped|exited|lost|held|error|bp\d+|world\d+|all)\Z")
_NAME = pattern(r"[A-Za-z_]\w*\Z")


def check_name(title: str, name: str) -> None:
    """Check that a set can have a name.

    :raises UsageError: if it cannot, or PGDB has a set of its own of this name; the error begins
        with *title*.
    """
    if _AUTOMATIC.match(name):
        raise UsageError(f"{title}: @{name} is a set of PGDB's own; give yours another name")
    if not _NAME.match(name):
        raise UsageError(
            f"{title}: {name!r} cannot be the name of a set; "
            "write a letter, then letters, digits and underscores"
        )


class NamedSets(dict[str, RankSet]):
    """Sets by the names that ``@name`` stands for; a text is read when it is assigned."""

    def __init__(
        self,
        parse: Callable[[str], RankSet],
        check: Callable[[RankSet], RankSet],
        given: Mapping[str, RankSet | str] | Iterable[tuple[str, RankSet | str]] = (),
    ) -> None:
        """Make the sets *given*.

        :param parse: reads a text.
        :param check: returns a set, or raises a RankSetError for ranks that the job lacks.
        """
        super().__init__()
        self._parse = parse
        self._check = check
        self.update(given)

    def __setitem__(self, name: str, ranks: RankSet | str) -> None:
        """Name a set, given as a RankSet or as text.

        :raises UsageError: if it is neither, the name is none, or PGDB has a set of this name.
        :raises RankSetError: if the text is malformed, or names ranks the job does not have.
        """
        super().__setitem__(self._checked_name(name), self._read(name, ranks))

    def update(  # type: ignore[override]
        self,
        other: Mapping[str, RankSet | str] | Iterable[tuple[str, RankSet | str]] = (),
        /,
        **named: RankSet | str,
    ) -> None:
        """Name several sets."""
        for name, ranks in {**dict(other), **named}.items():
            self[name] = ranks

    def take_over(self, before: Mapping[str, RankSet]) -> None:
        """Take sets of a world, an earlier launch or a recording; the job may lack their ranks."""
        super().update(before)

    def setdefault(self, name: str, default: RankSet | str, /) -> RankSet:
        """Return the set of a name, which is named *default* if there is none."""
        if name not in self:
            self[name] = default
        return self[name]

    def __ior__(  # type: ignore[override, misc]
        self, other: Mapping[str, RankSet | str]
    ) -> NamedSets:
        self.update(other)
        return self

    def _checked_name(self, name: object) -> str:
        if not isinstance(name, str):
            raise UsageError(f"sets: {name!r} is no name of a set, and not a text")
        check_name("sets", name)
        return name

    def _read(self, name: str, ranks: object) -> RankSet:
        if isinstance(ranks, str):
            return self._parse(ranks)
        if not isinstance(ranks, RankSet):
            raise UsageError(f"sets[{name!r}] is {ranks!r}, and neither a text nor a RankSet")
        return self._check(ranks)
