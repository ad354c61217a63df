"""Motifs of applications: what SST's Ember has them send, and where the files of their meshes come from."""
