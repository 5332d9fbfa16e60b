"""Are the re-read control words the planned ones, and which ports were armed again; pure."""

from __future__ import annotations

from nodeprep.model.acs import AcsPlan, AcsState, AcsVerification, PortCheck, SavedPort
from nodeprep.model.facts import NodeFacts
from nodeprep.model.pci import REDIRECT, Bdf, acs_word
from nodeprep.model.tree import PciTree


def verify(facts: NodeFacts, wanted: AcsPlan | AcsState) -> AcsVerification:
    """Facts read after a change, against the plan that made it or the state saved for it.

    Against a state of another boot nothing is verified: its words are gone with that boot.
    """
    if isinstance(wanted, AcsPlan):
        checks = (_check(facts, write.bdf, write.after) for write in wanted.writes)
        return AcsVerification(ports=tuple(checks))
    if wanted.boot_id != facts.boot_id:
        return AcsVerification()
    tree = facts.tree
    return AcsVerification(
        ports=tuple(
            _check(facts, port.bdf, port.written, same_port=_is_same(tree, port))
            for port in wanted.ports
        )
    )


def _check(facts: NodeFacts, bdf: Bdf, expected: str, *, same_port: bool = True) -> PortCheck:
    function = facts.functions.get(bdf)
    if not same_port or function is None or function.acs is None:
        return PortCheck(bdf=bdf, expected=expected, found=None, rearmed=False)
    control = int(function.acs.control)
    return PortCheck(
        bdf=bdf,
        expected=expected,
        found=acs_word(control),
        rearmed=bool(control & ~int(expected, 16) & REDIRECT),
    )


def _is_same(tree: PciTree, port: SavedPort) -> bool:
    """Whether the saved port still sits in its place."""
    function = tree.functions.get(port.bdf)
    if function is None or function.vendor_device != port.vendor_device:
        return False
    return tree.path(port.bdf) == port.path
