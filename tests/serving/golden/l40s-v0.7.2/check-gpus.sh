#!/usr/bin/env bash
# Rendered by nodeprep for recorded machine l40s-clean (4x NVIDIA L40S, PCIe switch): vLLM 0.7.2, meta-llama/Llama-3.3-70B-Instruct-FP8-Dynamic.
# Changes made here are overwritten; set them in /etc/nodeprep/config.toml.
# simulated: from a recorded machine or a simulated gate, not measured on this node.
# Does the container see every GPU of its group?  Options:
#   --engine NAME   docker (default) or podman
#   --wait SECONDS  wait that long for the container to run
#   --reload        check, reload systemd, and check again: where systemd manages the container's
#                   devices, a daemon-reload is known to take the GPUs away
set -euo pipefail

engine=docker
wait_s=0
reload=
while (($#)); do
  case $1 in
    --engine) engine=$2 && shift 2 ;;
    --wait) wait_s=$2 && shift 2 ;;
    --reload) reload=1 && shift ;;
    *) printf 'check-gpus.sh: unknown option %s\n' "$1" >&2 && exit 2 ;;
  esac
done

container=nodeprep-vllm
wanted=(
  GPU-00000000-0000-4000-8000-000000000000
  GPU-00000001-0000-4000-8000-000000000000
  GPU-00000002-0000-4000-8000-000000000000
  GPU-00000003-0000-4000-8000-000000000000
)

seen() {
  "$engine" exec "$container" nvidia-smi --query-gpu=uuid --format=csv,noheader
}

check() {
  local found missing=0
  if ! found=$(seen); then
    printf '%s: nvidia-smi does not answer in %s\n' "$1" "$container" >&2
    return 1
  fi
  local gpu
  for gpu in "${wanted[@]}"; do
    if ! grep -qxF -- "$gpu" <<<"$found"; then
      printf '%s: %s does not see %s\n' "$1" "$container" "$gpu" >&2
      missing=1
    fi
  done
  ((missing == 0))
}

for ((spent = 0; spent < wait_s; spent++)); do
  if seen >/dev/null 2>&1; then break; fi
  sleep 1
done
check "after the start"

if [[ $reload ]]; then
  systemctl daemon-reload
  sleep 2
  if ! check "after daemon-reload"; then
    printf 'give the devices names that systemd knows: %s\n' \
      'nvidia-ctk system create-dev-char-symlinks --create-all, or a CDI device' >&2
    exit 1
  fi
fi
