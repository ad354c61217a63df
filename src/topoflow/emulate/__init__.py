"""Emulation of a plan in network namespaces with a real PyTorch job inside, which tests the simulation."""
