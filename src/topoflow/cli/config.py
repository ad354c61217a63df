"""``topoflow config``: the files of configurations, and the JSON schema of a verb's keys."""

from __future__ import annotations

import argparse
import json

from topoflow.study.configure.schema import read, schema


def run(arguments: argparse.Namespace) -> None:
    """Print a file with its comments, or the schema of a verb."""
    text = read(arguments.name)
    if arguments.schema:
        if "/" in arguments.name:
            raise ValueError(f"--schema: a schema is of a verb, as compare or search, got {arguments.name!r}")
        text = json.dumps(schema(arguments.name), indent=1) + "\n"
    print(text, end="")
