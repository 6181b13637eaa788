"""Ordering the channels of a supernet by importance: see `order`."""

from supernet.train.ordering.order import OrderReport, order

__all__ = ["OrderReport", "order"]
