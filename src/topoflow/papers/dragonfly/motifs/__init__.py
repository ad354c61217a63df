"""Motifs of applications after SST's Ember, their meshes and block files, and the library that sends their messages."""
