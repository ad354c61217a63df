"""The ``slotted`` fidelity."""
