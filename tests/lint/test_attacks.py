"""Keys in the wrong place are printed nowhere, and no text takes for ever."""

from __future__ import annotations

import time

import pytest

from nodeprep.errors import ParseError
from nodeprep.lint.reading import read
from nodeprep.output.json import dump
from tests.lint.base import linted

KEY = "Zq9realKey77"
BOUND_S = 30.0


@pytest.mark.parametrize(
    "line",
    [
        f"docker run --gpus all vllm/vllm-openai:v0.11.0 -e VLLM_API_KEY={KEY} --model m",
        f"vllm serve m VLLM_API_KEY={KEY}", f"vllm serve m --api-ke {KEY}",
        f"vllm serve m --api-key:{KEY}", f"vllm serve m --password:{KEY}",
        f"vllm serve m --secret-key {KEY}", f"vllm serve m --auth {KEY}",
        f"vllm serve m --passphrase {KEY}",
        f"vllm serve m --kv-transfer-config '{{\"password\":\"{KEY}\"'",
        f"vllm serve m --override-generation-config 'api_key={KEY}'",
        f"VLLM_KEY={KEY} vllm serve m", f"VLLM_TOKENS={KEY} vllm serve m",
        f"VLLM_PASS={KEY} vllm serve m", f"VLLM_BEARER={KEY} vllm serve m",
    ],
)  # fmt: skip
def test_a_key_in_the_wrong_place_is_not_printed(line: str) -> None:
    found = linted(("run.sh", line + "\n"))
    assert found.findings or found.unknown
    said = dump(found.findings).decode() + dump(found.unknown).decode()
    assert KEY not in said


@pytest.mark.parametrize("key", ["Zq9realxxxxKey", "[Zq9realKey]", "Zq9...77"])
def test_a_key_that_looks_like_a_placeholder_in_part_is_none(key: str) -> None:
    found = linted(("run.sh", f"vllm serve m --api-key '{key}'\n"))
    assert "secret-in-plain-sight" in [one.id for one in found.findings]


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("x.sh", "#!/bin/sh\nexport A='" + 'bash -c "$A"; ' * 300 + '\'\nbash -c "$A"\n'),
        ("notes.txt", "docker docker docker docker docker docker\n" * 8000),
        ("notes.md", ("\n    " + "a" * 16_000 + "\n") * 50),
    ],
)
def test_no_text_takes_for_ever(name: str, text: str) -> None:
    began = time.monotonic()
    read(text, name)
    assert time.monotonic() - began < BOUND_S


def test_aliases_of_a_long_text_are_counted() -> None:
    text = 'dtype: &b "' + "z" * 16_000 + '"\nhf-overrides:\n' + "- *b\n" * 9000
    with pytest.raises(ParseError, match="too large"):
        read(text, "config.yaml")
