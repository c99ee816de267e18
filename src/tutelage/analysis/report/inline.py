"""Figures that can stand side by side in one page."""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable

from markupsafe import Markup, escape


def embedder() -> Callable[[str, str], Markup]:
    """A function that readies SVG elements for a page: no identifier inside one is found in those before."""
    numbers = itertools.count(1)

    def embed(svg: str, label: str) -> Markup:
        name = f"plot-{next(numbers)}-"
        svg = re.sub(r"<metadata>.*?</metadata>", "", svg, flags=re.DOTALL)
        svg = re.sub(r"<!--.*?-->\n?", "", svg, flags=re.DOTALL)
        svg = re.sub(r'( id="|href="#|url\(#)', rf"\g<1>{name}", svg)
        return Markup(svg.replace("<svg ", f'<svg role="img" aria-label="{escape(label)}" ', 1))

    return embed
