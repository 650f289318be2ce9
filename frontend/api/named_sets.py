"""Sets of ranks by name, which programs define. No I/O."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from pgdb.errors import UsageError
from pgdb.ranks import RankSet


class NamedSets(dict[str, RankSet]):
    """Sets by the names that ``@name`` stands for; a text is read when it is assigned."""

    def __init__(
        self,
        parse: Callable[[str], RankSet],
        given: Mapping[str, RankSet | str] | Iterable[tuple[str, RankSet | str]] = (),
    ) -> None:
        super().__init__()
        self._parse = parse
        self.update(given)

    def __setitem__(self, name: str, ranks: RankSet | str) -> None:
        """Name a set, given as a RankSet or as text.

        :raises UsageError: if it is neither, or the name is none.
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
        return name

    def _read(self, name: str, ranks: object) -> RankSet:
        if isinstance(ranks, str):
            return self._parse(ranks)
        if not isinstance(ranks, RankSet):
            raise UsageError(f"sets[{name!r}] is {ranks!r}, and neither a text nor a RankSet")
        return ranks
