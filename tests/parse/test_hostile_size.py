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
"""Four times what they take on a busy two-core machine."""

# Each holds as much as is let in: long lines, many lines, many headers, many matches.
SHAPES = {
    "one line": "'a' * size",
    "one line of escapes": r"'\x1b[0' * (size // 4)",
    "short lines": "('GPU0 X\\n' * lines)",
    "headers": "(('GPU0 GPU1 ' + 'n1 ' * 20 + '\\n') * (size // 72))[:size]",
    "functions": "'00:01.0 PCI bridge: X\\n' * lines",
    "attributes": "'LnkSta: Speed 8GT/s, Width x8\\n' * lines",
    "blanks": "('00:00.0 a' + ' ' * 16000 + '\\n') * (size // 16010)",
    "addresses": "'00:00.0\\n' * lines",
    "branches": "('-[0000:00]' + '-+-00.0' * 200 + '\\n') * (size // 1412)",
    "wide characters": "('\\U0001f600' * 40 + '\\n') * (size // 164)",
}
RUN = """
import resource, sys
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
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024)
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
        shape=SHAPES[shape],
        kinds=KINDS,
        seconds=SECONDS * len(KINDS),
    )
    result = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=600
    )
    assert result.returncode == 0, result.stderr
    assert int(result.stdout) < MEMORY_BYTES
