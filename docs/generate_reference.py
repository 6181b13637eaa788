"""Writes docs/reference.md, docs/commands.md and docs/api.md from the code that they describe: `make docs`."""

from __future__ import annotations

import inspect
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import typer
from pydantic import BaseModel

from hardware_profiles import device as profile
from hardware_profiles import runtimes, transports
from nas import api, tasks
from nas.cli import app
from nas.core.search_config import SearchConfig
from nas.pipeline import config as pipeline
from nas.stages.compress.techniques import techniques
from nas.stages.export import formats
from nas.stages.retrain.config import NEEDS, RetrainConfig
from nas.stages.search import samplers
from nas.terminal import tables
from search_spaces.files import schema as file_schema
from supernet.train.recipe import BUDGETS, Recipe

HERE = Path(__file__).parent
NOTE = "<!-- Written by docs/generate_reference.py: change the code that it reads, then run make docs. -->\n"
Part = tuple[str, str, type[BaseModel], tuple[str, ...]]
"""A heading, what to say below it, the model whose keys are listed, and which of them (none: all)."""
BOUNDS = {"minimum": "at least {}", "exclusiveMinimum": "more than {}", "maximum": "at most {}",
          "exclusiveMaximum": "less than {}"}
TYPES = {"boolean": "true or false", "integer": "a whole number", "number": "a number", "string": "a string",
         "object": "a table"}

SPACE = (
    ("A space", "The whole file.", file_schema.SpaceFile, ()),
    ("encoder and decoder", "A stack of layers. An `lm` has a decoder, an `encoder` an encoder, a `seq2seq` both.",
     file_schema.StackFile, ()),
    ("depth", "Which slots of a stack are kept.", file_schema.DepthFile, ()),
    ("layers", "One layer type: the allowed blocks of its parts.", file_schema.LayerFile, ()),
    ("scaling", "How dims with the value `scaled` grow from block to block.", file_schema.ScalingFile, ()),
)
DEVICE = (
    ("A device", "The whole file.", profile.Device, ()),
    ("timing", "How workloads are timed.", profile.TimingSettings, ()),
    ("specification", "For a device that is not available: its latencies are estimated, and marked as estimated.",
     profile.Specification, ()),
)
PIPELINE = (
    ("A pipeline", "The file that `nas init` writes and `nas run` reads.", pipeline.PipelineConfig, ()),
    ("devices", "A list of these.", pipeline.DevicePart, ()),
    ("pick", "One of these, or a list.", pipeline.PickPart, ()),
    ("retrain", "How the selected architectures are retrained.", pipeline.RetrainPart, ()),
    ("export", "A list of these.", pipeline.ExportPart, ()),
)


def reference() -> str:
    """The page of all keys."""
    return "\n".join([
        NOTE, "# Configuration keys", "",
        "The keys of all files, and the settings of training, search and retraining. A key without a default is "
        "required.", "",
        "## Space files", "",
        "The allowed architectures. A dimension is a single value (fixed) or a list (searched). Inside a stack, a list "
        "is a separate choice for each slot; `{global: [...]}` is one choice for all slots, and "
        "`{by_slot: [[...], ...]}` has a separate list for each slot.", "",
        *_parts(SPACE), *_blocks(),
        "## Device files", "",
        "What a latency depends on, besides the architecture. [How to profile a device](profile_my_device.md).", "",
        *_parts(DEVICE), *_transports(), *_runtimes(),
        "## Pipeline files", "", *_parts(PIPELINE),
        "## Tasks", "",
        "What `task` of a pipeline file and `--task` of [nas train](commands.md#nas-train) take. Packages add tasks "
        "with the entry-point group `nas.tasks`.", "", *_tasks(),
        "## Search settings", "",
        "Under `search` of a pipeline file, and options of [nas search](commands.md#nas-search) of the same names "
        "(`objectives` is `--objective`, `devices` is `--device`, repeated for each value). In a pipeline file, the "
        "devices are under `devices`.", "",
        *_keys(SearchConfig), "", *_samplers(),
        "## Training settings", "",
        "Under `training` of a pipeline file, and `--set KEY=VALUE` of [nas train](commands.md#nas-train).", "",
        *_keys(Recipe), "",
        "The length of supernet training can also be set by a budget instead of `steps`: "
        + "; ".join(f"`{name}`: {text}" for name, text in BUDGETS.items())
        + ". Strategies with equal budgets cost the same.", "",
        "## Retraining settings", "",
        "`--set KEY=VALUE` of [nas retrain](commands.md#nas-retrain), in addition to the training settings, and under "
        "`retrain.training` of a pipeline file.", "",
        *_keys(RetrainConfig, tuple(NEEDS)), "",
        "## Compression techniques", "",
        "Options of [nas compress](commands.md#nas-compress), and keys of `technique` of "
        "[api.compress](api.md#compress). Packages add techniques with the entry-point group `nas.techniques`.", "",
        *_techniques(),
        "## Export formats", "",
        "What `--format` of [nas export](commands.md#nas-export) takes. Packages add formats with the entry-point "
        "group `nas.formats`.", "", *_formats()])


def _parts(parts: tuple[Part, ...]) -> Iterator[str]:
    for title, text, model, some in parts:
        yield from (f"### {title}", "", text, "", *_keys(model, some), "")


def _keys(model: type[BaseModel], some: tuple[str, ...] = ()) -> Iterator[str]:
    """A row for each key of a model."""
    schema = model.model_json_schema()
    described = model.__module__ == file_schema.__name__  # there the description says what is allowed
    yield "| key | default | description |" if described else "| key | default | allowed | description |"
    yield "|---|---|---|" if described else "|---|---|---|---|"
    for key, field in schema["properties"].items():
        if some and key not in some:
            continue
        default = _default(field) if key not in schema.get("required", ()) else ""
        allowed = "" if described else f"{_allowed(field, schema.get('$defs', {}))} | "
        yield f"| `{key}` | {default} | {allowed}{_cell(field.get('description', ''))} |"


def _default(field: dict[str, Any]) -> str:
    value = field.get("default")
    if value is None:
        return "none" if "default" in field or field.get("type") != "object" else "`{}`"
    return f"`{_cell(value if isinstance(value, str) else json.dumps(value))}`" if value != "" else "none"


def _allowed(field: dict[str, Any], defs: dict[str, Any]) -> str:
    """A JSON schema in words."""
    if "$ref" in field:
        return "a table"
    if "anyOf" in field:
        options = list(dict.fromkeys(_allowed(option, defs) for option in field["anyOf"]))
        return (", or " if any("," in option for option in options) else " or ").join(options)
    if "const" in field or "enum" in field:
        return ", ".join(f"`{value}`" for value in field.get("enum", [field.get("const")]))
    if field.get("type") == "null":
        return "`null`"
    if field.get("type") == "array":
        items = _allowed(field.get("items", {}), defs)
        return f"a list of {items.removeprefix('a ')}s" if items in ("a string", "a table") else f"a list: {items}"
    limits = {name: f"{field[name]:g}" for name in BOUNDS if name in field and abs(field[name]) < 1e6}
    if set(limits) == {"minimum", "maximum"}:
        return f"{TYPES[field['type']]} from {limits['minimum']} to {limits['maximum']}"
    bounds = [words.format(limits[name]) for name, words in BOUNDS.items() if name in limits]
    return ", ".join([TYPES.get(field.get("type", ""), "anything"), *bounds])


def _cell(text: str) -> str:
    """A text inside a table."""
    return text.replace("|", "\\|").replace("\n", " ")


def _blocks() -> Iterator[str]:
    yield from ("### Blocks", "",
                "The values of `embedding`, `mixer`, `cross`, `ffn`, `between` and `head`: a kind, and a value or a "
                "list for each of its dims. You can [add kinds](own_block.md).", "")
    for kind in tables.blocks_data(None):
        yield from (f"#### {kind['kind']}", "", f"*{kind['role']}*: {kind['help']}.", "")
        if kind["dims"]:
            yield from ("| dim | default | allowed | description |", "|---|---|---|---|")
        for dim in kind["dims"]:
            default = "" if dim["default"] is None else f"`{str(dim['default']).lower()}`"
            yield f"| `{dim['name']}` | {default} | {_cell(dim['allowed'])} | {_cell(dim['help'])} |"
        yield ""


def _transports() -> Iterator[str]:
    yield from ("### transport", "", "`kind` selects the transport; the other keys depend on it. Packages add "
                "transports with the entry-point group `nas.transports`.", "")
    for name in transports.names():
        settings = transports.get(name).SETTINGS
        yield from (f"#### {name}", "", f"For {transports.get(name).HELP}.", "")
        if settings.model_fields:
            yield from (*_keys(settings), "")


def _runtimes() -> Iterator[str]:
    yield from ("### runtime", "", "| runtime | precisions | options |", "|---|---|---|")
    for name in runtimes.names():
        runtime = runtimes.get(name)
        options = ", ".join(f"`{option}`" for option in runtime.OPTIONS) or "none"
        yield f"| `{name}` | {', '.join(runtime.PRECISIONS)} | {options} |"
    yield from (f"| `{runtimes.ROOFLINE}` | any | needs a `specification` |", "")


def _tasks() -> Iterator[str]:
    yield from ("| task | description | family | columns | metrics | run a model |", "|---|---|---|---|---|---|")
    for task in map(tasks.get, tasks.names()):
        columns, metrics = (", ".join(f"`{entry}`" for entry in names) for names in (task.roles, task.metrics))
        use = f"[nas {task.command}](commands.md#nas-{task.command})"
        yield f"| `{task.name}` | {task.help} | `{task.family}` | {columns} | {metrics} | {use} |"
    yield ""


def _samplers() -> Iterator[str]:
    yield from ("Packages add samplers with the entry-point group `nas.samplers`.", "", "| sampler | description |",
                "|---|---|")
    yield from (f"| `{name}` | {_cell(samplers.get(name).HELP)} |" for name in samplers.names())
    yield ""


def _techniques() -> Iterator[str]:
    for name, technique in techniques().items():
        yield from (f"### {name}", "", f"{technique.help}.", "")
        if technique.model_fields:
            yield from (*_keys(technique), "")


def _formats() -> Iterator[str]:
    yield from ("| format | description | length and batch | int8 |", "|---|---|---|---|")
    for name in formats.names():
        writer = formats.get(name)
        sizes, int8 = "any" if writer.DYNAMIC else "fixed", "yes" if writer.INT8 else "no"
        yield f"| `{name}` | {_cell(writer.HELP)} | {sizes} | {int8} |"
    yield ""


def commands() -> str:
    """The page of all commands."""
    group: Any = typer.main.get_command(app)
    lines = [NOTE, "# Commands", "",
             "The help of all commands on one page. Exit codes: 0 done, 1 a check failed, 2 invalid input (one "
             "sentence for each error), 130 stopped by Ctrl-C. `nas --install-completion` installs shell completion "
             "of commands and names.", ""]
    panel = ""
    for name, command in group.commands.items():
        if command.rich_help_panel != panel:
            panel = command.rich_help_panel
            lines += [f"## {panel}", ""]
        lines += [f"### nas {name}", "", *_command(command)]
    return "\n".join(lines)


def _command(command: Any) -> Iterator[str]:
    text, _, example = re.sub(r"\[/?cyan\]", "", command.help).partition("Example:")
    yield from (" ".join(part.split()) + "\n" for part in text.strip().split("\n\n"))
    yield from ("```sh", re.sub(r"^Example: ", "", example.strip(), flags=re.MULTILINE), "```", "")
    shown = [param for param in command.get_params(typer.Context(command)) if param.name != "help"]
    if shown:
        yield from ("| option | default | description |", "|---|---|---|")
    for param in shown:
        default = "" if param.required or param.default in (None, False) else f"`{param.default}`"
        yield f"| {_option(param)} | {default} | {_cell(param.help or '')} |"
    yield ""


def _option(param: Any) -> str:
    if param.param_type_name == "argument":
        return f"`{_cell(param.metavar or param.name)}`"
    names = ", ".join((*param.opts, *param.secondary_opts))
    return f"`{names}`" if param.is_flag else f"`{names} {_cell(param.metavar or '')}`"


def functions() -> str:
    """The page of nas.api."""
    lines = [NOTE, "# Python functions", "", *_docstring(api), "[Complete examples](python.md).", "", "```python",
             "from nas import api", "```", ""]
    for name, function in vars(api).items():
        if inspect.isfunction(function) and not name.startswith("_") and function.__module__ == api.__name__:
            lines += [f"## {name}", "", "```python", _signature(name, function), "```", "", *_docstring(function)]
    return "\n".join(lines)


def _signature(name: str, function: Any) -> str:
    """Of a function, one parameter a line."""
    signature = inspect.signature(function)
    lines = []
    for param in signature.parameters.values():
        if param.kind is param.KEYWORD_ONLY and "    *," not in lines:
            lines.append("    *,")
        default = "" if param.default is param.empty else f" = {param.default!r}"
        lines.append(f"    {param.name}: {param.annotation}{default},")
    return "\n".join([f"def {name}(", *lines, f") -> {signature.return_annotation}: ..."])


def _docstring(of: Any) -> Iterator[str]:
    """A Google docstring as Markdown: its sections are lists."""
    for line in (inspect.getdoc(of) or "").splitlines():
        if line in ("Args:", "Raises:", "Returns:"):
            yield from (f"**{line}**", "")
        elif match := re.match(r" {4}(\w+): (.*)", line):
            yield f"- `{match[1]}`: {match[2]}"
        else:
            yield line.strip() if not line.startswith(" " * 8) else f"  {line.strip()}"
    yield ""


PAGES = {"reference.md": reference, "commands.md": commands, "api.md": functions}

if __name__ == "__main__":
    for name, write in PAGES.items():
        (HERE / name).write_text(write(), encoding="utf-8")
