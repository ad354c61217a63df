"""BokehJS, the plotting library of the page, from the Python package ``bokeh``.

Only the scripts of the package are read; none of its modules is imported.
"""

from __future__ import annotations

from functools import cache
from importlib.metadata import distribution
from pathlib import Path

FOLDER = "bokeh/server/static/js"
SCRIPTS = ("bokeh.min.js", "bokeh-api.min.js")  # 1.4 MB; the second has the API for figures and glyphs


def scripts() -> str:
    """Return the scripts as HTML. Raises ``ValueError`` where the package is not installed."""
    return "".join(f"<script>{text}</script>\n" for text in texts())


@cache
def texts() -> tuple[str, ...]:
    """Return the scripts in the order in which they run. Raises ``ValueError`` as ``scripts`` does."""
    try:
        folder = Path(str(distribution("bokeh").locate_file(FOLDER)))
        return tuple(_without_ends(folder.joinpath(name).read_text("utf-8")) for name in SCRIPTS)
    except (ImportError, OSError) as error:
        raise ValueError(f"bokeh: must be installed to write report.html, run `pip install bokeh` ({error})") from error


def _without_ends(text: str) -> str:
    """Remove the address of a source map, which is missing, and escape end tags in strings."""
    lines = (line for line in text.splitlines() if not line.startswith("//# sourceMappingURL"))
    return "\n".join(lines).replace("</script", "<\\/script")
