"""Executors: where work on many items is done. ``base`` says what work is; ``local`` does it here, others elsewhere."""
