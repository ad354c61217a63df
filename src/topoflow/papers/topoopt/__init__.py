"""TopoOpt (Wang et al., NSDI 2023): networks of optical circuits, configured for a training job."""
