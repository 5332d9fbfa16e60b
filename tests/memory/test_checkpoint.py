"""Exact weights from the headers of safetensors files, and what a hostile one may do."""

from __future__ import annotations

import contextlib
import json
import os
import struct
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from nodeprep.errors import ParseError, UsageError
from nodeprep.facts.model_folder import read_model
from nodeprep.memory.plan import plan
from nodeprep.memory.weights import weight_bytes
from nodeprep.parse.safetensors import (
    MAX_HEADER_BYTES,
    checkpoint_parts,
    header_length,
    parse_header,
    shard_names,
)
from tests.memory.shapes import request

LAYERS, HIDDEN, WIDTH, VOCAB, KV = 2, 1024, 2816, 32_000, 256
CONFIG = {
    "architectures": ["LlamaForCausalLM"], "model_type": "llama", "num_hidden_layers": LAYERS,
    "hidden_size": HIDDEN, "num_attention_heads": 16, "num_key_value_heads": 4,
    "intermediate_size": WIDTH, "vocab_size": VOCAB, "torch_dtype": "bfloat16",
    "max_position_embeddings": 4096, "tie_word_embeddings": False,
}  # fmt: skip
SIZES = {"BF16": 2, "F16": 2, "F32": 4, "F8_E4M3": 1, "U8": 1, "I32": 4}


def llama(dtype: str = "BF16", norm: str = "BF16") -> dict[str, tuple[str, list[int]]]:
    """Names and shapes of a small Llama."""
    found: dict[str, tuple[str, list[int]]] = {
        "model.embed_tokens.weight": (norm, [VOCAB, HIDDEN]),
        "lm_head.weight": (norm, [VOCAB, HIDDEN]),
        "model.norm.weight": (norm, [HIDDEN]),
    }
    linears = {
        "self_attn.q_proj": [HIDDEN, HIDDEN], "self_attn.k_proj": [KV, HIDDEN],
        "self_attn.v_proj": [KV, HIDDEN], "self_attn.o_proj": [HIDDEN, HIDDEN],
        "mlp.gate_proj": [WIDTH, HIDDEN], "mlp.up_proj": [WIDTH, HIDDEN],
        "mlp.down_proj": [HIDDEN, WIDTH],
    }  # fmt: skip
    for layer in range(LAYERS):
        start = f"model.layers.{layer}."
        for name, shape in linears.items():
            found[f"{start}{name}.weight"] = (dtype, shape)
            if dtype == "F8_E4M3":
                found[f"{start}{name}.weight_scale"] = ("F32", [shape[0], 1])
        for norm_name in ("input_layernorm", "post_attention_layernorm"):
            found[f"{start}{norm_name}.weight"] = (norm, [HIDDEN])
    return found


def header(tensors: dict[str, tuple[str, list[int]]]) -> tuple[bytes, int]:
    """The header, and the bytes of data that it speaks of."""
    at, entries = 0, {}
    for name, (dtype, shape) in tensors.items():
        size = SIZES[dtype]
        for one in shape:
            size *= one
        entries[name] = {"dtype": dtype, "shape": shape, "data_offsets": [at, at + size]}
        at += size
    return json.dumps({"__metadata__": {"format": "pt"}, **entries}).encode(), at


def write(path: Path, tensors: dict[str, tuple[str, list[int]]], missing: int = 0) -> int:
    """A safetensors file whose data is a hole; returns the bytes of data."""
    text, data = header(tensors)
    with path.open("wb") as file:
        file.write(struct.pack("<Q", len(text)) + text)
        file.truncate(8 + len(text) + data - missing)
    return data


def folder(tmp_path: Path, **config: Any) -> Path:
    (tmp_path / "config.json").write_text(json.dumps(CONFIG | config))
    return tmp_path


@pytest.mark.parametrize("tp", [1, 2, 4, 8])
def test_headers_and_shape_agree(tmp_path: Path, tp: int) -> None:
    from_shape = read_model(folder(tmp_path))
    write(tmp_path / "model.safetensors", llama())
    exact = read_model(tmp_path)
    assert exact.checkpoint
    assert "safetensors" in exact.source
    assert weight_bytes(exact, tp, 2) == pytest.approx(weight_bytes(from_shape, tp, 2), rel=1e-3)


def test_one_file_or_shards_are_the_same(tmp_path: Path) -> None:
    for name in ("one", "many"):
        (tmp_path / name).mkdir()
    one, many = folder(tmp_path / "one"), folder(tmp_path / "many")
    tensors = llama()
    write(one / "model.safetensors", tensors)
    half = dict(list(tensors.items())[::2]), dict(list(tensors.items())[1::2])
    names = ("model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors")
    for name, part in zip(names, half, strict=True):
        write(many / name, part)
    weight_map = {t: name for name, part in zip(names, half, strict=True) for t in part}
    (many / "model.safetensors.index.json").write_text(json.dumps({"weight_map": weight_map}))
    assert read_model(one).checkpoint == read_model(many).checkpoint


def test_without_all_shards_the_index_counts(tmp_path: Path) -> None:
    folder(tmp_path)
    index = {"metadata": {"total_size": 300_000_000},
             "weight_map": {"model.norm.weight": "model-00001-of-00002.safetensors"}}  # fmt: skip
    (tmp_path / "model.safetensors.index.json").write_text(json.dumps(index))
    shape = read_model(tmp_path)
    assert (shape.checkpoint, shape.weight_file_bytes) == ((), 300_000_000)


def test_fp8_weights_keep_their_size_and_floats_follow_the_run(tmp_path: Path) -> None:
    write(folder(tmp_path) / "model.safetensors", llama("F8_E4M3", norm="F32"))
    shape = read_model(tmp_path)
    sharded = next(one for one in shape.checkpoint if one.part == "sharded")
    per_layer = 2 * HIDDEN * HIDDEN + 3 * HIDDEN * WIDTH
    scales = 4 * (2 * HIDDEN + 2 * WIDTH + HIDDEN)
    assert sharded.stored_bytes == LAYERS * (per_layer + scales)
    embedding = next(one for one in shape.checkpoint if one.part == "embedding")
    assert (embedding.stored_bytes, embedding.float_elements) == (0, VOCAB * HIDDEN)
    assert weight_bytes(shape, 1, 2) < weight_bytes(shape, 1, 4)


def test_replicated_parts_are_whole_on_every_rank(tmp_path: Path) -> None:
    write(folder(tmp_path) / "model.safetensors", llama())
    parts = {one.part: one.float_elements for one in read_model(tmp_path).checkpoint}
    assert parts["replicated"] == (2 * LAYERS + 1) * HIDDEN
    assert parts["kv"] == 2 * LAYERS * KV * HIDDEN
    assert parts["embedding"] == parts["lm_head"] == VOCAB * HIDDEN


def test_what_is_not_loaded_is_not_counted() -> None:
    names = {
        "model.layers.0.mlp.up_proj.weight": ("BF16", [8, 8]),
        "model.layers.61.mlp.up_proj.weight": ("BF16", [8, 8]),
        "mtp.layers.0.mlp.up_proj.weight": ("BF16", [8, 8]),
        "lm_head.weight": ("BF16", [8, 8]),
        "model.layers.0.self_attn.rotary_emb.inv_freq": ("F32", [8]),
    }
    text, data = header(names)
    tensors = parse_header(text, 8 + len(text) + data)
    kept = checkpoint_parts(tensors, 61, tied=True)
    assert [(one.part, one.float_elements) for one in kept] == [("sharded", 64)]
    untied = checkpoint_parts(tensors, 61, tied=False)
    assert {one.part for one in untied} == {"sharded", "lm_head"}


def test_quantizing_while_loading_forgets_the_files(tmp_path: Path) -> None:
    write(folder(tmp_path) / "model.safetensors", llama())
    shape = read_model(tmp_path)
    plain = plan(shape, request()).ranks[0].weights_bytes
    online = plan(shape, request(quantization="fp8")).ranks[0].weights_bytes
    assert online < 0.9 * plain


def test_a_plan_says_where_its_weights_come_from(tmp_path: Path) -> None:
    write(folder(tmp_path) / "model.safetensors", llama())
    result = plan(read_model(tmp_path), request())
    assert any("headers of the safetensors" in one for one in result.assumptions)


def test_a_file_cut_short_is_refused(tmp_path: Path) -> None:
    write(folder(tmp_path) / "model.safetensors", llama(), missing=1000)
    with pytest.raises(ParseError, match="ends before") as raised:
        read_model(tmp_path)
    assert raised.value.message.startswith(f"{tmp_path / 'model.safetensors'}: ")
    assert "again" in raised.value.hint


@pytest.mark.parametrize(
    "data",
    [
        b"", b"\x00" * 8, struct.pack("<Q", MAX_HEADER_BYTES + 1), struct.pack("<Q", 1 << 63),
        struct.pack("<Q", 500) + b"{}",
    ],
)  # fmt: skip
def test_impossible_lengths_are_refused(tmp_path: Path, data: bytes) -> None:
    (folder(tmp_path) / "model.safetensors").write_bytes(data)
    with pytest.raises(ParseError):
        read_model(tmp_path)


@pytest.mark.parametrize(
    "entry",
    [
        {"dtype": "BF16", "shape": [4], "data_offsets": [0, 9]},
        {"dtype": "BF16", "shape": [-4], "data_offsets": [0, 8]},
        {"dtype": "BF16", "shape": [1 << 60, 1 << 60], "data_offsets": [0, 8]},
        {"dtype": "BF16", "shape": [1] * 5000, "data_offsets": [0, 2]},
        {"dtype": "Q7", "shape": [4], "data_offsets": [0, 8]},
        {"dtype": "BF16", "shape": [4], "data_offsets": [8, 0]},
        {"dtype": "BF16", "shape": "x", "data_offsets": [0, 8]},
        {"dtype": "BF16", "shape": [4]},
        "x",
    ],
)
def test_contradictions_are_refused(entry: object) -> None:
    with pytest.raises(ParseError):
        parse_header(json.dumps({"w": entry}).encode(), 1 << 40)


@pytest.mark.parametrize(
    "name", ["../../etc/passwd", "/etc/passwd.safetensors", "a/b.safetensors", "x.bin", ""]
)
def test_an_index_cannot_name_files_elsewhere(name: str) -> None:
    with pytest.raises(ParseError):
        shard_names(json.dumps({"weight_map": {"w": name}}).encode())


def test_a_pipe_is_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(folder(tmp_path) / "model.safetensors")
    assert read_model(tmp_path).checkpoint == ()


def test_an_unreadable_config_is_said(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="cannot read"):
        read_model(tmp_path / "nothing")


@given(st.binary(max_size=200))
def test_no_header_raises_anything_else(data: bytes) -> None:
    with contextlib.suppress(ParseError):
        parse_header(data, 1 << 30)
    with contextlib.suppress(ParseError):
        shard_names(data)
    with contextlib.suppress(ParseError):
        header_length(data[:8], len(data))


def test_mxfp4_experts_are_padded(tmp_path: Path) -> None:
    from nodeprep.memory.catalogue import find_model
    from nodeprep.memory.weights import expert_padding

    model = find_model("gpt-oss-20b")
    assert expert_padding(model, 1) == pytest.approx(3072 * 2944 / (2880 * 2880))
    assert expert_padding(replace(model, quant=None), 1) == 1.0
