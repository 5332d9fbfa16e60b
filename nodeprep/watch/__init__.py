"""The daemon: GPUs that are lost, ACS redirection that comes back, the ready stamp kept honest."""
