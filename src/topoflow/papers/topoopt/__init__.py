"""TopoOpt (Wang et al., NSDI 2023): networks of optical circuits that are set up for a training job."""
