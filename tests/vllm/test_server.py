"""The real server starts from the rendered files, on a CPU, and does what they say."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from nodeprep.facts.model_folder import read_model
from nodeprep.lint.rules_text import METRICS
from nodeprep.parse.metrics import parse_metrics
from nodeprep.serving.render import render, write
from nodeprep.serving.tune import tune
from tests.serving import cases, readback
from tests.vllm.conftest import INSTALLED

KEY = "key-of-this-test"
TOKENS = 16
START_S = 400


class Server:
    def __init__(self, port: int) -> None:
        self.base = f"http://127.0.0.1:{port}"

    def ask(self, path: str, body: object = None, key: str | None = KEY) -> tuple[int, str]:
        request = urllib.request.Request(self.base + path)
        if body is not None:
            request.data = json.dumps(body).encode()
            request.add_header("Content-Type", "application/json")
        if key is not None:
            request.add_header("Authorization", f"Bearer {key}")
        try:
            with urllib.request.urlopen(request, timeout=60) as answer:
                return answer.status, answer.read().decode()
        except urllib.error.HTTPError as error:
            return error.code, error.read().decode()


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


@pytest.fixture(scope="module")
def server(
    venv: Path, tiny_model: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Server]:
    folder = tmp_path_factory.mktemp("rendered")
    port = free_port()
    shape = read_model(tiny_model)
    policy = cases.policy(
        vllm_version=INSTALLED, model=str(tiny_model), tensor_parallel=1, max_model_len=512,
        max_num_seqs=8, max_num_batched_tokens=512, gpu_memory_utilization=0.3,
        kv_cache_dtype=None, enforce_eager=True, offline=True, port=port,
        vllm_program=str(venv / "bin" / "vllm"),
    )  # fmt: skip
    plan = cases.plan(INSTALLED, tp=1, model=str(tiny_model), max_model_len=512, max_num_seqs=8)
    config = tune(cases.single_4090(), None, plan, policy, shape, p2p_verified=False)
    write(render(config, install_dir=str(folder)), folder)
    unit = (folder / "vllm-bare.service").read_text()
    argv = readback.unit_words(readback.unit_value(unit, "ExecStart"))
    environment = {
        "PATH": f"{venv / 'bin'}:/usr/bin:/bin", "HOME": str(folder), "LC_ALL": "C.UTF-8",
        "VLLM_API_KEY": KEY,
        # What a machine without a GPU needs besides.
        "VLLM_CPU_KVCACHE_SPACE": "1", "VLLM_CPU_OMP_THREADS_BIND": "nobind",
        "OMP_NUM_THREADS": "1",
        **readback.from_env((folder / "vllm.env").read_text()),
    }  # fmt: skip
    log = (folder / "log").open("w")
    process = subprocess.Popen(argv, env=environment, stdout=log, stderr=log, cwd=folder,
                               stdin=subprocess.DEVNULL, start_new_session=True)  # fmt: skip
    try:
        started = Server(port)
        wait_for(started, process, folder / "log")
        yield started
    finally:
        os.killpg(process.pid, signal.SIGTERM)
        try:
            process.wait(timeout=30)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
        log.close()


def wait_for(server: Server, process: subprocess.Popen[bytes], log: Path) -> None:
    deadline = time.monotonic() + START_S
    while time.monotonic() < deadline:
        assert process.poll() is None, log.read_text()[-3000:]
        try:
            if server.ask("/health", key=None)[0] == 200:
                return
        except OSError:
            pass
        time.sleep(1)
    pytest.fail(f"no /health in {START_S} s: {log.read_text()[-3000:]}")


def test_it_is_healthy(server: Server) -> None:
    assert server.ask("/health", key=None)[0] == 200


def test_it_asks_for_the_key_of_the_file(server: Server) -> None:
    assert server.ask("/v1/models", key=None)[0] == 401
    status, body = server.ask("/v1/models")
    assert status == 200
    assert json.loads(body)["data"][0]["max_model_len"] == 512


def test_it_completes(server: Server, tiny_model: Path) -> None:
    answer = completion(server, tiny_model)
    assert answer["usage"]["completion_tokens"] == TOKENS


def completion(server: Server, model: Path) -> dict[str, Any]:
    asked = {"model": str(model), "prompt": "a gate", "max_tokens": TOKENS, "ignore_eos": True}
    status, body = server.ask("/v1/completions", asked)
    assert status == 200, body
    answer: dict[str, Any] = json.loads(body)
    return answer


def test_its_metrics_are_those_the_release_is_said_to_have(
    server: Server, tiny_model: Path
) -> None:
    completion(server, tiny_model)
    page = parse_metrics(server.ask("/metrics", key=None)[1])
    names = {one.name for one in page.samples}
    for name, lived in METRICS.items():
        there = any(one.startswith(name) for one in names)
        gone = lived.last is not None
        assert there is not gone, name
    [tokens] = page.named("vllm:generation_tokens_total")
    assert tokens.value >= TOKENS
