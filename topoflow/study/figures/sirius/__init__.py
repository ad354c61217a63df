"""Figures of Sirius."""
