#!/usr/bin/env bash
# Rendered by nodeprep for recorded machine l40s-clean (4x NVIDIA L40S, PCIe switch): vLLM 0.7.2, meta-llama/Llama-3.3-70B-Instruct-FP8-Dynamic.
# Changes made here are overwritten; set them in /etc/nodeprep/config.toml.
# simulated: from a recorded machine or a simulated gate, not measured on this node.
# Arguments go to `podman run`: `podman-run.sh --detach`.
set -euo pipefail

here=$(cd -- "$(dirname -- "${BASH_SOURCE[0]}")" && pwd)

# The server's key: one line VLLM_API_KEY=..., never an argument.
key_file=/etc/nodeprep/secrets/vllm.env
if [[ ! -r $key_file ]]; then
  printf 'podman-run.sh: cannot read %s, which must hold the line VLLM_API_KEY=...\n' "$key_file" >&2
  # shellcheck disable=SC2016 # for the reader to run
  printf 'make it: (umask 077; printf "VLLM_API_KEY=%%s\\n" "$(openssl rand -hex 32)" > %q)\n' "$key_file" >&2
  exit 78
fi

cache=/var/cache/nodeprep
[[ -d $cache ]] || (umask 077 && mkdir -p -- "$cache")

options=(
  --rm
  --name nodeprep-vllm
  # An init process forwards signals and collects orphans.
  --init
  # The entrypoint of the image changed between releases; named, it does not matter.
  --entrypoint vllm
  # The group that was measured, by UUID: an index may move, a UUID does not.
  # Names of the Container Device Interface: nvidia-ctk cdi generate --output /etc/cdi/nvidia.yaml
  --device nvidia.com/gpu=GPU-00000000-0000-4000-8000-000000000000
  --device nvidia.com/gpu=GPU-00000001-0000-4000-8000-000000000000
  --device nvidia.com/gpu=GPU-00000002-0000-4000-8000-000000000000
  --device nvidia.com/gpu=GPU-00000003-0000-4000-8000-000000000000
  # Only this address of the host reaches the server.
  --publish 127.0.0.1:8000:8000
  # Own shared memory, sized for the ranks; the host's stays unseen.
  --ipc private
  --shm-size 5368709120
  # Pinned host buffers of CUDA and NCCL.
  --ulimit memlock=-1:-1
  --ulimit nofile=65536:65536
  # Root inside has no capability and gains none.
  --security-opt no-new-privileges
  --cap-drop ALL
  # Nothing of the image can be changed; what is written lies in the cache or is lost at the end.
  --read-only
  --tmpfs '/tmp:rw,exec,nosuid,nodev,size=16g'
  --env HOME=/cache
  --env HF_HOME=/cache/huggingface
  --env-file "$here/vllm.env"
  --env-file "$key_file"
  --mount 'type=bind,source=/var/cache/nodeprep,target=/cache'
  --mount "type=bind,source=$here/vllm.yaml,target=/etc/nodeprep/vllm.yaml,readonly"
  # Alive is not enough: /health answers when the engine does.  Loading may take this long.
  --health-cmd 'python3 -c '"'"'import urllib.request as u; u.urlopen("http://127.0.0.1:8000/health", timeout=8)'"'"''
  --health-interval 15s
  --health-timeout 10s
  --health-retries 3
  --health-start-period 1800s
  # Requests in flight get this long to end.
  --stop-timeout 120
)

# All GPUs of the group hang on one NUMA node: its CPUs feed them from its own memory.
cpus=/sys/devices/system/node/node0/cpulist
if [[ -r $cpus ]]; then
  options+=(--cpuset-cpus "$(<"$cpus")" --cpuset-mems 0)
fi

command=(
  serve
  meta-llama/Llama-3.3-70B-Instruct-FP8-Dynamic
  --config
  /etc/nodeprep/vllm.yaml
  --host
  0.0.0.0
  --port
  8000
)

exec podman run "${options[@]}" "$@" vllm/vllm-openai:v0.7.2 "${command[@]}"
