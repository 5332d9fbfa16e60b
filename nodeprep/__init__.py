"""nodeprep: from power-on to safe to register in the load balancer."""

__version__ = "0.1.0"
