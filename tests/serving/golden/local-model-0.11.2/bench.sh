#!/usr/bin/env bash
# Rendered by nodeprep for this node (2x NVIDIA L40S, host path): vLLM 0.11.2, /srv/models/llama 8b.
# Changes made here are overwritten; set them in /etc/nodeprep/config.toml.
# Load of a long-context service: prompts of 6,400 tokens, answers of 512, 32 clients.
set -euo pipefail

bench=(
  vllm bench serve
  --model '/srv/models/llama 8b'
  --base-url http://127.0.0.1:8001
  --dataset-name random
  --random-input-len 6400
  --random-output-len 512
  --num-prompts 320
  --max-concurrency 32
  --save-result
  --result-dir /tmp
)

# The key stays inside the container, where the server has it too.
# shellcheck disable=SC2016 # expanded there, not here
exec "${ENGINE:-docker}" exec nodeprep-vllm bash -c 'OPENAI_API_KEY=${VLLM_API_KEY:-} exec "$@"' bash "${bench[@]}" "$@"
