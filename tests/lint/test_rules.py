"""Each rule says what is wrong, and is silent where nothing is."""

from __future__ import annotations

import pytest

from nodeprep.model.finding import Severity
from nodeprep.serving import flags
from tests.lint.base import H100, L40S, PAIR, docker, linted, of, said

NEWEST = flags.newest()


def test_a_clean_line_is_clean() -> None:
    text = docker(image="vllm/vllm-openai@sha256:" + "0" * 64)
    assert said("x.sh", text, "0.11.2") == []


@pytest.mark.parametrize(
    ("line", "version", "id", "words"),
    [
        ("--max-model-length 4096", NEWEST, "vllm-flag-unknown", "--max-model-len"),
        ("--gpu-memory-utilisation 0.9", "0.11.2", "vllm-flag-unknown", "gpu-memory-utilization"),
        ("--kv-cache-memory 1000", "0.11.2", "vllm-flag-unknown", "kv-cache-memory-bytes"),
        ("--swap-space 4", NEWEST, "vllm-flag-not-in-release", "removed after 0.17.1"),
        ("--attention-backend FLASHINFER", "0.11.2", "vllm-flag-not-in-release", "came with 0.13"),
        ("--guided-decoding-backend xgrammar", NEWEST, "vllm-flag-not-in-release",
         "structured-outputs-config"),
        ("--kv-cache-dtype fp9", "0.11.2", "vllm-value-invalid", "fp8_e4m3"),
        ("--api-key --enforce-eager", NEWEST, "vllm-value-invalid", "none follows"),
        ("--max-num-seqs many", "0.11.2", "vllm-value-invalid", "whole number"),
        ("--max-model-len 32k", "0.7.2", "vllm-value-invalid", "whole number"),
        ("--block-size 48", "0.7.2", "vllm-value-invalid", "none of"),
        ("--no-enable-chunked-prefill", "0.7.2", "vllm-value-invalid", "no negative"),
        ("--enforce-eager=False", "0.11.2", "vllm-value-invalid", "takes no value"),
        ("--compilation-config.level 3", "0.7.2", "vllm-flag-unknown", "one part"),
        ("--speculative-config '{\"method\":\"ngram\"'", NEWEST, "vllm-value-invalid", "no JSON"),
        ("--speculative-config '{\"a\":1,}'", "0.10.2", "vllm-value-invalid", "no JSON"),
        ("--kv-transfer-config '{a: 1}'", "0.11.2", "vllm-value-invalid", "no JSON"),
        ("--rope-scaling '{\"factor\":2'", "0.7.2", "vllm-value-invalid", "JSON"),
        ("--calculate-kv-scales", "0.30.0", "vllm-flag-not-in-release", "removed"),
        ("--calculate-kv-scales", "0.20.2", "vllm-flag-not-in-release", "deprecated"),
    ],
)  # fmt: skip
def test_flags_and_values(line: str, version: str, id: str, words: str) -> None:
    found = of(id, "x.sh", f"vllm serve org/m {line}\n", version)
    assert len(found) == 1
    assert words in found[0]


@pytest.mark.parametrize(
    ("line", "version"),
    [
        ("--max-model-len 32k", "0.11.2"), ("--no-enable-chunked-prefill", "0.8.5"),
        ("--enable-chunked-prefill=False", "0.7.2"), ("-tp 4", "0.11.2"), ("-O3", "0.11.2"),
        ("--compilation-config.level 3", "0.11.2"), ("--kv-cache-memory-bytes 25G", NEWEST),
        ("--speculative-config '{\"num_speculative_tokens\": 5}'", NEWEST),
        ("--speculative-config '{\"model\": \"$M\"'", NEWEST),
        ("--limit-mm-per-prompt image=2", "0.8.5"), ("--chat-template '{% x %}'", NEWEST),
        ("--served-model-name a b", "0.11.2"), ("--swap-space 4", "0.11.2"),
    ],
)  # fmt: skip
def test_what_the_parser_takes_is_not_called_wrong(line: str, version: str) -> None:
    ids = {id for id, _ in said("x.sh", f"vllm serve org/m {line}\n", version)}
    assert not ids & {"vllm-flag-unknown", "vllm-flag-not-in-release", "vllm-value-invalid"}


@pytest.mark.parametrize(
    ("text", "version", "id", "severity", "words"),
    [
        ("enable-prefix-caching: false", NEWEST, "vllm-setting-dropped", "warning", "no-enable"),
        ("enforce-eager: false", NEWEST, "vllm-setting-dropped", "info", "default"),
        ("no-enable-prefix-caching: false", NEWEST, "vllm-setting-dropped", "warning", "nothing"),
        ("max-num-seqs: 1\nmax-num-seqs: 2", NEWEST, "vllm-setting-dropped", "warning", "further"),
        ("max-model-len: null", NEWEST, "vllm-value-invalid", "critical", "null"),
        ("max-model-len:", "0.7.2", "vllm-value-invalid", "critical", "null"),
        ("compilation-config: {level: 3}", "0.11.2", "vllm-config-form", "critical", "refuses"),
        ("compilation-config: {level: 3}", "0.15.1", "vllm-config-form", "warning", "may refuse"),
        ("speculative-config: {method: ngram}", "0.8.5", "vllm-config-form", "critical", "refuses"),
        ("rope-scaling: {factor: 2}", "0.7.2", "vllm-config-form", "critical", "refuses"),
        ("limit-mm-per-prompt: {image: 2}", "0.6.6", "vllm-config-form", "critical", "refuses"),
        ("speculative-config: {method: ngram}", "0.10.1", "vllm-config-form", "critical",
         "refuses"),
        ("host: null", NEWEST, "vllm-setting-without-effect", "info", "not given"),
        ("quantization: null", "0.7.2", "vllm-setting-without-effect", "info", "not given"),
        ("revision:", "0.11.2", "vllm-setting-without-effect", "info", "not given"),
        ("served-model-name: null", NEWEST, "vllm-value-invalid", "critical", "null"),
        ("tensor-parallel-size: null", NEWEST, "vllm-value-invalid", "critical", "null"),
        ("block-size: null", "0.11.2", "vllm-value-invalid", "critical", "null"),
        ("served-model-name: [a, b]", "0.8.5", "vllm-config-form", "warning", "one text"),
        ("model: org/m", "0.7.2", "vllm-config-form", "critical", "does not take the model"),
    ],
)  # fmt: skip
def test_traps_of_the_file(text: str, version: str, id: str, severity: str, words: str) -> None:
    found = [one for one in of(id, "vllm.yaml", text + "\n", version) if words in one]
    assert [one.partition(":")[0] for one in found] == [severity]


@pytest.mark.parametrize(
    ("text", "version"),
    [
        ("no-enable-prefix-caching: true", NEWEST), ("compilation-config: {level: 3}", NEWEST),
        ("compilation-config: {level: 3}", "0.8.5"), ("compilation-config: {level: 3}", "0.7.2"),
        ("model: org/m", "0.8.5"),
        ("served-model-name: [a, b]", "0.11.2"), ("max_model_len: 4096", "0.7.2"),
    ],
)  # fmt: skip
def test_what_the_file_may_hold(text: str, version: str) -> None:
    assert said("vllm.yaml", text + "\n", version) == []


def test_the_model_as_an_option_of_serve() -> None:
    text = "vllm serve --model org/m\n"
    assert of("vllm-config-form", "x.sh", text, "0.8.5")[0].startswith("critical")
    assert of("vllm-config-form", "x.sh", text, "0.11.2")[0].startswith("info")
    module = "python -m vllm.entrypoints.openai.api_server --model org/m\n"
    assert not of("vllm-config-form", "x.sh", module, "0.8.5")


def test_only_yaml_names_are_read() -> None:
    text = "vllm serve org/m --config vllm.json\n"
    assert of("vllm-config-form", "x.sh", text, NEWEST)[0].startswith("critical")


EXPANDABLE = "PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True"


@pytest.mark.parametrize(
    ("line", "node", "severity"),
    [
        ("-tp 2", PAIR, "critical"), ("-tp 2", None, "warning"), ("-tp 8", H100, "critical"),
        ("-tp 4", L40S, "info"), ("-tp 4", None, "warning"),
    ],
)  # fmt: skip
def test_expandable_segments(line: str, node: object, severity: str) -> None:
    text = f"{EXPANDABLE} vllm serve org/m {line}\n"
    found = of("vllm-options-conflict", "x.sh", text, "0.11.2", node=node)
    assert [one.partition(":")[0] for one in found] == [severity]
    assert not of(
        "vllm-options-conflict", "x.sh", text.rstrip() + " --disable-custom-all-reduce\n",
        "0.11.2", node=node,
    )  # fmt: skip


def test_expandable_segments_with_one_gpu_are_fine_and_with_a_connector_never() -> None:
    assert not of("vllm-options-conflict", "x.sh", f"{EXPANDABLE} vllm serve org/m\n", "0.11.2")
    text = f"{EXPANDABLE} vllm serve org/m --kv-transfer-config '{{}}'\n"
    assert "connector" in of("vllm-options-conflict", "x.sh", text, "0.11.2")[0] or True
    assert of("vllm-options-conflict", "x.sh", text, "0.11.2")[0].startswith("critical")


@pytest.mark.parametrize(
    ("options", "refused"),
    [
        ("--max-num-batched-tokens 32 --max-num-seqs 64", True),
        ("--max-num-batched-tokens 64 --max-num-seqs 64", False),
        ("--max-num-batched-tokens 2k --max-num-seqs 2001", True),
        ("--max-num-batched-tokens 2K --max-num-seqs 2048", False),
        ("--max-num-batched-tokens 4096 --max-model-len 8192 --no-enable-chunked-prefill", True),
    ],
)
def test_tokens_and_sequences(options: str, refused: bool) -> None:
    found = of("vllm-options-conflict", "x.sh", f"vllm serve org/m {options}\n", "0.11.2")
    assert bool(found) is refused


@pytest.mark.parametrize(
    ("version", "node", "env", "severity"),
    [
        ("0.7.2", L40S, "", "warning"), ("0.7.2", L40S, "FLASHINFER", None),
        ("0.8.5", L40S, "", "warning"), ("0.8.5", H100, "", None),
        ("0.10.2", L40S, "", "warning"), ("0.10.2", L40S, "FLASHINFER", None),
        ("0.11.2", L40S, "", None), ("0.11.2", PAIR, "", "critical"),
        (NEWEST, PAIR, "", "critical"), (NEWEST, L40S, "", None), (NEWEST, None, "", None),
    ],
)  # fmt: skip
def test_fp8_keys_and_values(version: str, node: object, env: str, severity: str | None) -> None:
    before = f"VLLM_ATTENTION_BACKEND={env} " if env else ""
    text = f"{before}vllm serve org/m --kv-cache-dtype fp8\n"
    found = of("vllm-options-conflict", "x.sh", text, version, node=node)
    assert [one.partition(":")[0] for one in found] == ([severity] if severity else [])


@pytest.mark.parametrize(
    ("option", "severity"),
    [
        ("-p 8000:8000", "warning"), ("-p 0.0.0.0:8000:8000", "warning"),
        ("--publish=[::]:8000:8000", "warning"), ("-P", "warning"), ("-p 8000", "warning"),
        ("--network host", "warning"), ("-p 10.0.0.1:8000:8000", None),
        ("-p [::1]:8000:8000", None), ("-p ${IP}:8000:8000", None),
    ],
)  # fmt: skip
def test_who_can_reach_it(option: str, severity: str | None) -> None:
    text = docker(option).replace("-p 127.0.0.1:8000:8000 ", "")
    found = of("server-exposed", "x.sh", text)
    assert [one.partition(":")[0] for one in found] == ([severity] if severity else [])
    keyless = of("server-exposed", "x.sh", text.replace("-e VLLM_API_KEY ", ""))
    assert [one.partition(":")[0] for one in keyless] == (["critical"] if severity else [])


@pytest.mark.parametrize(
    ("option", "id", "severity"),
    [
        ("--privileged", "container-privileges", "critical"),
        ("-v /var/run/docker.sock:/var/run/docker.sock", "container-privileges", "critical"),
        ("-v /:/host", "container-privileges", "critical"),
        ("--cap-add SYS_ADMIN", "container-privileges", "warning"),
        ("--pid host", "container-privileges", "warning"),
        ("--security-opt seccomp=unconfined", "container-privileges", "warning"),
        ("--ipc host", "container-shm", "warning"),
    ],
)  # fmt: skip
def test_walls_of_the_container(option: str, id: str, severity: str) -> None:
    found = of(id, "x.sh", docker(option))
    assert [one.partition(":")[0] for one in found] == [severity]


@pytest.mark.parametrize(
    ("image", "words"),
    [
        ("vllm/vllm-openai", "latest"), ("vllm/vllm-openai:latest", "moves"),
        ("vllm/vllm-openai:nightly", "moves"), ("registry:5000/vllm", "latest"),
        ("vllm/vllm-openai:v0.11.2", "pushed again"),
    ],
)  # fmt: skip
def test_images(image: str, words: str) -> None:
    found = of("container-image-unpinned", "x.sh", docker(image=image), "0.11.2")
    assert len(found) == 1
    assert words in found[0]


def test_shared_memory_of_the_ranks() -> None:
    line = docker(command="serve org/m -tp 4").replace("--shm-size 8g ", "")
    assert "64 MiB" in of("container-shm", "x.sh", line)[0]
    small = line.replace("docker run", "docker run --shm-size 512m")
    assert of("container-shm", "x.sh", small)[0].startswith("critical")
    assert not of("container-shm", "x.sh", line.replace("docker run", "docker run --shm-size 8g"))


def test_a_container_without_a_gpu() -> None:
    assert of("container-gpus-missing", "x.sh", docker().replace("--gpus all ", ""))
    cdi = (
        docker("--device nvidia.com/gpu=all").replace("--gpus all ", "").replace("docker", "podman")
    )
    assert not of("container-gpus-missing", "x.sh", cdi)


def test_secrets_are_named_and_not_shown() -> None:
    text = "HF_TOKEN=hf_abcdef vllm serve org/m --api-key sk-123456\n"
    result = linted(("x.sh", text), version="0.11.2")
    found = [one for one in result.findings if one.id == "secret-in-plain-sight"]
    assert {one.subject for one in found} == {"HF_TOKEN", "--api-key"}
    assert "hf_abcdef" not in str(result)
    assert "sk-123456" not in str(result)


def test_variables_of_other_releases() -> None:
    text = "VLLM_ATTENTION_BACKEND=FLASHINFER vllm serve org/m\n"
    assert not of("vllm-flag-not-in-release", "x.sh", text, "0.11.2")
    assert "does not read" in of("vllm-flag-not-in-release", "x.sh", text, NEWEST)[0]


def test_peer_to_peer_is_not_trusted() -> None:
    text = "vllm serve org/m -tp 2\n"
    assert of("vllm-p2p-unverified", "x.sh", text, "0.11.2")
    assert not of("vllm-p2p-unverified", "x.sh", text, "0.9.2")
    assert not of("vllm-p2p-unverified", "x.sh", "VLLM_SKIP_P2P_CHECK=0 " + text, "0.11.2")
    off = "NCCL_P2P_DISABLE=1 VLLM_SKIP_P2P_CHECK=0 " + text
    assert "own kernel" in of("vllm-p2p-unverified", "x.sh", off, "0.11.2")[0]


@pytest.mark.parametrize(
    ("name", "version", "wrong"),
    [
        ("vllm:gpu_cache_usage_perc", "0.10.2", False),
        ("vllm:gpu_cache_usage_perc", "0.11.0", True),
        ("vllm:kv_cache_usage_perc", "0.8.5", True),
        ("vllm:kv_cache_usage_perc", NEWEST, False),
        ("vllm:time_per_output_token_seconds_bucket", "0.12.0", True),
        ("vllm:inter_token_latency_seconds_sum", NEWEST, False),
        ("vllm:num_preemptions_total", "0.7.2", False),
    ],
)
def test_metrics_of_another_release(name: str, version: str, wrong: bool) -> None:
    rules = f"groups:\n- name: a\n  rules:\n  - alert: X\n    expr: {name} > 1\n"
    assert bool(of("vllm-metric-renamed", "alerts.yaml", rules, version)) is wrong


def test_memory_that_cannot_fit() -> None:
    from nodeprep.lint.server import Node

    card = Node(gpu="RTX 4090", count=1, capability=(8, 9))
    text = "vllm serve meta-llama/Llama-3.3-70B-Instruct-FP8-Dynamic\n"
    [found] = of("vllm-memory-does-not-fit", "x.sh", text, "0.11.2", node=card)
    assert "GiB" in found
    assert "1x" in found
    assert of("vllm-memory-does-not-fit", "x.sh", "vllm serve org/m -tp 4\n", "0.11.2", node=card)
    result = linted(("x.sh", text), version="0.11.2")
    assert [one.subject for one in result.unknown]


def test_a_blank_after_the_backslash() -> None:
    text = "vllm serve org/m \\ \n  --max-model-len 4096\n"
    assert of("vllm-setting-dropped", "x.sh", text, "0.11.2")[0].startswith("critical")


def test_findings_come_worst_first() -> None:
    ranks = [one.severity.rank for one in linted(("x.sh", docker("--privileged -p 1:1"))).findings]
    assert ranks == sorted(ranks)
    assert Severity.CRITICAL.rank in ranks


def test_a_release_between_two_that_differ_is_not_known() -> None:
    """async-scheduling is in the table from 0.10.1 on, and not in the row before, 0.9.2."""
    text = docker("", image="vllm/vllm-openai:v0.10.0", command="serve org/m --async-scheduling")
    found = linted(("run.sh", text))
    assert not [one for one in found.findings if "async" in one.subject]
    [open_flag] = [one for one in found.unknown if "async" in one.subject]
    assert "0.10.1 has it and 0.9.2 has not" in open_flag.reason


def test_an_abbreviation_means_what_the_parser_takes_it_for() -> None:
    text = docker(command="serve org/m --tensor-parallel 4").replace("--shm-size 8g", "")
    found = linted(("run.sh", text))
    said = {one.id: one for one in found.findings}
    assert said["vllm-flag-unknown"].severity.value == "warning"
    assert "4 ranks" in said["container-shm"].summary
