"""MOTION (Maniotis et al., JOCN 2022): switches with co-packaged optics, and therefore more ports."""
