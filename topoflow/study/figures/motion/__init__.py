"""Figures of MOTION."""
