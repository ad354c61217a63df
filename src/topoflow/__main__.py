"""``python -m topoflow`` is the command ``topoflow``."""

import sys

from topoflow.cli import main

sys.exit(main())
