"""Arithmetic of vLLM memory per rank; every function names its unit, formula and source."""
