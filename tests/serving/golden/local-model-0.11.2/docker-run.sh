#!/usr/bin/env bash
# Rendered by nodeprep for this node (2x NVIDIA L40S, host path): vLLM 0.11.2, /srv/models/llama 8b.
# Changes made here are overwritten; set them in /etc/nodeprep/config.toml.
# Arguments go to `docker run`: `docker-run.sh --detach`.
set -euo pipefail

here=$(cd -- "$(dirname -- "${BASH_SOURCE[0]}")" && pwd)

# The server's key: one line VLLM_API_KEY=..., never an argument.
key_file=/etc/nodeprep/secrets/vllm.env
if [[ ! -r $key_file ]]; then
  printf 'docker-run.sh: cannot read %s, which must hold the line VLLM_API_KEY=...\n' "$key_file" >&2
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
  --gpus '"device=GPU-00000000-0000-4000-8000-000000000000,GPU-00000001-0000-4000-8000-000000000000"'
  # Only this address of the host reaches the server.
  --publish '[::1]:8001:8001'
  # Own shared memory, sized for the ranks; the host's stays unseen.
  --ipc private
  --shm-size 3221225472
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
  --mount 'type=bind,source=/srv/models/llama 8b,target=/srv/models/llama 8b,readonly'
  --mount "type=bind,source=$here/vllm.yaml,target=/etc/nodeprep/vllm.yaml,readonly"
  # Alive is not enough: /health answers when the engine does.  Loading may take this long.
  --health-cmd 'python3 -c '"'"'import urllib.request as u; u.urlopen("http://127.0.0.1:8001/health", timeout=8)'"'"''
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
  '/srv/models/llama 8b'
  --config
  /etc/nodeprep/vllm.yaml
  --host
  0.0.0.0
  --port
  8001
)

exec docker run "${options[@]}" "$@" vllm/vllm-openai:v0.11.2 "${command[@]}"
