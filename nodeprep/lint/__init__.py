"""What is wrong with a vLLM configuration that somebody else wrote."""
