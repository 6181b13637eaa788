"""Options of commands that come from declarations of techniques, formats, samplers and tasks.

They are read only when the command is used or its help is printed, because declarations import torch.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Mapping
from typing import Annotated, Any

import typer

from nas.cli._app import LoggedCommand
from nas.core.commands import shell_command
from search_spaces.errors import Command

TECHNIQUE = "technique"
"""Key of the technique's options in the context of a command."""


class CompressCommand(LoggedCommand):
    """Has the options of every technique, after the subnet."""

    declared: Mapping[str, Any] = {}
    """Options by the names of `make_technique`."""

    def get_params(self, ctx: Any) -> list[Any]:
        """All options."""
        if not self.declared:
            self.declared = _parameters(dict(_technique_options()))
            self.params[1:1] = self.declared.values()
            own = _by_field({name: technique.settings() for name, technique in _techniques().items()})
            listed = ", ".join(f"{field} (of {names})" for field, names in own.items())
            _param(self, "settings").help = (
                f"Setting, repeatable: {listed}, or a training setting (see {shell_command(Command('settings'))}). "
                "Default: those of the run, with a tenth of its steps and a lower lr; steps=0 skips training if the "
                "technique allows it.")
        return super().get_params(ctx)

    def invoke(self, ctx: Any) -> Any:
        """Call the command; the options of techniques are in the context's `meta`."""
        given = {name: ctx.params.pop(option.name) for name, option in self.declared.items()}
        ctx.meta[TECHNIQUE] = {name: value for name, value in given.items() if value is not None and value is not False}
        return super().invoke(ctx)


class ExportCommand(LoggedCommand):
    """Lists the formats in its help."""

    def get_params(self, ctx: Any) -> list[Any]:
        """All options."""
        from nas.stages.export import formats

        _param(self, "format_name").help = "; ".join(f"{name}: {formats.get(name).HELP}"
                                                     for name in formats.names()) + "."
        return super().get_params(ctx)


class SearchCommand(LoggedCommand):
    """Lists the samplers in its help."""

    def get_params(self, ctx: Any) -> list[Any]:
        """All options."""
        from nas.core.search_config import SearchConfig
        from nas.stages.search import samplers

        listed = "; ".join(f"{name}: {samplers.get(name).HELP}" for name in samplers.names())
        default = SearchConfig.model_fields["sampler"].default
        _param(self, "sampler").help = f"Sampling algorithm; default {default}. {listed}."
        return super().get_params(ctx)


class TrainCommand(LoggedCommand):
    """Lists the tasks in its help."""

    def get_params(self, ctx: Any) -> list[Any]:
        """All options."""
        from nas import tasks

        listed = "; ".join(f"{name}: {tasks.get(name).help}" for name in tasks.names())
        _param(self, "task").help = f"Task to train for. {listed}."
        return super().get_params(ctx)


def _techniques() -> dict[str, Any]:
    from nas.stages.compress.techniques import techniques

    return techniques()


def _param(command: LoggedCommand, name: str) -> Any:
    return next(param for param in command.params if param.name == name)


def _by_field(fields: dict[str, tuple[str, ...]]) -> dict[str, str]:
    """Field -> the flags of the techniques that have it."""
    return {field: " and ".join(f"--{name}" for name, own in fields.items() if field in own)
            for own in fields.values() for field in own}


def _technique_options() -> Iterator[tuple[str, Any]]:
    """Name and annotation of the options: those of a technique after the one that selects it."""
    known = _techniques()
    shared = _by_field({name: technique.options for name, technique in known.items()})
    for name, technique in known.items():
        takes = technique.model_fields[technique.value] if technique.value else None
        yield name, _annotation(name, takes, technique.value or "", f"{technique.help}.")
        for option in technique.options:
            field = technique.model_fields[option]
            default = "" if field.annotation is bool else f"; {field.default} by default"
            yield option, _annotation(option, field, "N", f"With {shared[option]}: {field.description}{default}.")


def _annotation(name: str, field: Any, metavar: str, text: str) -> Any:
    """A flag if there is no field, or a boolean one."""
    flag = f"--{name.replace('_', '-')}"
    if field is None or field.annotation is bool:
        return Annotated[bool, typer.Option(flag, help=text)]
    return Annotated[field.annotation | None, typer.Option(flag, metavar=metavar.upper(), show_default=False,
                                                           help=text)]


def _parameters(annotations: Mapping[str, Any]) -> dict[str, Any]:
    """The parameters of a command with these keyword arguments, as typer makes them."""
    def options(**given: Any) -> None:
        """Has the arguments below."""

    kinds = {name.replace("-", "_"): annotation for name, annotation in annotations.items()}
    options.__annotations__ = kinds
    options.__signature__ = inspect.Signature([  # type: ignore[attr-defined]
        inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, annotation=kind,
                          default=False if kind.__origin__ is bool else None) for name, kind in kinds.items()])
    app = typer.Typer(add_completion=False)
    app.command()(options)
    return dict(zip(annotations, typer.main.get_command(app).params))
