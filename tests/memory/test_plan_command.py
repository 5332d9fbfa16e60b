"""`plan` as a command: sweeps, formulas, advice, and what it does not import."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

import pytest
from click.testing import CliRunner, Result

from nodeprep.cli.plan import command
from nodeprep.errors import Exit, UsageError

NOT_NEEDED = ("nodeprep.host", "nodeprep.facts", "nodeprep.state", "nodeprep.audit",
              "nodeprep.acs", "nodeprep.serving", "nodeprep.gate", "nodeprep.settings",
              "nodeprep.cli.session", "rich")  # fmt: skip


def run(*arguments: str) -> Result:
    return CliRunner(env={"COLUMNS": "120"}).invoke(command, arguments, standalone_mode=False)


def document(*arguments: str) -> Any:
    result = run(*arguments, "--format", "json")
    assert result.exception is None, result.exception
    return json.loads(result.output)


def test_gpus_that_are_named_need_no_node() -> None:
    ran = subprocess.run(
        [sys.executable, "-X", "importtime", "-m", "nodeprep", "plan", "llama-3.1-8b",
         "--gpu", "L40S:4", "--format", "json"],
        capture_output=True, text=True, timeout=60,
    )  # fmt: skip
    assert ran.returncode == 0, ran.stderr[-2000:]
    imported = {line.rpartition("|")[2].strip() for line in ran.stderr.splitlines()}
    assert "nodeprep.memory.plan" in imported
    assert [one for one in imported if one.startswith(NOT_NEEDED)] == []


def test_a_sweep_plans_every_combination() -> None:
    found = document(
        "qwen3-32b", "--gpu", "L40S", "--sweep", "tp=1,2,4,8", "kv-cache-dtype=auto,fp8"
    )
    assert found["schema"] == "nodeprep.sweep/1"
    assert found["axes"] == {"tp": ["1", "2", "4", "8"], "kv-cache-dtype": ["auto", "fp8"]}
    rows = {tuple(one["settings"].values()): one for one in found["rows"]}
    assert len(rows) == 8
    assert [rows[size, "auto"]["fits"] for size in "1248"] == [False, True, True, True]
    assert rows["2", "fp8"]["kv_bytes_per_token"] * 2 == rows["2", "auto"]["kv_bytes_per_token"]
    assert rows["2", "fp8"]["kv_cache_tokens"] > 1.9 * rows["2", "auto"]["kv_cache_tokens"]
    assert "weights" in rows["1", "auto"]["limit"]


def test_a_row_is_the_plan_of_its_settings() -> None:
    base = ("llama-3.1-8b", "--gpu", "L40S:2", "--vllm-version", "0.11.0")
    row = document(*base, "--sweep", "tp=2", "max-model-len=8192")["rows"][0]
    plan = document(*base, "--tp", "2", "--max-model-len", "8192")
    assert row["kv_cache_bytes"] == min(one["kv_cache_bytes"] for one in plan["ranks"])
    for name in ("kv_cache_tokens", "num_blocks", "max_concurrency", "fits", "limit"):
        assert row[name] == plan[name]


def test_what_is_not_possible_says_why() -> None:
    rows = document("qwen3-32b", "--gpu", "L40S:4", "--sweep", "tp=3,8")["rows"]
    assert [one["fits"] for one in rows] == [False, False]
    assert "cannot be split over 3" in rows[0]["limit"]
    assert "needs 8 GPUs, 4 given" in rows[1]["limit"]
    assert rows[0]["kv_cache_bytes"] is None


def test_gpus_and_versions_are_axes_too() -> None:
    rows = document("llama-3.1-8b", "--sweep", "gpu=L40S,H100", "vllm-version=0.10.2,0.20.2")
    sizes = {tuple(one["settings"].values()): one["kv_cache_bytes"] for one in rows["rows"]}
    assert sizes["H100", "0.10.2"] > sizes["L40S", "0.10.2"]
    assert len(set(sizes.values())) == 4


@pytest.mark.parametrize(
    "axes",
    [
        ("tp",), ("tp=",), ("nonsense=1",), ("tp=1", "tp=2"), ("tp=a",), ("max-num-seqs=-1",),
        ("gpu-memory-utilization=x",), ("enforce-eager=maybe",),
        ("max-model-len=" + ",".join(map(str, range(1, 514))),),
    ],
)  # fmt: skip
def test_axes_that_are_none(axes: tuple[str, ...]) -> None:
    result = run("llama-3.1-8b", "--gpu", "L40S:4", "--sweep", *axes)
    assert isinstance(result.exception, UsageError)


def test_axes_want_a_sweep() -> None:
    assert isinstance(run("llama-3.1-8b", "tp=1", "--gpu", "L40S").exception, UsageError)


@pytest.mark.parametrize(
    "options",
    [
        ("--tp", "4", "--sweep", "tp=1,2"), ("--sweep", "tp=1,2", "--explain"),
        ("--enforce-eager", "--sweep", "enforce-eager=true"), ("--tp", "0"),
    ],
)  # fmt: skip
def test_nothing_that_was_asked_is_left_out_in_silence(options: tuple[str, ...]) -> None:
    assert isinstance(run("llama-3.1-8b", "--gpu", "L40S:4", *options).exception, UsageError)


@pytest.mark.parametrize(("sizes", "status"), [("1,2", Exit.OK), ("1", Exit.FINDINGS)])
def test_a_sweep_is_fine_when_anything_fits(sizes: str, status: Exit) -> None:
    assert run("qwen3-32b", "--gpu", "L40S", "--sweep", f"tp={sizes}").return_value == status


@pytest.mark.parametrize("form", ["text", "brief", "json"])
def test_every_form_shows_the_rows(form: str) -> None:
    result = run("qwen3-32b", "--gpu", "L40S", "--sweep", "tp=1,2,3", "--format", form)
    assert result.exception is None
    assert "cannot be split over 3" in " ".join(result.output.split())


@pytest.mark.parametrize(
    "model", ["llama-3.1-8b", "deepseek-v3", "gpt-oss-20b", "qwen3.6-27b", "gemma-3-12b"]
)
@pytest.mark.parametrize("version", ["0.7.2", "0.10.2", "0.16.0", "0.22.0", "0.33.0"])
def test_the_formulas_add_up(model: str, version: str) -> None:
    found = document(model, "--gpu", "H200:8", "--vllm-version", version, "--explain",
                     "--max-model-len", "8192")  # fmt: skip
    steps = {one["term"]: one for one in found["steps"]}
    rank = found["ranks"][found["limiting_rank"]]
    parts = sum(steps[name]["value"] for name in ("weights", "activation", "NCCL", "other"))
    graphs = steps["CUDA graphs"]["value"] if "CUDA graphs" in steps else 0
    assert steps["requested"]["value"] - parts - graphs == steps["KV cache"]["value"]
    assert steps["KV cache"]["value"] == rank["kv_cache_bytes"]
    assert steps["blocks"]["value"] == found["num_blocks"]
    assert steps["reported tokens"]["value"] == found["kv_cache_tokens"]
    assert all(one["source"] and one["formula"] for one in found["steps"])


def test_formulas_are_shown_and_fitted_ones_marked() -> None:
    text = run("llama-3.1-8b", "--gpu", "L40S:2", "--explain", "--format", "text").output
    assert "gpu_memory_utilization x" in text
    assert "0.92 x" in text
    assert "NCCL*" in text
    assert document("llama-3.1-8b", "--gpu", "L40S:2")["steps"] == []


def test_a_wanted_concurrency_shortens_requests() -> None:
    base = ("llama-3.1-8b", "--gpu", "L40S", "--vllm-version", "0.11.0")
    few, many = (document(*base, "--concurrency", n)["recommended"] for n in ("4", "64"))
    assert few["max_model_len"] > many["max_model_len"] > 0
    again = document(*base, "--max-model-len", str(many["max_model_len"]))
    assert again["max_concurrency"] >= 64
    longer = document(*base, "--max-model-len", str(many["max_model_len"] + 1024))
    assert longer["max_concurrency"] < 64


@pytest.mark.parametrize(
    ("option", "tokens"),
    [("max-num-seqs", "8192"), ("max-num-batched-tokens", "32768")],
)
def test_advice_frees_what_it_says(option: str, tokens: str) -> None:
    """The sampler sets the peak with few tokens a step, the forward pass with many."""
    base = ("llama-3.1-8b", "--gpu", "H100", "--vllm-version", "0.10.2", "--max-model-len", "8192",
            "--max-num-batched-tokens", tokens, "--max-num-seqs", "512")  # fmt: skip
    found = document(*base)
    flag = f"--{option}"
    advice = next(one for one in found["advice"] if one["option"] == option)
    after = document(*base, flag, advice["value"])
    gained = after["ranks"][0]["kv_cache_bytes"] - found["ranks"][0]["kv_cache_bytes"]
    assert gained == advice["frees_bytes"] > 0


def test_advice_on_what_does_not_fit_makes_it_fit() -> None:
    base = ("llama-3.3-70b", "--vllm-version", "0.11.0", "--max-model-len", "8192")
    found = document(*base, "--gpu", "L40S:1")
    size = next(one["value"] for one in found["advice"] if one["option"] == "tensor-parallel-size")
    assert not found["fits"]
    assert document(*base, "--gpu", f"L40S:{size}")["fits"]


def test_advised_utilization_keeps_the_reserve() -> None:
    base = ("llama-3.1-8b", "--gpu", "L40S", "--vllm-version", "0.11.0")
    found = document(*base, "--gpu-memory-utilization", "0.985")
    assert any("outside the budget" in one for one in found["warnings"])
    advice = next(one for one in found["advice"] if one["option"] == "gpu-memory-utilization")
    assert advice["frees_bytes"] < 0
    calm = document(*base, "--gpu-memory-utilization", advice["value"])
    assert not any("outside the budget" in one for one in calm["warnings"])


def test_one_number_of_gpus_for_a_sweep_over_gpus() -> None:
    result = run("qwen3-32b", "--sweep", "gpu=L40S:4,H100:2")
    assert isinstance(result.exception, UsageError)
    rows = document("qwen3-32b", "--sweep", "gpu=L40S:4,H100:4")["rows"]
    assert len(rows) == 2
