"""The colour of every fabric, which is the same in all reports, pictures and pages.

Each design of topoflow has a fixed colour; other names have a colour that is a hash of the name. Every colour has a
contrast of 3 or more with white and with a dark page (WCAG 2.1, 1.4.11), and those of designs are distinct also for the
colour-blind (Machado, Oliveira & Fernandes, "A Physiologically-based Model for Simulation of Color Vision Deficiency",
2009). Markers and line styles repeat the distinction.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from functools import cache
from hashlib import sha256
from math import dist

Lab = tuple[float, float, float]

FABRICS = {  # from annealing of the least distance of any two, for normal sight and three deficiencies
    "topoopt": "#0072B2",
    "fat_tree": "#D55E00",
    "ideal_switch": "#3CA284",
    "sip_ml": "#5A72FC",
    "torus": "#CC2A66",
    "ocs_reconfig": "#C60CAE",
    "expander": "#72663C",
    "leaf_spine": "#CC72B4",
    "ring": "#0C96F0",
    "dragonfly": "#9C24D8",
    "sirius": "#EA30D8",
    "hyperx": "#0C7866",
    "fosquare": "#848A48",
    "links": "#E46C6C",
}
WHITE, DARK = "#FFFFFF", "#16191D"  # pages in both themes
MIN_CONTRAST = 3.0
MIN_DISTANCE = 0.045  # in OKLab, where 1 is from black to white: closer colours are hard to distinguish
MAX_DISTINCT = 100  # names with distinct colours: there is room for 120 or more
MAX_TRIES = 1000  # after as many tries without a distinct colour, a name gets the last one


def fabric_colours(names: Iterable[str]) -> dict[str, str]:
    """Return the colour of each fabric; the first ``MAX_DISTINCT`` that are no designs have distinct colours.

    A colour depends on the name alone, unless two user designs in one report would look alike: then the later one in
    the alphabet gets another colour.
    """
    distinct_names = list(dict.fromkeys(names))
    derived = dict[str, str]()
    for number, name in enumerate(sorted(name for name in distinct_names if name not in FABRICS)):
        derived[name] = _derived(name, derived.values() if number < MAX_DISTINCT else ())
    return {name: FABRICS.get(name) or derived[name] for name in distinct_names}


def _derived(name: str, taken: Collection[str]) -> str:
    """Return a colour from a hash of ``name`` that is distinct from those of designs and from those ``taken``."""
    colour = WHITE
    for number in range(MAX_TRIES):
        red, green, blue = sha256(f"{number} {name}".encode("utf-8", "surrogatepass")).digest()[:3]
        colour = f"#{red:02X}{green:02X}{blue:02X}"
        if min(contrast(colour, WHITE), contrast(colour, DARK)) >= MIN_CONTRAST and all(
            dist(oklab(colour), oklab(other)) >= MIN_DISTANCE for other in (*FABRICS.values(), *taken)
        ):
            break
    return colour


def contrast(first: str, second: str) -> float:
    """Return the contrast of two colours, from 1 to 21 (WCAG 2.1)."""
    linear = map(_linear, (first, second))
    low, high = sorted(0.2126 * red + 0.7152 * green + 0.0722 * blue for red, green, blue in linear)
    return (high + 0.05) / (low + 0.05)


@cache
def oklab(colour: str) -> Lab:
    """Return perceived lightness, green to red, and blue to yellow (Ottosson, "A perceptual color space", 2020)."""
    red, green, blue = _linear(colour)
    long = (0.4122214708 * red + 0.5363325363 * green + 0.0514459929 * blue) ** (1 / 3)
    middle = (0.2119034982 * red + 0.6806995451 * green + 0.1073969566 * blue) ** (1 / 3)
    short = (0.0883024619 * red + 0.2817188376 * green + 0.6299787005 * blue) ** (1 / 3)
    return (
        0.2104542553 * long + 0.7936177850 * middle - 0.0040720468 * short,
        1.9779984951 * long - 2.4285922050 * middle + 0.4505937099 * short,
        0.0259040371 * long + 0.7827717662 * middle - 0.8086757660 * short,
    )


def _linear(colour: str) -> Lab:
    """Convert sRGB to amounts of light, from 0 to 1 (IEC 61966-2-1)."""
    red, green, blue = (int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5))
    return _light(red), _light(green), _light(blue)


def _light(value: float) -> float:
    return value / 12.92 if value <= 0.04045 else ((value + 0.055) / 1.055) ** 2.4
