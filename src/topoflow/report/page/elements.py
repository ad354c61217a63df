"""Jinja2 templates of pages, and the elements that several pages have.

Templates escape every value. Only what these functions return as ``Markup`` is taken for HTML.
"""

from __future__ import annotations

import base64
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from topoflow import __version__
from topoflow.report.page.bokeh import scripts
from topoflow.report.page.data import Plain, as_script

if TYPE_CHECKING:
    from topoflow.report.draw.pictures import Picture

T = TypeVar("T")
Cell: TypeAlias = str | tuple[str, float | None]  # a text, or a text and the number to sort it by


@dataclass(frozen=True)
class Drawing:
    """A chart that a script draws in the element ``name``, or the PNG ``image`` in its place."""

    name: str
    title: str
    caption: str
    file: str = ""  # the same as a picture, next to the page
    image: bytes = b""


@cache
def environment() -> Environment:
    """Return the templates of all pages."""
    templates = Environment(
        loader=PackageLoader("topoflow.report", "page"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    templates.filters["base64"] = lambda content: base64.b64encode(content).decode("ascii")
    return templates


def render(template: str, **values: Any) -> Markup:
    """Return a template as HTML."""
    return Markup(environment().get_template(template).render(**values))


def page(template: str, data: Plain, script_names: Iterable[str], **values: Any) -> str:
    """Return a page with all inside that it needs: its style, ``data``, Bokeh, and the scripts of these names."""
    own_scripts = (f"<script>\n{script(name)}</script>\n" for name in script_names)
    return linked_page(template, data, scripts() + "".join(own_scripts), **values)


def linked_page(template: str, data: Plain, scripts: str, **values: Any) -> str:
    """Return a page whose scripts are given as HTML, e.g. as links to a server."""
    return render(
        template,
        style=Markup(_text("style.css")),
        version=__version__,
        data=Markup(as_script(data)),
        scripts=Markup(scripts),
        **values,
    )


def script(name: str) -> str:
    """Return the text of one of the pages' own scripts."""
    return _text(f"{name}.js")


def table(head: Sequence[str], rows: Iterable[Sequence[Cell]], style: str = "numbers") -> Markup:
    """Return a table of text, which scrolls in a narrow window.

    The style "numbers" highlights the first row as the best, "plain" does not, "text" is aligned to the left;
    "sortable" tables are sorted by a click on a title.
    """
    return _macro("table", head, rows, style)


def paragraphs(texts: Iterable[str]) -> Markup:
    """Return a paragraph for each text."""
    return _macro("paragraphs", texts)


def drawn(pictures: Iterable[Picture[T]], images: Mapping[str, bytes]) -> list[Drawing]:
    """Return the pictures of which there are ``images``, PNG files by name."""
    return [
        Drawing("", picture.title, picture.caption, image=images[picture.file])
        for picture in pictures
        if picture.file in images
    ]


def _macro(name: str, *arguments: object) -> Markup:
    return Markup(getattr(environment().get_template("macros.html").module, name)(*arguments))


def _text(file: str) -> str:
    return resources.files("topoflow.report.page").joinpath(file).read_text("utf-8")
