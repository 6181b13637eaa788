"""The page: a template, a style, a script, plotly and the document, in one file that works offline."""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Mapping
from html import escape
from importlib.resources import files
from typing import Any

from plotly.offline import get_plotlyjs

from nas.stages.report.svg import STYLE

SCRIPTS = ("helpers.js", "front.js", "architecture.js", "sections.js", "truth.js", "page.js")


def page(document: Mapping[str, Any]) -> str:
    """The whole HTML. The document cannot become markup or code: it is data for the script.

    Only the embedded scripts can run, by their digests, and no address can be reached.
    """
    ours = "\n".join(_read(name) for name in SCRIPTS)
    scripts = [get_plotlyjs(), f'"use strict";\n{ours}']
    policy = (f"default-src 'none'; script-src {' '.join(map(_digest, scripts))}; style-src 'unsafe-inline'; "
              "img-src data: blob:; base-uri 'none'; form-action 'none'")
    filled = {"policy": escape(policy), "title": escape(f"{document['run']} · Paretoformer"),
              "style": _read("page.css") + STYLE, "data": data_text(document),
              "scripts": "".join(f"<script>{script}</script>\n" for script in scripts)}
    html = _read("page.html")
    for name, text in filled.items():
        html = html.replace(f"<!--{name}-->", text, 1)
    return html


def data_text(document: Mapping[str, Any]) -> str:
    """JSON that cannot close its surrounding element."""
    text = json.dumps(document, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    return text.replace("&", "\\u0026").replace("<", "\\u003c").replace(">", "\\u003e")


def _digest(script: str) -> str:
    """The content security policy source of a script."""
    return f"'sha256-{base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()}'"


def _read(name: str) -> str:
    return files(__package__).joinpath(name).read_text("utf-8")
