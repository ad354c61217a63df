"""Figures of TopoOpt."""
