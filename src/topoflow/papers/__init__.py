"""Published systems, a room each: the figures of its paper, and the models that only these need.

A room has its figures as modules, their points as ``experiment/FIGURE.yaml``, and a README.md with the paper's claims
and our numbers. ``topoflow experiment FIGURE`` finds it by its name; no other code imports a room, and no room another.
"""
