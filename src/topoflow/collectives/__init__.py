"""Statements about collectives of GPUs: what NCCL chooses for one, and how long it takes."""
