"""Ports, switches and the cards in them."""

from __future__ import annotations

from tests.machines.node import Node, Part


def slot(
    node: Node,
    port: str,
    port_part: Part,
    card: Part,
    *,
    bus: int,
    acs: int,
    parent: str | None = None,
    driver: str = "nvidia",
    width: int = 16,
    port_width: int = 16,
    speed_gts: float = 16.0,
    card_speed_gts: float | None = None,
    card_width: int | None = None,
    group_type: str = "identity",
    vfs: int | None = None,
    multifunction: bool = False,
) -> str:
    """A port with the card below it on `bus`; returns the card's address.

    width, speed_gts: the negotiated link; port_width, card_width, card_speed_gts: what each end
    could do, by default what was negotiated (16 lanes for the port).  acs: the port's control word.
    """
    above = node.function(
        port, port_part, parent=parent, bus=bus, acs=acs, width=width, max_width=port_width,
        speed_gts=speed_gts, driver="pcieport",
    )  # fmt: skip
    return node.function(
        f"0000:{bus:02x}:00.0", card, parent=above, width=width, max_width=card_width,
        speed_gts=speed_gts, max_speed_gts=card_speed_gts, driver=driver, group_type=group_type,
        vfs=vfs, multifunction=multifunction,
    )  # fmt: skip


def nvme(
    node: Node, port: str, port_part: Part, card: Part, *, bus: int, acs: int,
    parent: str | None = None,
) -> None:  # fmt: skip
    """A drive with four lanes in a slot of 16."""
    slot(node, port, port_part, card, bus=bus, acs=acs, parent=parent, driver="nvme", width=4)


def switch(
    node: Node, upstream: str, part: Part, *, parent: str, buses: tuple[int, int],
    speed_gts: float = 16.0,
) -> str:  # fmt: skip
    """The upstream port of a switch; `buses`: its inner bus and the last one below it."""
    return node.function(
        upstream, part, parent=parent, bus=buses[0], last_bus=buses[1], speed_gts=speed_gts,
        driver="pcieport",
    )  # fmt: skip
