"""GPUs that the text names against its ranks, and checkpoints against --quantization."""

from __future__ import annotations

import pytest

from nodeprep.lint.server import Node
from nodeprep.serving import flags
from tests.lint.base import H100, linted, of

NEWEST = flags.newest()
SERVICE = (
    "services:\n  a:\n    image: vllm/vllm-openai:v0.20.2\n    shm_size: 8g\n"
    "    ports: ['127.0.0.1:8000:8000']\n    command: --model org/m -tp {tp}\n    deploy:\n"
    "      resources:\n        reservations:\n"
    "          devices: [{{driver: nvidia, capabilities: [gpu], {what}}}]\n"
)


@pytest.mark.parametrize(
    ("name", "text", "told"),
    [
        ("x.sh", "CUDA_VISIBLE_DEVICES=0,1 vllm serve org/m -tp 4\n", "CUDA_VISIBLE_DEVICES=0,1"),
        ("x.sh", "docker run --gpus '\"device=0,1\"' my/vllm --model m -tp 4\n", "device=0,1"),
        ("x.sh", "docker run --gpus device=GPU-a my/vllm --model m -tp 2\n", "1 GPU,"),
        ("x.sh", "docker run --gpus 2 my/vllm --model m -tp 2 -pp 2\n", "--gpus 2"),
        ("x.sh", "docker run --gpus all -e NVIDIA_VISIBLE_DEVICES=0 my/vllm --model m -tp 2\n",
         "NVIDIA_VISIBLE_DEVICES"),
        ("x.sh", "podman run --device nvidia.com/gpu=0 my/vllm --model m -tp 2\n", "nvidia.com"),
        ("x.sh", "docker run --gpus 2 my/vllm --model m --data-parallel-size 4\n", "4 ranks"),
        ("c.yml", SERVICE.format(tp=2, what="count: 1"), "--gpus 1"),
        ("c.yml", SERVICE.format(tp=4, what="device_ids: ['0', '3']"), "device=0,3"),
    ],
)  # fmt: skip
def test_more_ranks_than_the_text_names(name: str, text: str, told: str) -> None:
    [found] = of("vllm-memory-does-not-fit", name, text, NEWEST)
    assert found.startswith("critical")
    assert told in found


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("x.sh", "CUDA_VISIBLE_DEVICES=0,1 vllm serve org/m -tp 2\n"),
        ("x.sh", "CUDA_VISIBLE_DEVICES=$GPUS vllm serve org/m -tp 4\n"),
        ("x.sh", "docker run --gpus all my/vllm --model m -tp 4\n"),
        ("x.sh", "docker run --gpus device=$G my/vllm --model m -tp 4\n"),
        ("x.sh", "docker run --gpus 2 my/vllm --model m -tp $TP\n"),
        ("x.sh", "docker run --gpus all -e NVIDIA_VISIBLE_DEVICES=all my/vllm --model m -tp 4\n"),
        ("x.sh", "podman run --device nvidia.com/gpu=all my/vllm --model m -tp 4\n"),
        ("x.sh", "docker run --gpus 2 my/vllm --model m -tp 4 "
         "--distributed-executor-backend ray\n"),
        ("x.sh", "docker run --gpus 2 my/vllm --model m -tp 4 --nnodes 2 --node-rank 0\n"),
        ("c.yml", SERVICE.format(tp=4, what="count: all")),
        ("c.yml", SERVICE.format(tp=2, what="device_ids: ['0', '3']")),
    ],
)  # fmt: skip
def test_ranks_that_have_their_gpus(name: str, text: str) -> None:
    assert not of("vllm-memory-does-not-fit", name, text, NEWEST)


@pytest.mark.parametrize(
    ("model", "method", "told"),
    [
        ("Qwen/Qwen2.5-72B-Instruct", "awq", "not quantized"),
        ("Qwen/Qwen2.5-72B-Instruct", "gptq_marlin", "not quantized"),
        ("meta-llama/Llama-3.3-70B-Instruct-FP8-Dynamic", "awq", "stored as"),
        ("Qwen/Qwen2.5-72B-Instruct", "fp8", None),
        ("Qwen/Qwen2.5-72B-Instruct", "bitsandbytes", None),
        ("nobody/knows-this", "awq", None),
    ],
)
def test_quantization_and_the_checkpoint(model: str, method: str, told: str | None) -> None:
    text = f"vllm serve {model} --quantization {method}\n"
    found = of("vllm-options-conflict", "x.sh", text, "0.11.2")
    assert bool(found) is (told is not None)
    if told is not None:
        assert found[0].startswith("critical")
        assert told in found[0]


def test_the_memory_plan_believes_the_checkpoint() -> None:
    card = Node(gpu="H100", count=1, capability=(9, 0))
    text = "vllm serve Qwen/Qwen2.5-72B-Instruct --max-model-len 8192 --quantization awq\n"
    assert of("vllm-memory-does-not-fit", "x.sh", text, "0.11.2", node=card)
    plain = linted(("x.sh", text.replace(" --quantization awq", "")), version="0.11.2", node=H100)
    assert plain.servers
