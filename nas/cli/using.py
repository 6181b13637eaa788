"""`nas generate`, `classify` and `translate`: see a subnet work."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from nas.cli._app import SUBNETS, Json, SubnetName, app, show_result, show_text

Texts = Annotated[list[str], typer.Argument(
    metavar="TEXT...", show_default=False, help="One or several; - reads lines from the standard input.")]


@app.command(rich_help_panel=SUBNETS)
def generate(
    subnet: SubnetName,
    text: Annotated[str, typer.Argument(metavar="TEXT", show_default=False, help="What to go on with.")],
    tokens: Annotated[int, typer.Option("--tokens", metavar="N", min=1, help="The most tokens to write.")] = 100,
    temperature: Annotated[float, typer.Option(
        "--temperature", metavar="T", min=0.0, help="0 takes the most probable token, more dares more.")] = 0.8,
    top_k: Annotated[int | None, typer.Option("--top-k", metavar="K", min=1, show_default=False,
                                              help="Draw among the K most probable tokens only.")] = None,
    seed: Annotated[int | None, typer.Option("--seed", metavar="S", min=0, show_default=False,
                                             help="The same seed writes the same text.")] = None,
    as_json: Json = False,
) -> None:
    """Let a language model go on with a text.

    Example: [cyan]nas generate first/7b9f "The function returns" --tokens 40 --seed 1[/cyan]
    """
    from nas import use

    found = use.generate(subnet, text, tokens, use.Drawing(temperature, top_k, seed))
    for note in found.notes:
        print(f"note: {note}", file=sys.stderr)
    if as_json:
        show_result(vars(found))
    else:
        show_text(found.prompt + found.text)


@app.command(rich_help_panel=SUBNETS)
def classify(subnet: SubnetName, texts: Texts, as_json: Json = False) -> None:
    """Say the class of texts, and how sure the model is.

    Example: [cyan]nas classify reviews/7b9f "a fine film" "a dull one"[/cyan]
    """
    from nas import use

    found = use.classify(subnet, texts)
    if as_json:
        show_result({"texts": [vars(each) for each in found]})
        return
    for each in found:
        show_text(f"{each.label}\t{each.probability:.3f}\t{each.text}")


@app.command(rich_help_panel=SUBNETS)
def translate(subnet: SubnetName, texts: Texts, as_json: Json = False) -> None:
    """Translate texts.

    Example: [cyan]nas translate numbers/7b9f "zweiundvierzig"[/cyan]
    """
    from nas import use

    found = use.translate(subnet, texts)
    if as_json:
        show_result({"texts": [vars(each) for each in found]})
        return
    for each in found:
        show_text(each.translation)
