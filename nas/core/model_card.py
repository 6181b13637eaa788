"""The model card of a subnet: `README.md` in its folder."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from nas import tasks
from nas.core.commands import shell_command
from nas.core.costs import count_params
from nas.core.layer_rows import drawing
from nas.core.measures import MARK, Measure, parse_measure
from nas.core.run_dir import write_text
from nas.tasks.base import Task
from search_spaces import Architecture
from search_spaces.errors import Command

if TYPE_CHECKING:
    from nas.core.subnet import Subnet

CARD = "README.md"
UNMEASURED = "of it interpolated or estimated"


def write_card(subnet: Subnet) -> None:
    """Write the card atomically."""
    write_text(subnet.path / CARD, card(subnet))


def card(subnet: Subnet, usage: Sequence[str] = ()) -> str:
    """The text of the card; empty sections are omitted.

    Args:
        usage: Python that runs an export, for the card of the export; by default, how to use the subnet's folder.
    """
    sections = (("", _opening(subnet)), ("Quality and cost", _figures(subnet)), ("Latency", _latencies(subnet)),
                ("History", _history(subnet)), ("Data", _data(subnet)),
                ("Exports", () if usage else _exports(subnet)), ("Architecture", _drawing(subnet.arch)),
                ("How to use it", ("```python", *usage, "```") if usage else _use(subnet)))
    parts = [(f"## {title}\n\n" if title else "") + "\n".join(lines) + "\n"
             for title, lines in ((title, list(lines)) for title, lines in sections) if lines]
    return "\n".join(parts)


def _opening(subnet: Subnet) -> Iterator[str]:
    arch, facts = subnet.arch, subnet.facts
    what = tasks.get(facts.task).title if facts.task else "Encoder"
    layers = " and ".join(f"{len(stack)} {name}" for name, stack in arch.stacks.items())
    yield f"# {what} {arch.key[:12]}\n"
    yield (f"{what} of {layers} layer{'s' if arch.depth > 1 else ''} with {count_params(arch):,} parameters, a "
           f"vocabulary of {arch.vocab_size:,} tokens and a context of {arch.context:,}, "
           f"{'imported' if facts.imported else 'found'} by Paretoformer.")
    yield f"Its full key is `{arch.key}`."


def _figures(subnet: Subnet) -> Iterator[str]:
    facts = subnet.facts
    rows = [(f"{name} (validation)", _number(value)) for name, value in facts.metrics.items()]
    for measure in _costs(subnet, tabled=False):
        value = facts.costs[measure.name]
        length = f" of {subnet.arch.context:,} tokens" if measure.kind.of_length else ""
        rows.append((f"{'predicted ' if measure.device else ''}{measure.label}{length}",
                     measure.show(value) if measure.device else f"{value:,.0f}"))
    yield from _table(("measure", "value"), rows, right=(1,))


def _costs(subnet: Subnet, tabled: bool) -> list[Measure]:
    """The measures of its costs: those predicted unit by unit, which have a separate table, or the others."""
    measures = (parse_measure(name, {}) for name in subnet.facts.costs)
    return [measure for measure in measures if measure.kind.partly_unmeasured == tabled]


def _latencies(subnet: Subnet) -> Iterator[str]:
    facts, rows = subnet.facts, []
    predicted = {measure.name: facts.costs[measure.name] for measure in _costs(subnet, tabled=True)}
    for name in dict.fromkeys((*predicted, *facts.measured)):
        measure, measured = parse_measure(name, {}), facts.measured.get(name)
        expected = measured.predicted_ms if measured else predicted[name]
        share = measured.unmeasured_share if measured else facts.unmeasured_share.get(name, 0.0)
        gap = f"{measured.measured_ms / expected - 1:+.1%}" if measured and expected else ""
        rows.append((measure.device or "", measure.phase, "" if expected is None else measure.show(expected, share),
                     f"{100 * share:.1f} %" if share else "",
                     measure.show(measured.measured_ms) if measured else "", gap,
                     _settings_text(measured.conditions) if measured else ""))
    head = ("device", "phase", "predicted", UNMEASURED, "measured", "difference from predicted", "conditions")
    yield from _table(head, rows, right=(2, 3, 4, 5))
    if any(row[3] for row in rows):
        yield (f"\n{MARK}: the column \"{UNMEASURED}\" is the share of the prediction that is based on units that "
               "were not measured: their latency is interpolated, or estimated from a specification.")


def _history(subnet: Subnet) -> Iterator[str]:
    steps = subnet.facts.made
    metrics = list(dict.fromkeys(name for step in steps for name in step.metrics))
    rows = [(step.stage, _settings_text(step.settings), *(_number(step.metrics.get(name)) for name in metrics))
            for step in steps]
    names = [f"{name} after the step" for name in metrics]
    yield from _table(("step", "settings", *names), rows, right=range(2, 2 + len(names)))


def _data(subnet: Subnet) -> Iterator[str]:
    facts = subnet.facts
    if not facts.run:
        yield f"Trained elsewhere; imported from `{facts.made[0].settings.get('source')}`."
        return
    given = ", ".join(f"`{name}={value}`" for name, value in facts.data.items())
    yield (f"Trained and evaluated for the task {facts.task} on {given}." if given else
           f"Trained and evaluated for the task {facts.task} on the sample data bundled with Paretoformer.")
    if facts.scale:
        mean, deviation = facts.scale
        yield f"Its output is standardised: the label is {mean:.6g} + {deviation:.6g} x output."
    elif facts.labels:
        yield f"Its classes are {', '.join(facts.labels[:20])}{', ...' if len(facts.labels) > 20 else ''}."


def _exports(subnet: Subnet) -> Iterator[str]:
    yield from _table(("format", "details"),
                      [(name, _settings_text(known)) for name, known in subnet.facts.exports.items()])


def _drawing(arch: Architecture) -> Iterator[str]:
    yield "```text"
    yield from drawing(arch)
    yield "```"


def _use(subnet: Subnet) -> Iterator[str]:
    task = tasks.get(subnet.facts.task) if subnet.facts.task else None
    yield "With Paretoformer installed, in this folder:\n"
    yield "```python"
    yield from _snippet(task, subnet)
    yield "```\n"
    yield "On the command line:\n"
    yield "```sh"
    if task:
        yield f'nas {task.command} . "{task.sample}"'
    if subnet.facts.run:
        yield f"{shell_command(Command('evaluate', '.', split='test'))}    # needs the data of its run"
    else:
        yield shell_command(Command("export", ".", format="onnx"))
    yield "```"


def _snippet(task: Task | None, subnet: Subnet) -> Iterator[str]:
    """Python that loads the model and runs it once."""
    if task is None or subnet.facts.brings_tokenizer:
        lines = list(_imported_snippet(subnet.arch, subnet.facts.specials))
    else:
        lines = list(task.snippet(subnet.arch))
    yield from (["import json\n"] if any("json." in line for line in lines) else [])
    yield from ("import torch", "from tokenizers import Tokenizer", "", "from supernet import Transformer", "")
    yield 'model = Transformer.from_pretrained(".")    # an ordinary torch.nn.Module in eval mode'
    yield 'tokenizer = Tokenizer.from_file("tokenizer.json")'
    yield from lines


def _imported_snippet(arch: Architecture, specials: Mapping[str, int]) -> Iterator[str]:
    """The tokenizer of an imported model adds special tokens by itself."""
    yield 'ids = torch.tensor([tokenizer.encode("a text").ids])'
    if arch.family == "encoder":
        yield "print(model(ids).shape)"
        return
    n = max(min(20, arch.context - 8), 1) if arch.family == "lm" else arch.context // 2
    begin = f", begin={specials.get('begin', specials.get('bos', 0))}" if arch.family == "seq2seq" else ""
    stop = f", stop={specials['eos']}" if "eos" in specials else ""
    yield f"written = model.generate(ids, {n}{begin}{stop})"
    yield "print(tokenizer.decode(written[0].tolist()))"


def _table(head: Sequence[str], rows: Sequence[Sequence[str]], right: Sequence[int] = ()) -> Iterator[str]:
    """A Markdown table without empty columns; empty if there are no rows."""
    if not rows:
        return
    kept = [i for i in range(len(head)) if any(row[i] for row in rows)]
    yield _row([head[i] for i in kept])
    yield _row(["---:" if i in right else "---" for i in kept])
    yield from (_row([row[i] for i in kept]) for row in rows)


def _row(cells: Sequence[str]) -> str:
    return "| " + " | ".join(cell.replace("|", "\\|").replace("\n", " ") for cell in cells) + " |"


def _settings_text(settings: Mapping[str, Any]) -> str:
    """Settings in a few words: `steps 300, teacher supernet`."""
    return ", ".join(f"{name.replace('_', ' ')} {_value(value)}" for name, value in settings.items()
                     if value not in (None, "", (), [], {}))


def _value(value: Any) -> str:
    if isinstance(value, Mapping):
        return f"({_settings_text(value)})"
    if isinstance(value, (list, tuple)):
        return ", ".join(map(_value, value))
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return str(value).lower() if isinstance(value, bool) else str(value)
    return _number(value)


def _number(value: float | None) -> str:
    if value is None:
        return ""
    return f"{value:,}" if isinstance(value, int) else f"{value:.4g}"
