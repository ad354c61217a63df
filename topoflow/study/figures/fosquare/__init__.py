"""Figures of FOSquare."""
