"""Published systems, one room each: the figures of the paper, and the models that only these figures need.

A room has its figures as modules, their points as ``experiment/FIGURE.yaml``, and a README.md with the paper's claims
and our numbers. ``topoflow experiment FIGURE`` finds a room by its name; no other code imports a room, and no room
imports another.
"""
