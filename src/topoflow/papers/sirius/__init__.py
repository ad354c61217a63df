"""Sirius (Ballani et al., SIGCOMM 2020): a network of nanosecond optical switching."""
