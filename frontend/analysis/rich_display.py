"""Results that show themselves: as HTML in a notebook, as text with ``print``."""

from __future__ import annotations


class RichDisplay:
    """A result that a notebook shows as a table or a tree.

    The presentation belongs to :mod:`pgdb.frontend.show`, which is loaded when it is first needed.
    """

    __slots__ = ()

    def _repr_html_(self) -> str:
        from pgdb.frontend.show import notebook

        return notebook.html(self)


class RichText(RichDisplay):
    """A result that also has a text for people."""

    __slots__ = ()

    def __str__(self) -> str:
        from pgdb.frontend.show import notebook

        return notebook.text(self)
