"""Shows the ranking report in a terminal."""

from __future__ import annotations

from rich.console import Group, RenderableType
from rich.text import Text

from nas.core.rankings import INHERITED
from nas.core.rankings import PREDICTOR_WORDS as WORDS
from nas.stages.rank.statistics import Comparison, RankingReport
from nas.terminal.tables import table


def report_table(report: RankingReport) -> RenderableType:
    """The report for a terminal: a table for all architectures, one for those of equal cost, and what follows."""
    parts: list[RenderableType] = [
        Text(f"each was trained from scratch for {report.steps:,} steps, the supernet for {report.supernet_steps:,}")]
    for title, comparison in (("all", report.overall), ("of nearly equal MACs", report.band)):
        heading = Text(f"{comparison.n} architectures, {title}", style="bold")
        parts += [heading, _figures(comparison), *_sentences(comparison), Text("")]
    if report.noise:
        parts.append(Text(f"standard deviation of the loss over seeds: "
                          f"{report.noise.sigma:.4f} nats ({report.noise.repeats} pairs of training runs)"))
    if report.dropped:
        parts.append(Text(f"{report.dropped} architectures are excluded: a loss was not finite"))
    return Group(*parts)


def _figures(comparison: Comparison) -> RenderableType:
    result = table("ranked by", "Kendall tau", "95 % interval", "Spearman", "supernet better by", "95 % interval ",
                   right=("Kendall tau", "95 % interval", "Spearman", "supernet better by", "95 % interval "))
    better = {difference.baseline: difference for difference in comparison.differences}
    for figure in comparison.figures:
        other = better.get(figure.name)
        more = (_number(other.tau), _range(other.low, other.high)) if other else ("", "")
        result.add_row(WORDS[figure.name], _number(figure.tau), _range(figure.low, figure.high),
                       _number(figure.spearman), *more)
    return result


def _sentences(comparison: Comparison) -> list[Text]:
    lines = []
    if comparison.ceiling:
        lines.append(Text(f"a perfect predictor would reach {comparison.ceiling.perfect:.2f} "
                          f"({_range(comparison.ceiling.low, comparison.ceiling.high)}): the rest is seed noise"))
    if comparison.figure(INHERITED).tau is None:
        return [Text("too few or too similar to rank")]
    equal = [WORDS[difference.baseline] for difference in comparison.differences if difference.tau is None]
    if equal:
        lines.append(Text(f"equal for all, so excluded as baselines: {', '.join(equal)}"))
    unbeaten = [WORDS[difference.baseline] for difference in comparison.differences
                if difference.tau is not None and not difference.above_zero]
    if unbeaten:
        lines.append(Text(f"not significantly better than: {', '.join(unbeaten)}", style="yellow"))
    else:
        lines.append(Text("the supernet ranks better than every baseline, with 95 % confidence", style="green"))
    return lines


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:.2f}"


def _range(low: float | None, high: float | None) -> str:
    return "-" if low is None or high is None else f"{low:.2f} to {high:.2f}"
