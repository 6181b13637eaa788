"""`nas extract`, `generate`, `classify` and `translate`, and what is done to a subnet: from the front to a model."""

from __future__ import annotations

SUBNETS = "Subnets"
