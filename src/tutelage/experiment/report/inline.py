"""Figures as SVG elements that can stand side by side in one page."""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable

from markupsafe import Markup, escape
from matplotlib.figure import Figure

from tutelage.experiment import plots


def embedder() -> Callable[[Figure, str], Markup]:
    """A function that makes elements of figures. Identifiers inside them are unlike those of all before."""
    numbers = itertools.count(1)

    def embed(figure: Figure, label: str) -> Markup:
        name = f"plot-{next(numbers)}-"
        svg = re.sub(r"<metadata>.*?</metadata>", "", plots.svg(figure), flags=re.DOTALL)
        svg = re.sub(r"<!--.*?-->\n?", "", svg, flags=re.DOTALL)
        svg = re.sub(r'( id="|href="#|url\(#)', rf"\g<1>{name}", svg)
        return Markup(svg.replace("<svg ", f'<svg role="img" aria-label="{escape(label)}" ', 1))

    return embed
