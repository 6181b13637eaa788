"""`nas generate`, `predict`, `classify` and `translate`: run a subnet."""

from __future__ import annotations

import io
import sys
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Annotated

import typer

from nas.cli._app import SUBNETS, Json, SubnetName, app, screen, show_result, show_text

if TYPE_CHECKING:
    from nas.core.progress import StageProgress

Texts = Annotated[list[str], typer.Argument(
    metavar="TEXT...", show_default=False, help="One or more texts; - reads lines from standard input.")]


@app.command(rich_help_panel=SUBNETS)
def generate(
    subnet: SubnetName,
    text: Annotated[str, typer.Argument(metavar="TEXT", show_default=False, help="The prompt.")],
    tokens: Annotated[int, typer.Option("--tokens", metavar="N", min=1, help="Maximum number of new tokens.")] = 100,
    temperature: Annotated[float, typer.Option(
        "--temperature", metavar="T", min=0.0, help="Sampling temperature; 0 takes the most probable token.")] = 0.8,
    top_k: Annotated[int | None, typer.Option("--top-k", metavar="K", min=1, show_default=False,
                                              help="Sample from the K most probable tokens only.")] = None,
    seed: Annotated[int | None, typer.Option("--seed", metavar="S", min=0, show_default=False,
                                             help="Random seed; the same seed generates the same text.")] = None,
    as_json: Json = False,
) -> None:
    """Generate text.

    Example: [cyan]nas generate first/7b9f "The function returns" --tokens 40 --seed 1[/cyan]
    """
    from nas.stages.use.request import GenerateRequest
    from nas.stages.use.run import generate as stage
    from nas.stages.use.view import generated_data, generated_text

    result = stage(GenerateRequest(subnet, text, tokens, temperature, top_k, seed), _notes())
    if as_json:
        show_result(generated_data(result))
    else:
        show_text(generated_text(result))


@app.command(rich_help_panel=SUBNETS)
def predict(subnet: SubnetName, texts: Texts, as_json: Json = False) -> None:
    """Run a model on texts and print its predictions.

    Example: [cyan]nas predict scores/7b9f "a fine film" "a dull one"[/cyan]
    """
    _answer(subnet, texts, as_json)


@app.command(rich_help_panel=SUBNETS)
def classify(subnet: SubnetName, texts: Texts, as_json: Json = False) -> None:
    """Classify texts, with probabilities.

    Example: [cyan]nas classify reviews/7b9f "a fine film" "a dull one"[/cyan]
    """
    _answer(subnet, texts, as_json, "classify")


@app.command(rich_help_panel=SUBNETS)
def translate(subnet: SubnetName, texts: Texts, as_json: Json = False) -> None:
    """Translate texts.

    Example: [cyan]nas translate numbers/7b9f "zweiundvierzig"[/cyan]
    """
    _answer(subnet, texts, as_json, "translate")


def _answer(subnet: str, texts: list[str], as_json: bool, command: str | None = None) -> None:
    from nas.stages.use.request import PredictRequest
    from nas.stages.use.run import predict as stage
    from nas.stages.use.view import answer_lines, answers_data

    answers = stage(PredictRequest(subnet, _lines(texts), command), _notes())
    if as_json:
        show_result(answers_data(answers))
        return
    for line in answer_lines(answers):
        show_text(line)


def _notes() -> StageProgress:
    """Prints notes on stderr; Ctrl-C aborts."""
    from nas.terminal.progress import TerminalProgress

    return TerminalProgress(screen(as_json=True))


def _lines(texts: Iterable[str]) -> Iterator[str]:
    """The texts, and the lines of the standard input for `-`."""
    if isinstance(sys.stdin, io.TextIOWrapper):
        sys.stdin.reconfigure(errors="replace")
    for text in texts:
        if text == "-":
            yield from (line.rstrip("\n") for line in sys.stdin)
        else:
            yield text
