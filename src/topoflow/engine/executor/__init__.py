"""Executors: who does work on many items. ``base`` cuts it into chunks; the other modules open one kind each."""
