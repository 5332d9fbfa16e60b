"""The bandwidth gate: run nccl-tests under supervision, judge rows, transport and threshold."""
