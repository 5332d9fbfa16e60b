"""The flag table: ranges, values, spellings, and the script that makes it."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from nodeprep.errors import UsageError
from nodeprep.serving import flags

ROOT = Path(__file__).resolve().parents[2]
SCRIPT = ROOT / "scripts" / "vllm-flags"
FACTS = ROOT.parent / "shared" / "data" / "vllm"


def test_the_table_spans_31_releases() -> None:
    known = flags.versions()
    assert len(known) == 31
    assert (known[0], flags.newest()) == ("0.6.6", "0.33.0")
    assert list(known) == sorted(known, key=flags.release_of)


@pytest.mark.parametrize(
    ("name", "version", "there"),
    [
        ("calculate-kv-scales", "0.6.6", False),
        ("calculate-kv-scales", "0.7.2", True),
        ("calculate-kv-scales", "0.27.1", True),
        ("calculate-kv-scales", "0.28.0", False),
        ("kv-cache-memory-bytes", "0.10.1", False),
        ("kv-cache-memory-bytes", "0.10.2", True),
        ("swap-space", "0.17.1", True),
        ("swap-space", "0.18.1", False),
        ("attention-backend", "0.12.0", False),
        ("attention-backend", "0.13.0", True),
        ("no-such-flag", "0.7.2", False),
    ],
)
def test_a_flag_lives_from_its_first_to_its_last_release(
    name: str, version: str, there: bool
) -> None:
    assert (flags.flag(name, version) is not None) is there


@pytest.mark.parametrize(
    ("spelling", "name"),
    [
        ("--max_model_len", "max-model-len"),
        ("-tp", "tensor-parallel-size"),
        ("no-enable-prefix-caching", "enable-prefix-caching"),
        ("--disable-prefix-caching", "enable-prefix-caching"),
        ("device-memory-utilization", "gpu-memory-utilization"),
    ],
)
def test_every_spelling_leads_to_the_flag(spelling: str, name: str) -> None:
    spec = flags.flag(spelling, "0.33.0")
    assert spec is not None
    assert spec.name == name


def test_both_negatives_of_the_newest_release_are_negatives() -> None:
    for spelling in ("no-enable-prefix-caching", "disable-prefix-caching"):
        assert flags.is_negative(spelling, "0.33.0")
    assert not flags.is_negative("disable-custom-all-reduce", "0.33.0")
    assert flags.is_negative("enable-custom-all-reduce", "0.33.0")


def test_choices_follow_the_release() -> None:
    assert "bfloat16" not in _spec("kv-cache-dtype", "0.10.2").choices
    assert "bfloat16" in _spec("kv-cache-dtype", "0.11.2").choices


def _spec(name: str, version: str) -> flags.FlagSpec:
    spec = flags.flag(name, version)
    assert spec is not None
    return spec


@pytest.mark.parametrize(
    ("name", "version", "value", "fine"),
    [
        ("block-size", "0.7.2", 32, True),
        ("block-size", "0.7.2", 48, False),
        ("block-size", "0.33.0", 48, True),
        ("max-num-seqs", "0.7.2", 64, True),
        ("max-num-seqs", "0.7.2", "64", False),
        ("max-num-seqs", "0.7.2", True, False),
        ("max-model-len", "0.7.2", "32k", False),
        ("max-model-len", "0.8.5", "32k", True),
        ("max-model-len", "0.13.0", "auto", False),
        ("max-model-len", "0.14.1", "auto", True),
        ("max-model-len", "0.14.1", -1, True),
        ("max-model-len", "0.8.5", 0, False),
        ("gpu-memory-utilization", "0.7.2", 0.92, True),
        ("gpu-memory-utilization", "0.7.2", "most", False),
        ("enforce-eager", "0.7.2", True, True),
        ("enforce-eager", "0.7.2", False, False),
        ("enforce-eager", "0.9.2", False, True),
        ("enforce-eager", "0.9.2", 1, False),
        ("compilation-config", "0.9.2", '{"level": 3}', True),
        ("compilation-config", "0.9.2", "{level: 3", False),
        ("compilation-config", "0.9.2", "[" * 100_000, False),
        ("dtype", "0.7.2", "bfloat16", True),
        ("dtype", "0.7.2", "bf16", False),
    ],
)
def test_values_are_those_the_parser_takes(
    name: str, version: str, value: bool | int | float | str, fine: bool
) -> None:
    assert (flags.check_value(_spec(name, version), value) is None) is fine


def test_absence_says_when_and_what_instead() -> None:
    assert "0.27.1" in flags.absence("calculate-kv-scales", "0.28.0")
    assert "came with 0.10.2" in flags.absence("kv-cache-memory-bytes", "0.7.2")
    assert "enable-log-requests" in flags.absence("disable-log-requests", "0.20.2")
    assert "max-model-len" in flags.absence("max-model-lenn", "0.7.2")


def test_suffixes_follow_their_release() -> None:
    for text in ("v0.7.2", "0.7.2.post1", "0.7.2rc1", "0.7.2+cu128", "0.7.2.dev3+g1a2b3c"):
        assert flags.release_of(text) == (0, 7, 2)
    assert _spec("kv-cache-dtype", "0.11.0").first == "0.11.0.post2"


@pytest.mark.parametrize(
    "text", ["", "latest", "0", "1.x", "0.7.2; rm -rf /", "9" * 5000, "0.7\n2"]
)
def test_what_is_no_version_is_refused(text: str) -> None:
    with pytest.raises(UsageError):
        flags.release_of(text)


def test_between_two_releases_both_must_agree() -> None:
    assert flags.flag("swap-space", "0.17.5") is None
    assert _spec("kv-cache-dtype", "0.10.5").choices == _spec("kv-cache-dtype", "0.10.2").choices
    assert flags.flag("max-model-len", "0.99.0") == flags.flag("max-model-len", "0.33.0")
    with pytest.raises(UsageError, match=r"0\.6\.6"):
        flags.flag("max-model-len", "0.5.0")


def test_variables_are_known_where_both_neighbours_agree() -> None:
    assert flags.env_known("VLLM_ATTENTION_BACKEND", "0.11.0") is True
    assert flags.env_known("VLLM_ATTENTION_BACKEND", "0.14.1") is None
    assert flags.env_known("VLLM_ATTENTION_BACKEND", "0.33.0") is False
    assert flags.env_known("VLLM_NO_SUCH", "0.7.2") is False


@pytest.mark.parametrize("name", sorted(["swap-space", "guided-decoding-backend"]))
def test_history_ends_where_the_flag_ended(name: str) -> None:
    lived = flags.history(name)
    assert lived is not None
    assert lived.removed_after is not None
    assert flags.flag(name, lived.removed_after) is not None
    assert flags.flag(name, flags.newest()) is None


def test_successors_exist_in_the_newest_release() -> None:
    table = json.loads((ROOT / "nodeprep/serving/data/flags.json").read_text())
    for old, new in table["successors"].items():
        assert flags.history(old) is not None
        assert flags.flag(new, flags.newest()) is not None, new


def _run(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, str(SCRIPT), *map(str, arguments)],
        capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip


def test_the_table_is_what_the_script_makes(tmp_path: Path) -> None:
    if not FACTS.is_dir():
        pytest.skip("no shared folder beside the checkout: the collected facts are not here")
    table = tmp_path / "flags.json"
    done = _run("--table", table, "import", FACTS / "flags.json", FACTS / "envs.json")
    assert done.returncode == 0, done.stderr
    assert table.read_text() == (ROOT / "nodeprep/serving/data/flags.json").read_text()
    assert table.stat().st_size < 250_000


def test_a_new_release_is_one_dump(tmp_path: Path) -> None:
    table = tmp_path / "flags.json"
    table.write_text((ROOT / "nodeprep/serving/data/flags.json").read_text())
    dump = tmp_path / "dump.json"
    raw = {"type": "int", "action": "_StoreAction", "choices": None, "default": "None"}
    toggle = {"type": None, "action": "BooleanOptionalAction", "choices": None, "default": "False",
              "aliases": ["--brand-new", "--no-brand-new"]}  # fmt: skip
    dump.write_text(json.dumps(
        {"version": "0.34.0", "flags": {"--max-num-seqs": raw, "--brand-new": toggle},
         "env": ["VLLM_NO_USAGE_STATS"]}
    ))  # fmt: skip
    done = _run("--table", table, "add", dump)
    assert done.returncode == 0, done.stderr
    made = json.loads(table.read_text())
    assert made["releases"][-1] == "0.34.0"
    assert made["flags"]["max-num-seqs"] == [{"first": "0.6.6", "last": "0.34.0", "kind": "int"}]
    assert made["flags"]["brand-new"][0]["negative"] == "no-brand-new"
    assert made["flags"]["dtype"][-1]["last"] == "0.33.0"
    assert made["env"]["VLLM_NO_USAGE_STATS"][-1][-1] == "0.34.0"
    again = _run("--table", table, "add", dump)
    assert again.returncode != 0
