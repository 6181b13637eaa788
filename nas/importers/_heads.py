"""The head that a task needs, on a model that may have another one."""

from __future__ import annotations

from dataclasses import replace

from nas.importers._base import ImportWishes, NotExpressibleError
from nas.importers._building import make_block
from nas.importers._config import PretrainedSettings
from nas.importers._registry import by_model_type
from search_spaces import Architecture, InputError
from search_spaces.block import BlockConfig

NEW_CLASSES = 2
"""Number of classes of a new classifier until the data determine it."""


def with_task_head(arch: Architecture, head: str, n_classes: int = NEW_CLASSES, model_type: str = "") -> Architecture:
    """An architecture with a head of that kind: its own, that of the stock class, or a plain one.

    Args:
        head: the kind of head; empty for its own.
        n_classes: of a classifier.
        model_type: of the checkpoint that the model was imported from, if any. The head is then the one that its
            class in transformers has, so that it can be exported as that class.
    """
    classes = n_classes if head == "classifier" else 0
    if not head or (arch.head.kind, arch.n_classes) == (head, classes):
        return arch
    if arch.head.kind == head:
        return replace(arch, n_classes=classes)
    block = _stock_head(arch, head, model_type) or make_block(
        (head, {}), replace(arch.head_facts(), n_classes=classes))
    return replace(arch, head=block, n_classes=classes)


def _stock_head(arch: Architecture, head: str, model_type: str) -> BlockConfig | None:
    """The head of a class in transformers; None if it cannot hold the architecture."""
    if not model_type:
        return None
    try:
        importer = by_model_type(model_type, model_type)
        config = {**importer.write(arch, model_type), "id2label": {str(i): str(i) for i in range(NEW_CLASSES)}}
        return importer.read(PretrainedSettings(config, model_type), frozenset(), ImportWishes(head)).arch.head
    except (NotExpressibleError, InputError, KeyError, ValueError):
        return None
