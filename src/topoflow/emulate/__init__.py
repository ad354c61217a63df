"""A plan as a network of this machine's kernel, with a real job of PyTorch inside: the test of what is simulated."""
