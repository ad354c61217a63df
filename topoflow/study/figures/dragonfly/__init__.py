"""Figures of the tapered dragonfly."""
