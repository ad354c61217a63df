"""Browsing: what folders of runs say, finished or not, as pages of a local server or one file."""
