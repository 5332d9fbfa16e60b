"""The first line of a function in `lspci`: address, class, name, ids.

3b:00.0 3D controller [0302]: NVIDIA Corporation AD102GL [L40S] [10de:26b9] (rev a1)
0000:00:02.0 Class 0604: Device 8086:2f04 (rev 02)            (without the list of names)
00:00.0 0604: 1000:c010 (rev b0) (prog-if 00 [Normal decode]) (-n)
00:01.1/01:00.0 VGA compatible controller: ...                (-PP)
"""

from __future__ import annotations

import re
from typing import NamedTuple

from nodeprep.errors import ParseError
from nodeprep.model.pci import Bdf, parse_bdf

_ADDRESS = re.compile(
    r"(?P<path>(?:[0-9a-f:]{1,20}\.[0-7]/){0,32})"
    r"(?P<bdf>(?:(?:[0-9a-f]{4,8}:)?[0-9a-f]{2}:)?[01][0-9a-f]\.[0-7])\s+(?P<rest>\S.*)",
    re.IGNORECASE,
)
_CLASS = re.compile(
    r"(?P<name>[^:\[\]]{0,60}?) ?(?:\[(?P<code>[0-9a-f]{4})\])?:(?:\s|$)", re.IGNORECASE
)
_CLASS_CODE = re.compile(r"(?:Class )?([0-9a-f]{4})", re.IGNORECASE)
_REVISION = re.compile(r"\(rev ([0-9a-f]{2})\)", re.IGNORECASE)
_PROG_IF = re.compile(r"\(prog-if ([0-9a-f]{2})\b", re.IGNORECASE)
# A number sign behind a tab begins somebody's remark; `Root Port #1` is a name.  Scripts add the
# driver.
_TAIL = re.compile(r"\((?:rev|prog-if|driver:) .*|\t#.*", re.IGNORECASE)
_IDS = re.compile(r"(?:\[|Device |^)([0-9a-f]{4}):([0-9a-f]{4})\]?$", re.IGNORECASE)
_UNNAMED = re.compile(r"\bDevice ([0-9a-f]{4})$", re.IGNORECASE)

_LONGEST = 512

# The names pci.ids gives to the classes that stand on the way to accelerators.
_CLASS_NAMES = {
    "SATA controller": 0x0106,
    "Non-Volatile memory controller": 0x0108,
    "Ethernet controller": 0x0200,
    "Infiniband controller": 0x0207,
    "Network controller": 0x0280,
    "VGA compatible controller": 0x0300,
    "3D controller": 0x0302,
    "Display controller": 0x0380,
    "Audio device": 0x0403,
    "Memory controller": 0x0580,
    "Host bridge": 0x0600,
    "ISA bridge": 0x0601,
    "PCI bridge": 0x0604,
    "Bridge": 0x0680,
    "System peripheral": 0x0880,
    "Co-processor": 0x0B40,
    "USB controller": 0x0C03,
    "Processing accelerators": 0x1200,
    "Non-Essential Instrumentation": 0x1300,
}


class Header(NamedTuple):
    bdf: Bdf | None
    """None: the path form without bus numbers (-P) names no bus."""
    class_name: str | None = None
    class_code: int | None = None
    """24 bits."""
    name: str | None = None
    vendor_id: int | None = None
    device_id: int | None = None
    revision: int | None = None


def read_header(line: str) -> Header | None:
    """The parts of a first line; None for any other line."""
    match = _ADDRESS.match(line[:_LONGEST])
    if match is None:
        return None
    if ":" not in match["bdf"]:
        return Header(None) if match["path"] else None
    head = _CLASS.match(match["rest"])
    if head is None:
        return None
    try:
        bdf = parse_bdf(match["bdf"])
    except ParseError:
        return None
    rest = match["rest"]
    return _with_names(bdf, head, rest[head.end() :])


def read_ids(text: str) -> tuple[int | None, int | None]:
    """Vendor and device at the end of a name: `[10de:26b9]`, `Device 10de:26b9`, `Device 2329`."""
    both = _IDS.search(text)
    if both is not None:
        return int(both[1], 16), int(both[2], 16)
    unnamed = _UNNAMED.search(text)
    return None, int(unnamed[1], 16) if unnamed is not None else None


def _with_names(bdf: Bdf, head: re.Match[str], rest: str) -> Header:
    revision, prog_if = _REVISION.search(rest), _PROG_IF.search(rest)
    full = _TAIL.sub("", rest).strip()
    vendor_id, device_id = read_ids(full)
    name = _IDS.sub("", full).strip() if vendor_id is not None else full
    class_name, code = _class(head["name"].strip(), head["code"])
    return Header(
        bdf=bdf,
        class_name=class_name,
        class_code=None if code is None else code << 8 | int(prog_if[1] if prog_if else "0", 16),
        name=name or None,
        vendor_id=vendor_id,
        device_id=device_id,
        revision=int(revision[1], 16) if revision is not None else None,
    )


def _class(name: str, code: str | None) -> tuple[str | None, int | None]:
    bare = _CLASS_CODE.fullmatch(name)
    if bare is not None:
        return None, int(bare[1], 16)
    return name or None, _CLASS_NAMES.get(name) if code is None else int(code, 16)
