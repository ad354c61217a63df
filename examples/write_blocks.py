"""Write a mesh of blocks that is finer at a sphere as SST's Ember reads it: who has which block and its neighbours.

    python examples/write_blocks.py 64 2 mesh.amr

The mesh is that of the motif amr3d on 64 ranks, with blocks at the sphere cut twice: ours, as those that miniAMR wrote
for the tapered dragonfly are not published. Ember takes the file with ``arg.filetype=binary``, topoflow with
``workload.name=amr3d workload.blocks=mesh.amr``.
"""

import argparse
import sys
from pathlib import Path

from topoflow.papers.dragonfly.motifs.block_file import write_blocks
from topoflow.papers.dragonfly.motifs.mesh import sphere


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("ranks", type=int)
    parser.add_argument("level", type=int, help="how often blocks at the sphere are cut in eight")
    parser.add_argument("file", type=Path)
    arguments = parser.parse_args()
    try:
        write_blocks(arguments.file, sphere(arguments.ranks, arguments.level))
    except (ValueError, OSError) as error:
        sys.exit(str(error))


if __name__ == "__main__":
    main()
