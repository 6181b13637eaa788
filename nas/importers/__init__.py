"""Importers: one file per family of pretrained models; README.md says what such a file holds."""

from __future__ import annotations

from nas.importers._base import HEADS, Importer, ImportWishes, NotExpressibleError, StockModel
from nas.importers._checkpoint import Checkpoint
from nas.importers._conversion import ImportedModel, convert, stock_models, stock_tensors
from nas.importers._heads import with_task_head
from nas.importers._hub import fetch
from nas.importers._registry import by_model_type, registry, usual_dropout

__all__ = ["HEADS", "Checkpoint", "ImportWishes", "ImportedModel", "Importer", "NotExpressibleError", "StockModel",
           "by_model_type", "convert", "fetch", "registry", "stock_models", "stock_tensors",
           "usual_dropout", "with_task_head"]
