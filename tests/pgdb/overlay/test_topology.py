"""The tree: every aggregator has one parent, and the shape is the same seen from either end."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pgdb.overlay.messages import FRONT_END
from pgdb.overlay.topology import Topology, share_out
from pgdb.ranks import RankSet

trees = st.builds(Topology, st.integers(1, 200), st.integers(1, 40))


@given(trees)
def test_parents_and_children_agree(tree: Topology) -> None:
    found = [child for node in (FRONT_END, *range(tree.count)) for child in tree.children(node)]
    assert sorted(found) == list(range(tree.count))
    for node in (FRONT_END, *range(tree.count)):
        assert all(tree.parent(child) == node for child in tree.children(node))
        assert len(tree.children(node)) <= max(1, tree.fan_out)


@given(trees)
def test_ancestors_lead_to_the_front_end(tree: Topology) -> None:
    for node in range(tree.count):
        way = tree.ancestors(node)
        assert way[0] == tree.parent(node) and way[-1] == FRONT_END
        assert all(tree.parent(one) == other for one, other in itertools.pairwise(way))
        assert way.count(FRONT_END) == 1


@given(trees)
def test_subtrees_divide_the_tree(tree: Topology) -> None:
    assert sorted(tree.subtree(0)) == list(range(tree.count))
    assert sorted(tree.subtree(FRONT_END)) == list(range(FRONT_END, tree.count))
    for node in range(tree.count):
        below = [each for child in tree.children(node) for each in tree.subtree(child)]
        assert sorted(tree.subtree(node)) == sorted([node, *below])


@given(trees)
def test_there_is_one_level_more_than_below_the_highest_child(tree: Topology) -> None:
    for node in (FRONT_END, *range(tree.count)):
        below = [tree.levels_below(child) for child in tree.children(node)]
        assert tree.levels_below(node) == (max(below) + 1 if below else 0)


def test_a_tree_of_two_levels() -> None:
    tree = Topology(count=7, fan_out=2)
    assert tree.children(FRONT_END) == (0,)
    assert tree.children(0) == (1, 2) and tree.children(1) == (3, 4) and tree.children(3) == ()
    assert tree.ancestors(6) == (2, 0, FRONT_END)
    assert tree.subtree(1) == (1, 3, 4)
    assert tree.levels_below(0) == 2
    assert tree.levels_below(FRONT_END) == 3


def test_no_aggregators_no_children() -> None:
    assert Topology(count=0).children(FRONT_END) == ()


@given(st.frozensets(st.integers(0, 200), min_size=1), st.integers(1, 20))
def test_shares_are_even_contiguous_and_all(numbers: frozenset[int], count: int) -> None:
    shares = share_out(RankSet(numbers), count)
    assert len(shares) == count
    assert [rank for share in shares for rank in share] == sorted(numbers)
    sizes = [len(share) for share in shares]
    assert max(sizes) - min(sizes) <= 1


@pytest.mark.parametrize("count", [1, 3])
def test_shares_of_nothing_are_empty(count: int) -> None:
    assert share_out(RankSet(), count) == (RankSet(),) * count
