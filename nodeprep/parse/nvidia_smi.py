"""`nvidia-smi --query-gpu=... --format=csv` and `nvidia-smi -L`.

index, name, memory.total [MiB], pcie.link.gen.current
0, NVIDIA L40S, 46068 MiB, 4
1, NVIDIA L40S, 46068 MiB, [N/A]
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from nodeprep.errors import ParseError
from nodeprep.model.nvidia_smi import GpuListing, MigListing
from nodeprep.parse.text import clean_lines, shown

MAX_ROWS = 10_000
_LONGEST = 400

_UNIT = re.compile(r"(?P<name>[^\[\]]{1,64}?)\s?\[[^\[\]]{1,16}\]")
_FIELD = re.compile(r"[a-z][a-z0-9_]{0,30}(?:\.[a-z0-9_]{1,30}){0,5}")
_NOISE = re.compile(r"\s*```|\S{0,80}[$#](?:\s|$)")
"""Code fences and prompts."""
_UNKNOWN = re.compile(r"\[.*\]|N/A|Unknown|", re.IGNORECASE)
_FAILURES = re.compile(
    r"Failed to initialize NVML|NVIDIA-SMI has failed|No devices were found|couldn't communicate"
    r"|Unable to determine the device handle|GPU is lost|command not found|not a valid field",
    re.IGNORECASE,
)

_PLAIN = frozenset(("index", "name", "uuid", "serial", "pstate", "count", "timestamp"))
"""Names of the query without a dot; every other one has one."""

_GPU = re.compile(
    r"GPU (?P<index>\d{1,4}): (?P<name>.{1,120}?)(?: \(UUID: (?P<uuid>[\w-]{1,64})\))?"
)
_MIG = re.compile(
    r"MIG (?P<profile>\S{1,32})\s+Device\s+(?P<index>\d{1,3}): \(UUID: (?P<uuid>[\w/-]{1,80})\)"
)


def parse_query_csv(
    text: str, fields: Sequence[str] | None = None
) -> tuple[dict[str, str | None], ...]:
    """One dict a row: name of the query without its unit -> text as printed.

    `[N/A]`, `[Not Supported]`, `[GPU requires reset]` and their like become None.  fields: the
    names asked for, where the output has no header (`noheader`).
    Raises ParseError on an error message of nvidia-smi, without a header, or on a cut row.
    """
    lines = [line for line in clean_lines(text) if line.strip() and not _NOISE.match(line)]
    # nvidia-smi quotes nothing: neither product names nor anything else holds a comma.
    rows = [[cell.strip() for cell in line.split(",")] for line in lines]
    place, names = _names(rows, fields)
    if len(rows) - place > MAX_ROWS:
        raise ParseError(f"more than {MAX_ROWS:,} rows", hint="keep the output of one command")
    if names is None:
        raise _no_table(lines)
    table = []
    for row in rows[place:]:
        if len(row) != len(names):
            raise ParseError(
                f"a row of {len(row)} fields below {len(names)} names: {shown(', '.join(row))}",
                hint="the text is cut or mixed; paste the whole output of nvidia-smi --query-gpu",
            )
        table.append(dict(zip(names, map(_known, row), strict=True)))
    return tuple(table)


def parse_gpu_list(text: str) -> tuple[GpuListing, ...]:
    """`nvidia-smi -L`: every GPU with its MIG devices. Raises ParseError when there is none."""
    lines = clean_lines(text)
    found: list[tuple[re.Match[str], list[MigListing]]] = []
    for line in lines:
        if (gpu := _GPU.fullmatch(line.strip()[:_LONGEST])) is not None:
            found.append((gpu, []))
        elif found and (mig := _MIG.fullmatch(line.strip()[:_LONGEST])) is not None:
            listing = MigListing(profile=mig["profile"], index=int(mig["index"]), uuid=mig["uuid"])
            found[-1][1].append(listing)
    if not found:
        raise _no_table(lines)
    return tuple(
        GpuListing(index=int(gpu["index"]), name=gpu["name"], uuid=gpu["uuid"], mig=tuple(mig))
        for gpu, mig in found[:MAX_ROWS]
    )


def _names(rows: list[list[str]], fields: Sequence[str] | None) -> tuple[int, list[str] | None]:
    """Where the rows begin, and the names of their columns."""
    for place, row in enumerate(rows):
        names = [_bare(cell) for cell in row]
        wanted = fields is not None and names == list(fields)
        if wanted or (fields is None and _is_header(names)):
            return place + 1, names
    return 0, None if fields is None else list(fields)


def _is_header(names: list[str]) -> bool:
    """Names of the query, each once, and one of them no word of prose."""
    telling = any("." in name or "_" in name or name in _PLAIN for name in names)
    return telling and len(set(names)) == len(names) and all(map(_FIELD.fullmatch, names))


def _bare(cell: str) -> str:
    match = _UNIT.fullmatch(cell)
    return cell if match is None else match["name"]


def _known(cell: str) -> str | None:
    return None if _UNKNOWN.fullmatch(cell) else cell


def _no_table(lines: list[str]) -> ParseError:
    failure = next((line for line in lines if _FAILURES.search(line)), None)
    if failure is not None:
        return ParseError(
            f"nvidia-smi failed: {shown(failure)}", hint="see `nodeprep audit` on the machine"
        )
    return ParseError(
        "no output of nvidia-smi in the text",
        hint="run: nvidia-smi --query-gpu=index,name,pci.bus_id --format=csv",
    )
