"""The kernel parameter names every port of the ways, also those that are clear for now."""

from __future__ import annotations

from msgspec.structs import replace

from nodeprep.acs.pairs import parse_pairs
from nodeprep.acs.plan import plan
from nodeprep.model.facts import NodeFacts
from nodeprep.model.pci import REDIRECT, Bdf
from tests.build import facts, switch_of

EVERY = parse_pairs("all")


def cleared(node: NodeFacts, *ports: Bdf) -> NodeFacts:
    functions = dict(node.functions)
    for bdf in ports:
        one = functions[bdf]
        assert one.acs is not None
        functions[bdf] = replace(one, acs=replace(one.acs, control=one.acs.control & ~REDIRECT))
    return replace(node, functions=functions)


def test_a_port_that_somebody_cleared_is_named_too() -> None:
    """At the next boot the kernel sets its bits again, as it does those of its neighbours."""
    node = facts(switch_of(4))
    whole = plan(node, pairs=EVERY)
    first, *others = (write.bdf for write in whole.writes)
    assert others
    left = plan(cleared(node, first), pairs=EVERY)
    assert [write.bdf for write in left.writes] == others
    assert left.kernel_parameter == whole.kernel_parameter


def test_where_nothing_redirects_none_is_needed() -> None:
    node = facts(switch_of(4))
    ports = [write.bdf for write in plan(node, pairs=EVERY).writes]
    assert plan(cleared(node, *ports), pairs=EVERY).kernel_parameter == ""
