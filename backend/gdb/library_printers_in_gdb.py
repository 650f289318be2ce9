"""Types of the C++ library that neither GDB nor the library prints; runs inside GDB, in its Python.

The printers of libstdc++ (12.2) leave out ``std::valarray`` and the iterators of unordered
containers: GDB shows their pointers, and none of their elements. Iterators and
``std::optional`` get the operators ``*`` and ``->`` here, so that ``it->second`` can be typed; GDB
calls the program's own function otherwise, which optimized programs do not have.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator

import gdb
import gdb.xmethod
import printers_in_gdb as printers  # type: ignore[import-not-found]

_NAME = re.compile(r"(?:const )?(?:std|__gnu_cxx)::(?:\w+::)*(\w+)<")
_POINTERS = {
    "__normal_iterator": "_M_current",
    "_Deque_iterator": "_M_cur",
}
"""Members of iterators that point to the element."""
_NODES = {
    "_Rb_tree_iterator": ("_M_node", "_M_right"),
    "_Rb_tree_const_iterator": ("_M_node", "_M_right"),
    "_List_iterator": ("_M_node", "_M_prev"),
    "_List_const_iterator": ("_M_node", "_M_prev"),
    "_Fwd_list_iterator": ("_M_node", "_M_next"),
    "_Fwd_list_const_iterator": ("_M_node", "_M_next"),
    "_Node_iterator": ("_M_cur", "_M_nxt"),
    "_Node_const_iterator": ("_M_cur", "_M_nxt"),
}
"""Members of iterators that point to the node of the element, and the last member of the node's
base class: the element follows."""
_UNORDERED = ("_Node_iterator", "_Node_const_iterator")


def _name_of(kind: gdb.Type) -> str:
    """Return the name of a class template of the library; empty for other types."""
    found = _NAME.match(kind.tag or "")
    return found[1] if found is not None else ""


def is_iterator(kind: gdb.Type) -> bool:
    """Return whether a type is an iterator that is printed as its element."""
    name = _name_of(kind.strip_typedefs().unqualified())
    return name in _POINTERS or name in _NODES


def _target(value: gdb.Value) -> gdb.Value:
    """Return the object to which an iterator points, or that an optional has.

    :raises gdb.GdbError: if there is none.
    """
    if value.type.code == gdb.TYPE_CODE_PTR:  # GDB passes the address of the object
        value = value.dereference()
    name = _name_of(value.type.strip_typedefs())
    if name in _POINTERS:
        pointer = value[_POINTERS[name]]
        if not pointer:
            raise gdb.GdbError("The iterator points to no element.")
        return pointer.dereference()
    if name in _NODES:
        return _in_node(value, *_NODES[name])
    content = getattr(gdb.default_visualizer(value), "contained_value", None)
    if not isinstance(content, gdb.Value):
        raise gdb.GdbError("The optional has no value.")
    return content


def _in_node(value: gdb.Value, member: str, last: str) -> gdb.Value:
    """Return the element in the node to which an iterator points."""
    node = value[member]
    if not node:
        raise gdb.GdbError("The iterator points to no element.")
    kind = value.type.strip_typedefs().template_argument(0)
    # The storage of a node has no debug information where the program uses iterators alone.
    behind = node.dereference()[last]
    address = int(behind.address) + behind.type.sizeof
    address += -address % kind.alignof
    return gdb.Value(address).cast(kind.pointer()).dereference()


class _Star(gdb.xmethod.XMethodWorker):  # type: ignore[misc]
    """The operator ``*``."""

    def get_arg_types(self) -> None:
        """Return that there is no argument."""

    def get_result_type(self, value: gdb.Value) -> gdb.Type:
        """Return the type of the element."""
        return self(value).type

    def __call__(self, value: gdb.Value) -> gdb.Value:
        """Return the element."""
        return _target(value)


class _Arrow(_Star):
    """The operator ``->``."""

    def __call__(self, value: gdb.Value) -> gdb.Value:
        """Return the address of the element."""
        return _target(value).address


class _Method(gdb.xmethod.XMethod):  # type: ignore[misc]
    """The entry of one operator in ``info xmethod``."""


class _TargetMatcher(gdb.xmethod.XMethodMatcher):  # type: ignore[misc]
    """Finder of the operator for a class of the library."""

    def __init__(self) -> None:
        super().__init__(f"{printers.PREFIX}targets")
        self.methods = [_Method("operator*"), _Method("operator->")]

    def match(self, class_type: gdb.Type, method_name: str) -> _Star | None:
        """Return the operator *method_name* of a class; None if it is none of these."""
        if not any(each.enabled and each.name == method_name for each in self.methods):
            return None
        name = _name_of(class_type.strip_typedefs())
        if name not in _POINTERS and name not in _NODES and name != "optional":
            return None
        return _Arrow() if method_name == "operator->" else _Star()


class _Valarray:
    """Printer of a valarray, in the form in which the library prints a vector."""

    def __init__(self, value: gdb.Value) -> None:
        self._value = value

    def to_string(self) -> str:
        """Return the text before the elements."""
        return f"std::valarray of length {int(self._value['_M_size'])}"

    def children(self) -> Iterator[tuple[str, gdb.Value]]:
        """Yield label and value of each element."""
        data = self._value["_M_data"]
        for index in range(int(self._value["_M_size"])):
            yield f"[{index}]", (data + index).dereference()

    def display_hint(self) -> str:
        """Return that GDB shows no labels."""
        return "array"


class _UnorderedIterator:
    """Printer of an iterator by the element to which it points, as the library prints others."""

    def __init__(self, value: gdb.Value) -> None:
        self._value = value

    def to_string(self) -> str:
        """Return the text of the element."""
        member, _ = _NODES[_name_of(self._value.type.strip_typedefs())]
        if not self._value[member]:
            return "non-dereferenceable iterator for unordered container"
        options = printers.options_for_parts(levels=0)
        return "..." if options is None else str(_target(self._value).format_string(**options))


def _printer_of(value: gdb.Value) -> _Valarray | _UnorderedIterator | None:
    name = _name_of(value.type.strip_typedefs())
    if name == "valarray":
        return _Valarray(value)
    return _UnorderedIterator(value) if name in _UNORDERED else None


def main() -> None:
    """Register printers and operators; without them all works, only less can be read and typed."""
    printers.register(_printer_of, "library")
    try:
        printers.hide_own("xmethods")
        gdb.xmethod.register_xmethod_matcher(None, _TargetMatcher(), replace=True)
    except Exception as error:  # noqa: BLE001  # whatever it is, GDB must start
        sys.stderr.write(f"pgdb: iterators cannot be dereferenced: {error}\n")
