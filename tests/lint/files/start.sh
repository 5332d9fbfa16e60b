#!/usr/bin/env bash
# Starts the 70B server of a node with four L40S.
set -euo pipefail

export NCCL_P2P_LEVEL=PXB
export NCCL_IB_DISABLE=1

docker run -d --name llama-70b \
  --gpus all \
  --shm-size=32g \
  --ipc=host \
  --ulimit memlock=-1 \
  -p 8000:8000 \
  -e PYTORCH_CUDA_ALLOC_CONF="expandable_segments:True,max_split_size_mb:512" \
  -e NCCL_P2P_DISABLE=0 \
  -e NCCL_SHM_DISABLE=0 \
  -v /srv/hf:/root/.cache/huggingface \
  vllm/vllm-openai:v0.7.2 \
  --model meta-llama/Llama-3.3-70B-Instruct-FP8-Dynamic \
  --tensor-parallel-size 4 \
  --kv-cache-dtype fp8_e4m3 \
  --calculate-kv-scales \
  --gpu-memory-utilization 0.92 \
  --max-model-len 32768 \
  --block-size 32 \
  --enable-chunked-prefill \
  --max-num-batched-tokens 4096 \
  --enable-prefix-caching

# The load: what the node is judged by.
vllm bench serve --num-prompts 320
# Alert when vllm:gpu_cache_usage_perc stays at 0.99.
