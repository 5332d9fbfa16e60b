"""Inputs far larger than any output: refused at once, or read in bounded time and memory."""

from __future__ import annotations

import resource
import subprocess
import sys

import pytest

from nodeprep.errors import ParseError
from nodeprep.parse.kinds import parse_kind
from nodeprep.parse.text import MAX_LINES, MAX_TEXT_BYTES

KINDS = ("topo", "p2p", "lspci", "lspci-tree", "setpci", "cmdline", "metrics")
MEMORY_BYTES = 300 << 20
SECONDS = 20
"""CPU time for one kind: several times what a slow machine needs."""

# As much as is let in: long lines, many lines, many matches; each for the kinds it hurts most.
SHAPES = {
    "one line": ("'a' * size", KINDS),
    "escapes in one line": (r"'\x1b[0' * (size // 4)", KINDS),
    "escapes in many lines": (r"'ab\x1b[0mcd\x1b[0mef\n' * lines", ("topo",)),
    "rows": (r"'GPU0 X\n' * lines", ("topo", "metrics")),
    "headers": (r"('GPU0 GPU1 ' + 'n1 ' * 20 + '\n') * (size // 72)", ("topo", "p2p")),
    "functions": (r"'00:01.0 PCI bridge: X\n' * lines", ("lspci", "setpci")),
    "attributes": (r"'LnkSta: Speed 8GT/s, Width x8\n' * lines", ("lspci",)),
    "blanks": (r"('00:00.0 a' + ' ' * 16000 + '\n') * (size // 16010)", ("lspci", "setpci")),
    "addresses": (r"'00:00.0\n' * lines", ("setpci",)),
    "branches": (r"('-[0000:00]' + '-+-00.0' * 200 + '\n') * (size // 1412)", ("lspci-tree",)),
    "wide characters": (r"('\U0001f600' * 40 + '\n') * (size // 164)", ("lspci",)),
}
RUN = """
import re, resource
from nodeprep.errors import ParseError
from nodeprep.parse.kinds import parse_kind
size, lines = {size}, {lines}
data = ({shape}).encode()
for kind in {kinds}:
    resource.setrlimit(resource.RLIMIT_CPU, ({seconds}, {seconds}))
    try:
        parse_kind(kind, data)
    except ParseError:
        pass
print(re.search(r"VmHWM:\\s+(\\d+)", open("/proc/self/status").read())[1])
"""


@pytest.mark.parametrize("kind", KINDS)
def test_100_mb_are_refused_before_anything_is_done(kind: str) -> None:
    before = resource.getrusage(resource.RUSAGE_SELF).ru_utime
    with pytest.raises(ParseError, match="longer than 8 MiB") as caught:
        parse_kind(kind, b"GPU0 X\n" * 14_300_000)
    assert caught.value.hint
    assert resource.getrusage(resource.RUSAGE_SELF).ru_utime - before < 2


@pytest.mark.parametrize("shape", SHAPES)
def test_the_most_that_is_let_in(shape: str) -> None:
    code = RUN.format(
        size=MAX_TEXT_BYTES - 16,
        lines=MAX_LINES - 1,
        shape=SHAPES[shape][0],
        kinds=SHAPES[shape][1],
        seconds=SECONDS * len(SHAPES[shape][1]),
    )
    result = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=600
    )
    assert result.returncode == 0, result.stderr
    assert int(result.stdout) << 10 < MEMORY_BYTES
