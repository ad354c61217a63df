"""A plugin of Hydra: ``hydra/launcher=topoflow_batch`` simulates the jobs of a multirun as one batch."""
