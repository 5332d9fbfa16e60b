"""Headers of safetensors files -> tensors, and their bytes by how vLLM splits them.

A file begins with the header's length (8 bytes, little endian) and the header, JSON::

    {"__metadata__": {"format": "pt"},
     "model.norm.weight": {"dtype": "BF16", "shape": [4096], "data_offsets": [0, 8192]}}

Format: github.com/huggingface/safetensors.  The data behind the header is never read.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable
from typing import NamedTuple

import msgspec

from nodeprep.errors import ParseError
from nodeprep.model.memory import CheckpointPart

LENGTH_BYTES = 8
MAX_HEADER_BYTES = 100_000_000
"""The format's own limit (safetensors, MAX_HEADER_SIZE)."""
_HINT = "the file is damaged or is not a safetensors file: fetch it again"
_BITS = {
    "BOOL": 8, "U8": 8, "I8": 8, "F8_E4M3": 8, "F8_E5M2": 8, "F8_E8M0": 8, "I16": 16, "U16": 16,
    "F16": 16, "BF16": 16, "I32": 32, "U32": 32, "F32": 32, "I64": 64, "U64": 64, "F64": 64,
    "C64": 64, "F4": 4, "F6_E2M3": 6, "F6_E3M2": 6,
}  # fmt: skip
_FLOATS = ("F16", "BF16", "F32", "F64")
_NOT_LOADED = re.compile(
    r"rotary_emb\.inv_freq|masked_bias|\.attn\.bias$|(^|\.)(mtp|nextn|eagle)[._]|position_ids$"
)
_SCALE = re.compile(r"scale|zero|absmax|quant_map|quant_state")
_LAYER = re.compile(r"(?:^|\.)layers\.(\d{1,6})\.")
_PARTS = (
    ("lm_head", re.compile(r"(^|\.)(lm_head|output|embed_out)\.")),
    ("embedding", re.compile(r"embed_tokens\.|\bwte\.|word_embeddings\.|tok_embeddings\.")),
    ("replicated", re.compile(
        r"norm|(mlp|moe|feed_forward)\.gate\.|router|q_a_proj|kv_a_proj|_bias$"
        r"|(o_proj|down_proj)\.bias|indexer"
    )),
    ("experts", re.compile(r"experts?\.(\d+\.|gate|up|down|w\d)")),
    ("kv", re.compile(r"[._](k|v)_proj\.|attention\.w[kv]\.")),
)  # fmt: skip


class TensorHeader(NamedTuple):
    name: str
    dtype: str
    elements: int
    size_bytes: int


class _Entry(msgspec.Struct):
    dtype: str
    shape: list[int]
    data_offsets: tuple[int, int]


def header_length(first: bytes, file_bytes: int) -> int:
    """Bytes of the header, from the file's first 8 and its size.  Raises ParseError."""
    length = int.from_bytes(first[:LENGTH_BYTES], "little")
    if len(first) < LENGTH_BYTES or not 2 <= length <= MAX_HEADER_BYTES:
        raise ParseError(f"safetensors header of {length} bytes is not possible", hint=_HINT)
    if LENGTH_BYTES + length > file_bytes:
        raise ParseError("safetensors file ends inside its header", hint=_HINT)
    return length


def parse_header(data: bytes, file_bytes: int) -> tuple[TensorHeader, ...]:
    """The tensors of one file, from its header and the file's size.

    Raises ParseError when the header contradicts itself or the size: a file cut short by a broken
    download must not pass for a small one.
    """
    try:
        raw = msgspec.json.decode(data, type=dict[str, msgspec.Raw])
        raw.pop("__metadata__", None)
        entries = {name: msgspec.json.decode(one, type=_Entry) for name, one in raw.items()}
    except (msgspec.MsgspecError, UnicodeError, RecursionError, ValueError) as error:
        raise ParseError(f"safetensors header: {str(error)[:120]}", hint=_HINT) from None
    room = file_bytes - LENGTH_BYTES - len(data)
    return tuple(_tensor(name, one, room) for name, one in entries.items())


def _tensor(name: str, entry: _Entry, room: int) -> TensorHeader:
    bits = _BITS.get(entry.dtype)
    begin, end = entry.data_offsets
    bad = len(entry.shape) > 16 or any(not 0 <= one < 1 << 48 for one in entry.shape)
    elements = 0 if bad else math.prod(entry.shape)
    if bits is None or bad or not 0 <= begin <= end or (elements * bits + 7) // 8 != end - begin:
        raise ParseError(f"safetensors header: {name[:80]!r} contradicts itself", hint=_HINT)
    if end > room:
        raise ParseError(f"safetensors file ends before {name[:80]!r}", hint=_HINT)
    return TensorHeader(name, entry.dtype, elements, end - begin)


def shard_names(index: bytes) -> tuple[str, ...]:
    """Files of a `model.safetensors.index.json`, each once, sorted.  Raises ParseError."""
    try:
        files = msgspec.json.decode(index, type=_Index).weight_map.values()
    except (msgspec.MsgspecError, UnicodeError, RecursionError, ValueError) as error:
        raise ParseError(f"safetensors index: {str(error)[:120]}", hint=_HINT) from None
    names = sorted(set(files))
    strange = [one for one in names if not re.fullmatch(r"[\w-][\w.-]{0,200}\.safetensors", one)]
    if strange or len(names) > _MOST_FILES:
        raise ParseError(
            f"safetensors index names {str(strange[:1] or len(names))[:80]}",
            hint="its files lie in the model's own folder",
        )
    return tuple(names)


class _Index(msgspec.Struct):
    weight_map: dict[str, str]


_MOST_FILES = 4096


def checkpoint_parts(
    tensors: Iterable[TensorHeader], layers: int, *, tied: bool
) -> tuple[CheckpointPart, ...]:
    """The bytes by part, without what vLLM does not load.

    Not loaded: layers past the last (multi-token prediction), rotary buffers, an LM head that is
    the embedding.
    """
    stored: dict[str, int] = {}
    floats: dict[str, int] = {}
    for one in tensors:
        part = _part_of(one.name, layers)
        if part is None or (tied and part == "lm_head"):
            continue
        if one.dtype in _FLOATS and not _SCALE.search(one.name):
            floats[part] = floats.get(part, 0) + one.elements
        else:
            stored[part] = stored.get(part, 0) + one.size_bytes
    return tuple(
        CheckpointPart(part=name, stored_bytes=stored.get(name, 0),
                       float_elements=floats.get(name, 0))
        for name in sorted({*stored, *floats})
    )  # fmt: skip


def _part_of(name: str, layers: int) -> str | None:
    if _NOT_LOADED.search(name):
        return None
    number = _LAYER.search(name)
    if number is not None and int(number[1]) >= layers and "vision" not in name:
        return None
    return next((part for part, words in _PARTS if words.search(name)), "sharded")
