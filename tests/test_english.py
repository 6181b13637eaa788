"""Plain technical English: phrases that readers stumbled over do not come back.

Checked in every text of the product code (messages, help, docstrings), in the report page and in the documentation.
"""

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
INSTEAD = {
    r"goes on\b": "resumes, continues",
    r"going on after": "resuming after",
    r"gone on with": "resumed",
    r"who proposes": "sampling algorithm",
    r"(?:that nothing|no other) beats": "Pareto-optimal",
    r"cut out of": "extracted from",
    r"come along": "bundled",
    r"slip of the pen": "rejected as a typo",
    r"stands? twice": "is a duplicate",
    r"as it was begun": "with the same settings",
    r"once more": "again",
    r"breaks off": "aborts",
    r"can be had|to be had": "is possible, is available",
    r"are all there are": "only N exist",
    r"(?<!there )\bis no (?!longer)[a-z]": "is not a",
    r"there is an? \w+ already": "already exists",
    r"asked for": "requested",
    r"what helps": "remedy, advice",
    r"\banew\b": "again",
    r"by turns": "alternately",
    r"nobody (?!in the village)|somebody": "name the process, or use the passive",
    r"as usual": "say what happens",
    r"\bput (?:it|them|the files?) back": "restore",
    r"take another": "use another, choose another",
    r"told by": "reported by",
    r"what stands in": "why not",
    r"whole or not at all|completely or not at all": "atomically",
    r"is not for \w": "is not supported by, has no effect on",
    r"need as many|guessed alike": "say what has to be equal",
    r"as blocks are\b": "in the same way as blocks",
    r"of its own only": "only its own",
    r"nothing beside it\.": "is self-contained",
    r"\bbehind (?:ssh|adb|a text)": "reached by, after",
    r"what is finished": "finished trials, finished rounds",
    r"usual value": "default",
    r"died on it": "its worker died",
    r"every so many": "every n-th",
    r"(?:set|sets|put|puts) (?:\w+ ){0,4}aside": "archive",
    r"which choices matter": "importance",
    r"needs no network": "works offline",
    r"nothing in \w+ (?:has|meets)": "no architecture of",
    r"declares already|not running any more": "already declares, no longer runs",
    r"the baselines of": "baselines for",
    r"another (?:vocabulary|task|command) than": "a different",
    r"for a (?:person|reader)\b": "in a terminal, as text",
    r"fair sample": "random sample",
    r"learned numbers": "parameters",
    r"sizes? (?:that )?stays? open": "dynamic sizes",
    r"differences? to the": "difference from the",
    r"with what there is": "with the available names",
    r"none sees nothing": "every token sees at least one",
    r"cut off by|may be cut off": "truncated",
    r"(?<!re)trainings of": "models trained, training runs of",
    r"as far as the (?:model|architecture)": "if the model has, uses",
    r"tokens alone are\b": "alone take",
    r"less is better": "lower is better",
    r"found a text\b|allowed: text,": "a string, strings",
    r"(?:during|stopped|uninterrupted) a training\b(?! run)|uninterrupted training\b": "training, a training run",
}
TEXTS = [path for pattern in ("*.md", "docs/*.md", "examples/*.yaml", "nas/**/*.md", "nas/stages/report/*.js",
                              "nas/stages/report/*.html", "supernet/**/*.md", "search_spaces/**/*.md",
                              "hardware_profiles/**/*.md", "hardware_profiles/*.yaml", "search_spaces/*.yaml")
         for path in sorted(ROOT.glob(pattern))]
SOURCES = [path for package in ("search_spaces", "supernet", "hardware_profiles", "nas", "examples")
           for path in sorted((ROOT / package).rglob("*.py"))]


def texts(path: Path) -> list[str]:
    """The strings of a Python file, docstrings included; an example or a file of another type as a whole."""
    content = path.read_text("utf-8")
    if path.suffix != ".py" or path.parent.name == "examples":
        return [content]
    return [node.value for node in ast.walk(ast.parse(content))
            if isinstance(node, ast.Constant) and isinstance(node.value, str)]


@pytest.fixture(scope="module")
def everything() -> dict[str, str]:
    return {str(path.relative_to(ROOT)): " ".join(" | ".join(texts(path)).split()) for path in (*TEXTS, *SOURCES)}


@pytest.mark.parametrize("phrase", INSTEAD)
def test_phrase_is_not_used(phrase: str, everything: dict[str, str]) -> None:
    wanted = re.compile(phrase, re.IGNORECASE)
    hits = [f"{name}: {match[0]!r}" for name, text in everything.items() for match in wanted.finditer(text)]
    assert not hits, f"instead write: {INSTEAD[phrase]}\n" + "\n".join(hits)
