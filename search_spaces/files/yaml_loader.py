"""A YAML loader for values that JSON has too: text, numbers, true, false, null, lists and tables."""

from __future__ import annotations

import re
from collections.abc import Hashable
from typing import Any

import yaml

MOST_DEPTH = 100
"""Maximum nesting of lists and tables; shipped files have about ten levels."""
MOST_REPEATED = 100_000
"""Maximum number of values that aliases and merge keys may add.

Nine levels of nine aliases make 400 million values in a file of a few lines.
"""
GREATEST = 2**63
"""Exclusive upper bound of whole numbers; larger ones fit in no index and no tensor."""
_TAG = "tag:yaml.org,2002:"


class PlainLoader(yaml.SafeLoader):
    """Refuses duplicate keys, other types than JSON's, deep nesting, and aliases that multiply."""

    depth = 0

    def compose_node(self, parent: yaml.Node | None, index: Any) -> yaml.Node | None:
        """The next node; called recursively for nested nodes."""
        self.depth += 1
        try:
            if self.depth > MOST_DEPTH:
                raise refused(f"nested too deeply; allowed: {MOST_DEPTH} "
                              "levels", self.peek_event())  # type: ignore[no-untyped-call]
            return super().compose_node(parent, index)
        finally:
            self.depth -= 1

    def construct_document(self, node: yaml.Node) -> Any:
        """The value of a document whose aliases are known not to multiply."""
        written, expanded = set[int](), dict[int, int]()
        _count(node, written, expanded)
        repeated = expanded[id(node)] - len(written)
        if repeated > MOST_REPEATED:
            raise refused(f"aliases repeat {repeated:,} values; allowed: {MOST_REPEATED:,}", node)
        return super().construct_document(node)

    def construct_mapping(self, node: yaml.Node, deep: bool = False) -> dict[Hashable, Any]:
        """The table of a node, its keys read first to see that none repeats."""
        if not isinstance(node, yaml.MappingNode):
            raise refused("not a table of keys", node)
        seen: set[object] = set()
        for key_node, _ in node.value:
            if key_node.tag == f"{_TAG}merge":
                continue
            key = self.construct_object(key_node, deep=True)
            if not isinstance(key, Hashable):
                raise refused("a key must be a string or a number", key_node)
            if key in seen:
                raise refused(f"duplicate key {str(key)[:60]!r}", key_node)
            seen.add(key)
        return super().construct_mapping(node, deep)

    def construct_object(self, node: yaml.Node, deep: bool = False) -> Any:
        """The value of a node; the library itself fails on `!!bool x` or `!!int ''`."""
        try:
            return super().construct_object(node, deep)
        except (ValueError, TypeError, ArithmeticError, AttributeError, LookupError) as error:
            raise refused(f"{str(node.value)[:60]!r} cannot be read as {node.tag.rpartition(':')[2]}", node) from error

    def construct_yaml_int(self, node: yaml.ScalarNode) -> int:
        """A whole number that fits 64 bits."""
        if len(node.value) > 100 or abs(number := super().construct_yaml_int(node)) >= GREATEST:
            raise refused(f"the number {node.value[:12]}... is too large", node)
        return number

    def construct_yaml_str(self, node: yaml.ScalarNode) -> str:
        """A text that can be written to a file."""
        text = str(self.construct_scalar(node))
        if not is_text(text):
            raise refused(f"{text[:60]!r} contains a character that is not text", node)
        return text

    def construct_undefined(self, node: yaml.Node) -> Any:
        """Refuse a value of any other type."""
        raise refused(f"a value of the type {node.tag.replace(_TAG, '!!')[:60]} is not allowed; allowed: strings, "
                      "numbers, true, false, null, lists and tables", node)


def _plain() -> None:
    """Leave the constructors and implicit types that JSON has; numbers of base 60 (`190:20:30`) are text."""
    kept = [f"{_TAG}{name}" for name in ("null", "bool", "float", "seq", "map")]
    PlainLoader.yaml_constructors = {tag: yaml.SafeLoader.yaml_constructors[tag] for tag in kept}
    PlainLoader.add_constructor(f"{_TAG}int", PlainLoader.construct_yaml_int)
    PlainLoader.add_constructor(f"{_TAG}str", PlainLoader.construct_yaml_str)
    PlainLoader.add_constructor(None, PlainLoader.construct_undefined)
    kinds = {f"{_TAG}{name}" for name in ("null", "bool", "merge")}
    PlainLoader.yaml_implicit_resolvers = {
        first: [(tag, pattern) for tag, pattern in known if tag in kinds]
        for first, known in yaml.SafeLoader.yaml_implicit_resolvers.items()}
    PlainLoader.add_implicit_resolver(f"{_TAG}float", re.compile(
        r"^(?:[-+]?[0-9][0-9_]*\.[0-9_]*(?:[eE][-+][0-9]+)?|\.[0-9][0-9_]*(?:[eE][-+][0-9]+)?"
        r"|[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN))$"), list("-+0123456789."))
    PlainLoader.add_implicit_resolver(f"{_TAG}int", re.compile(
        r"^(?:[-+]?0b[0-1_]+|[-+]?0[0-7_]+|[-+]?(?:0|[1-9][0-9_]*)|[-+]?0x[0-9a-fA-F_]+)$"), list("-+0123456789"))


def _count(node: yaml.Node, written: set[int], expanded: dict[int, int]) -> int:
    """Number of values of a node once its aliases are resolved; `written` gets each node once."""
    known = expanded.get(id(node))
    if known is not None:
        return known
    if id(node) in written:
        raise refused("an alias refers to a value that contains it", node)
    written.add(id(node))
    inside: list[yaml.Node] = []
    if isinstance(node, yaml.MappingNode):
        inside = [child for pair in node.value for child in pair]
    elif isinstance(node, yaml.SequenceNode):
        inside = node.value
    total = expanded[id(node)] = 1 + sum(_count(child, written, expanded) for child in inside)
    return total


def is_text(text: str) -> bool:
    """Whether a text has no half of a surrogate pair, which UTF-8 cannot hold, and no null character."""
    return "\0" not in text and not any("\ud800" <= sign <= "\udfff" for sign in text)


def refused(problem: str, node: Any) -> yaml.YAMLError:
    """An error at a node or event."""
    return yaml.constructor.ConstructorError(None, None, problem, node.start_mark)


_plain()
