"""The header of an nvidia-smi matrix: its columns, and which of them are certain.

A window that is too narrow cuts the header, and a terminal folds it; both may fall inside a name:

            GPU0    GPU1    NIC0 ... NIC9    NIC1            (NIC10, cut)
            GPU0    GPU1    NIC0    N
    IC1     CPU Affinity                                     (NIC1, folded)

So a name that stands there twice is taken for a cut one, and the columns from there on are unknown.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

from nodeprep.parse.affinity import affinity_columns

MAX_DEVICES = 256

LEVEL_CELL = re.compile(r"X|NV\d{1,3}|PIX|PXB|PHB|NODE|SYS|SOC")
"""SOC is what SYS was called before 2017."""
P2P_CELL = re.compile(r"X|OK|CNS|GNS|TNS|NS|DR|U")
ANY_CELL = re.compile(f"{LEVEL_CELL.pattern}|{P2P_CELL.pattern}")
GPU = re.compile(r"GPU\d{1,4}")

_NIC = re.compile(r"[A-Za-z](?=[\w.\-]*\d)[\w.\-]{0,62}")
"""RDMA device names; every one ends in or holds a number, which prose seldom does."""
_STEM = re.compile(r"\d+$")
_BORDER = str.maketrans("|│┃*`", "     ")
"""Borders of tables, and the marks of bold and code."""
_ELIDED = ("...", "…")
_PROMPT_WORDS = 8
"""A prompt and a command may stand in front of the header on its line."""


class Columns(NamedTuple):
    """What a header names, in its order."""

    gpus: tuple[str, ...] = ()
    nics: tuple[str, ...] = ()
    affinity: tuple[str, ...] = ()
    """Names of the affinity columns; empty text for one whose name is cut."""
    gpus_whole: bool = True
    nics_whole: bool = True
    words: tuple[str, ...] = ()
    """Everything that was read, to read it again with the next line."""

    @property
    def devices(self) -> tuple[str, ...]:
        return self.gpus + self.nics


def split(line: str) -> list[str]:
    """The words of a line without borders of tables."""
    return line.translate(_BORDER).split()


def touches(line: str, below: str) -> bool:
    """Whether a word that ends the one line may go on in the next: no blank or border between."""
    return bool(split(line[-1:]) and split(below[:1]))


def looks_like_nic(word: str) -> bool:
    return _NIC.fullmatch(word) is not None and ANY_CELL.fullmatch(word) is None


def read_header(words: list[str]) -> Columns | None:
    """The columns of a line of device names, behind a prompt perhaps; None for any other line."""
    names = words[_first_gpu(words) :]
    if len(names) > 1 and ANY_CELL.fullmatch(names[1]):
        return None
    read = _read(names)
    if read is None:
        return None
    columns, foreign = read
    if any(map(ANY_CELL.fullmatch, foreign)):
        return None
    return None if foreign and len(columns.gpus) == 1 else columns


def extend(columns: Columns, words: list[str], *, glued: bool, cut: bool) -> Columns | None:
    """The columns of a header that goes on in a further line; None when the line is no part of it.

    glued: the break in front of `words` may fall inside a word (see `touches`); cut: so may the
    one behind them.  A break that can be read both ways leaves out the NICs from there on.
    """
    apart = _whole([*columns.words, *words], cut and len(words) > 1)
    if not glued:
        return apart
    last = columns.words[-1] + words[0]
    joined = _whole([*columns.words[:-1], last, *words[1:]], cut and len(words) > 1)
    if apart is None or joined is None:
        return joined if apart is None else apart
    if _known(words[0], apart, but=len(columns.words)):
        return apart
    if _known(last, joined, but=len(columns.words) - 1):
        return joined
    return columns._replace(nics=columns.nics[:-1], nics_whole=False)


def _whole(words: list[str], cut: bool) -> Columns | None:
    """Columns without a foreign or a repeated word; the last one may be either if it may be cut."""
    read = _read(words)
    if read is None:
        return None
    columns, foreign = read
    counted = [int(gpu[3:]) for gpu in columns.gpus]
    if counted != sorted(counted) or any(map(ANY_CELL.fullmatch, foreign)):
        return None
    if not foreign and columns.gpus_whole and columns.nics_whole:
        return columns
    ends = cut and not columns.affinity and _whole(words[:-1], cut=False) is not None
    return columns if ends else None


def _known(word: str, columns: Columns, *, but: int) -> bool:
    """Whether the word is of the affinity columns, or another device's name differs in its number.

    but: the place of the word itself.
    """
    if word not in columns.devices:
        return True
    stem = _STEM.sub("", word)
    others = [name for place, name in enumerate(columns.devices) if place != but]
    return any(_STEM.sub("", other) == stem for other in others)


def _read(names: list[str]) -> tuple[Columns, list[str]] | None:
    """The columns, and the words behind them that are none; None without a GPU."""
    gpus = list(take_while(names, GPU.fullmatch))
    if not gpus or len(names) > MAX_DEVICES:
        return None
    rest = names[len(gpus) :]
    nics = list(take_while(rest, looks_like_nic))
    affinity, foreign = affinity_columns(rest[len(nics) :])
    certain = _until_repeated(nics)
    lost = bool(foreign) and not affinity
    return (
        Columns(
            gpus=_until_repeated(gpus),
            nics=certain,
            affinity=affinity,
            gpus_whole=len(set(gpus)) == len(gpus) and not (lost and _hides_gpus(nics, foreign)),
            nics_whole=len(certain) == len(nics) and not lost,
            words=tuple(names),
        ),
        foreign,
    )


def _hides_gpus(nics: list[str], foreign: list[str]) -> bool:
    """Whether columns of GPUs are cut or left out: `GPU0 GPU1 ... GPU7`, `GPU0 GPU1 GP`."""
    behind_gpus = not nics and (foreign[0] in _ELIDED or "GPU".startswith(foreign[0]))
    return behind_gpus or any(map(GPU.fullmatch, foreign))


def _until_repeated(names: list[str]) -> tuple[str, ...]:
    """The names before the first that stands there for the second time."""
    seen = dict.fromkeys(names)
    if len(seen) == len(names):
        return tuple(names)
    return tuple(name for name, first in zip(names, seen, strict=False) if name == first)


def _first_gpu(words: list[str]) -> int:
    """Place of the first GPU name, or of the end of the prompt."""
    return sum(1 for _ in take_while(words[:_PROMPT_WORDS], _is_no_gpu))


def _is_no_gpu(word: str) -> bool:
    return GPU.fullmatch(word) is None


def take_while(words: Iterable[str], fits: Callable[[str], object]) -> Iterator[str]:
    """The words up to the first that does not fit."""
    for word in words:
        if not fits(word):
            return
        yield word
