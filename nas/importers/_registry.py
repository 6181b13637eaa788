"""The installed importers: those of this folder, of packages (`nas.importers`) and of the user's files."""

from __future__ import annotations

from collections.abc import Iterable

from nas.importers._base import Importer
from search_spaces import InputError, plugins
from search_spaces.errors import Fault, did_you_mean, shown

FOLDER, GROUP = "nas.importers", "nas.importers"


@plugins.cached
def registry() -> dict[str, Importer]:
    """Every installed importer by name."""
    importers: dict[str, Importer] = {}
    owners: dict[str, str] = {}
    for plugin in plugins.extensions(FOLDER, GROUP, lambda module: hasattr(module, "IMPORTER")):
        plugins.check_holds(plugin, ("IMPORTER",), "importer")
        declared = plugin.module.IMPORTER
        if importers.setdefault(declared.name, declared) is not declared:
            raise InputError(plugin.where, f"an importer {declared.name} already exists; rename it")
        faults = list(_faults(declared, owners))
        if faults:
            raise InputError(plugin.where, faults)
    return importers


def _faults(declared: Importer, owners: dict[str, str]) -> Iterable[Fault]:
    for model_type in declared.model_types:
        if owners.setdefault(model_type, declared.name) != declared.name:
            yield Fault(declared.name, f"declares the model_type {model_type!r}, which {owners[model_type]} already "
                                       "declares")


def usual_dropout(model_type: str) -> float:
    """The default dropout rate of fine-tuning for a `model_type`, known or not."""
    return next((importer.dropout for importer in registry().values() if model_type in importer.model_types),
                Importer.dropout)


def by_model_type(model_type: object, where: str) -> Importer:
    """The importer of a `model_type`. Raises InputError with those that are known."""
    known = {name: importer for importer in registry().values() for name in importer.model_types}
    if isinstance(model_type, str) and model_type in known:
        return known[model_type]
    hint = did_you_mean(model_type, known) if isinstance(model_type, str) else ""
    raise InputError(where, [Fault("model_type", f"{shown(model_type)} is not supported; supported: "
                                                 f"{', '.join(sorted(known))}{hint}")])
