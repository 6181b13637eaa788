"""What a block kind declares: its dims, the rules between them, and the module that runs it.

A kind is declared once, beside its module, in one file (`supernet/blocks/<kind>.py`). The YAML loader, sampling,
counting, slicing and extraction all read this declaration.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any

from search_spaces.errors import Fault

Value = int | float | bool | str
Dims = Mapping[str, Value]

FAMILIES = {"lm": ("decoder",), "encoder": ("encoder",), "seq2seq": ("encoder", "decoder")}
"""The families and the stacks each has."""
MOST_SLOTS = 512
"""The deepest stack."""
ROLES = ("embedding", "mixer", "cross", "ffn", "between", "restore", "head")
"""Positions of a block.

Kinds of role `restore` are not listed in space files: the kind between layers names its own.
"""
SKIP = "skip"
"""The kind that a space file lists if a layer may have no block after it; architectures omit it."""
NORMS = ("layernorm", "rmsnorm", "none")
NORM_EPS = {"layernorm": 1e-5, "rmsnorm": 1e-6}
"""What a norm adds to the variance where an architecture does not say."""
PLACEMENTS = ("pre", "post")
POSITIONS = ("learned", "sinusoidal", "rotary", "none")
GREATEST = 10**9
"""Maximum of every number of an architecture; a larger one is rejected as a typo."""


@dataclass(frozen=True)
class Facts:
    """Properties of the architecture that a block may use. A kind names the ones it uses."""

    width: int
    context: int
    vocab_size: int
    n_classes: int
    n_types: int
    causal: bool
    positions: str
    norm: str
    placement: str
    bias: bool
    sides: int = 1
    """2 where one embedding reads source and target tokens, else 1; for embeddings."""
    rank: int = 0
    """Width of the embedding table; for heads only."""
    projects: bool = False
    """Whether the embedding widens its table by one linear map; for heads only."""
    tables: str = "words"
    """What a head can tie to: `words`, one table of all words named `table`; `none`; or the bands of an adaptive
    embedding, see `supernet.layers.bands`. Known to heads only."""
    residual: str = "plain"
    norm_eps: float = 0.0
    """What norms add to the variance; 0 for the norm's default."""
    first: bool = True
    """Whether the block computes what later layers of its stack reuse; false if it reuses it. For kinds that share."""

    def pick(self, names: tuple[str, ...]) -> tuple[tuple[str, Value], ...]:
        """The named facts with their values; those of `OPTIONAL_FACTS` only where they differ from the default."""
        pairs = ((name, getattr(self, name)) for name in names)
        return tuple((name, value) for name, value in pairs if value != OPTIONAL_FACTS.get(name))

    def as_dict(self) -> dict[str, Value]:
        """Every fact by name."""
        return dict(vars(self))


OPTIONAL_FACTS: Dims = {"norm_eps": 0.0}
"""Facts that units leave out at their default, so that the keys and files of earlier versions stay valid."""


@dataclass(frozen=True)
class Expression:
    """A value written in terms of others, such as `4x` (the model width times four).

    Args:
        pattern: regular expression the whole text must match.
        needs: names of the facts and dims it is computed from.
        value: called with the match and those values.
        help: how to write it, for error messages and the reference.
    """

    pattern: str
    needs: tuple[str, ...]
    value: Callable[..., Any]
    help: str


FULL = Expression(r"full", ("width",), lambda _, width: width, "full (the model width)")
TIMES_WIDTH = Expression(
    r"(\d{1,9}(?:\.\d{1,9})?)x",
    ("width",),
    lambda match, width: Fraction(match[1]) * width,
    "a multiple of the model width such as 4x",
)
PER_HEAD = Expression(
    r"(width|\d{1,9})/n_heads",
    ("width", "n_heads"),
    lambda match, width, n_heads: Fraction(width if match[1] == "width" else int(match[1]), n_heads),
    "width/n_heads or a total such as 512/n_heads",
)
ALL_HEADS = Expression(r"n_heads", ("n_heads",), lambda _, n_heads: n_heads, "n_heads (one per query head)")
SCALED_DEPTH = Expression(
    r"scaled", ("scaled_depth",), lambda _, scaled_depth: scaled_depth, "scaled (block-wise scaling decides)"
)
SCALED_MULTIPLIER = Expression(
    r"scaled", ("scaled_multiplier",), lambda _, scaled_multiplier: scaled_multiplier,
    "scaled (block-wise scaling decides)",
)


@dataclass(frozen=True)
class Dim:
    """One parameter of a kind.

    Args:
        name: the keyword its module takes.
        type: `int`, `float`, `bool` or `str`.
        help: one line for the reference.
        default: the value used where a space does not mention the dim; None makes it mandatory.
        choices: the allowed words of a `str` dim.
        least: the smallest allowed number.
        most: the greatest allowed number.
        odd: whether the number has to be odd.
        at_most: another dim (declared earlier) this one is clipped to.
        optional: whether a block with the default leaves the dim out, so that adding the dim to a kind changes no
            key and no file of earlier versions.
        expressions: the ways of writing it in terms of other values.
    """

    name: str
    type: type
    help: str
    default: Value | None = None
    choices: tuple[str, ...] = ()
    least: float = 1
    most: float = GREATEST
    odd: bool = False
    at_most: str = ""
    expressions: tuple[Expression, ...] = ()
    optional: bool = False

    @property
    def allowed(self) -> str:
        """The allowed values in words."""
        if self.type is bool:
            return "true or false"
        if self.type is str:
            return "one of " + ", ".join(self.choices)
        words = ("an odd" if self.odd else "a") + (" whole number" if self.type is int else " number")
        words += f" from {self.least:g} to " + (f"{self.most:g}" if self.most < GREATEST else "10^9")
        return ", or ".join([words, *(e.help for e in self.expressions)])

    def accepts(self, value: object) -> bool:
        """Whether `value` is allowed, taken alone."""
        if self.type is bool:
            return isinstance(value, bool)
        if self.type is str:
            return value in self.choices
        if isinstance(value, str):
            return self.expression(value) is not None
        return self.accepts_number(value)

    def accepts_number(self, value: object) -> bool:
        """Whether `value` is a number of the right type and range."""
        if isinstance(value, bool) or not isinstance(value, (int, float)):
            return False
        if self.type is int and not isinstance(value, int):
            return False
        return self.least <= value <= self.most and not (self.odd and value % 2 == 0)

    def expression(self, text: Value) -> tuple[Expression, re.Match[str]] | None:
        """The expression that `text` is written as, with its match; None if it is a plain value."""
        if self.type is str or not isinstance(text, str):
            return None
        matches = ((e, re.fullmatch(e.pattern, text)) for e in self.expressions)
        return next(((e, match) for e, match in matches if match), None)

    def needs(self, value: Value) -> tuple[str, ...]:
        """The facts and dims this spelling of the value depends on."""
        expression = self.expression(value)
        clip = (self.at_most,) if self.at_most else ()
        return (expression[0].needs if expression else ()) + clip

    def resolve(self, value: Value, known: Mapping[str, Value]) -> Value:
        """The number or word that `value` resolves to, given every fact and every earlier dim.

        Raises:
            ValueError: the result is not allowed; the message says why.
        """
        parsed = self.expression(value)
        result: Any = value
        if parsed:
            expression, match = parsed
            result = expression.value(match, *(known[name] for name in expression.needs))
            if self.type is int:
                if result != int(result):
                    given = ", ".join(f"{n}={known[n]}" for n in expression.needs)
                    raise ValueError(f"{value!r} with {given} is {float(result):g}, not a whole number")
                result = int(result)
            elif self.type is float:
                result = float(result)
        if self.at_most:
            result = min(result, known[self.at_most])
        if self.type is float and not isinstance(result, bool):
            result = float(result)
        if parsed and not self.accepts_number(result):
            raise ValueError(f"{value!r} is {result} here; allowed: {self.allowed}")
        return result


@dataclass(frozen=True)
class Rule:
    """A condition between dims and facts. `needs` lists what `holds` takes, the culprit dim first."""

    needs: tuple[str, ...]
    holds: Callable[..., bool]
    message: str

    def fault(self, known: Mapping[str, Value]) -> str | None:
        """A sentence where the condition does not hold."""
        if self.holds(*(known[name] for name in self.needs)):
            return None
        culprit, *others = self.needs
        given = ", ".join(f"{name} {known[name]}" for name in others)
        return f"{known[culprit]!r} is not allowed" + (f" with {given}" if given else "") + f": {self.message}"


@dataclass(frozen=True)
class DrawnPart:
    """A part of a block in a drawing.

    Args:
        channels: how wide it is.
        style: `attends`, `convolves` or `deep`; empty for the default of the block's role.
        heads: number of heads that its channels are split into.
    """

    channels: float
    style: str = ""
    heads: int = 1


Canonical = Callable[[dict[str, Value], Mapping[str, Value]], tuple[str, dict[str, Value]]]


@dataclass(frozen=True)
class Kind:
    """The declaration of a block kind.

    Args:
        name: as written in space files; unique over all installed packages.
        role: its position in a model, one of `ROLES`.
        module: called with the named facts and all dims as keyword arguments, returns the plain
            `nn.Module`. See `supernet/blocks/README.md` for what each role's forward takes.
        dims: the parameters, in the order expressions may refer to each other.
        facts: the fields of `Facts` the module takes.
        rules: conditions between dims and facts.
        canonical: maps resolved dims (and facts) to the equivalent kind and dims without unused dims, for example for
            an LSRA layer whose convolution has no channel.
        causal: whether it can be causal, i.e. may be used in a decoder.
        ties: head only: whether it reads the embedding's tensors, as its method `tied_shapes` lists.
        adds_loss: whether it appends a loss of its own to `Call.losses`, such as the balance between experts.
        over_words: head only: whether it returns one logit per token of the vocabulary, as lm and seq2seq need.
        logits: head only: whether it returns logits, which have a loss.
        projects: embedding only: whether the table is widened by one linear map `project`.
        tables: embedding only: maps dims and facts to the fact `tables` of heads; by default `words`.
        shares: sub-layers only: maps dims to the name of what layers of a stack share, such as keys and values. The
            first layer with a name computes it and puts it into `Call.shared`, later ones reuse it; the fact `first`
            says which of the two a block does. Layers with the same slot all do the same.
        length: between only: maps its dims to the fraction of the tokens that remains; None if the length is unchanged.
        restored_by: between only: the kind of role `restore`, with the same dims, that restores the length at the end
            of the stack; empty if it is not restored.
        words: maps dims and the model's width to a label, in pieces; by default the name and all dims.
        parts: maps dims and the model's width to what is drawn side by side; by default one part of that width.
        paper: the publication it is from: `Authors (year), title, arXiv number`.
    """

    name: str
    role: str
    module: Callable[..., Any]
    dims: tuple[Dim, ...] = ()
    facts: tuple[str, ...] = ()
    rules: tuple[Rule, ...] = ()
    canonical: Canonical | None = None
    causal: bool = True
    adds_loss: bool = False
    ties: bool = False
    over_words: bool = False
    logits: bool = True
    projects: bool = False
    tables: Callable[[Dims, Mapping[str, Value]], str] | None = None
    shares: Callable[[Dims], str] | None = None
    length: Callable[[Dims], float] | None = None
    restored_by: str = ""
    words: Callable[[Mapping[str, Any], int], tuple[str, ...]] | None = None
    parts: Callable[[Mapping[str, Any], int], tuple[DrawnPart, ...]] | None = None
    help: str = ""
    paper: str = ""

    @cached_property
    def float_dims(self) -> frozenset[str]:
        """The dims that are real numbers."""
        return frozenset(dim.name for dim in self.dims if dim.type is float)

    @cached_property
    def usual(self) -> dict[str, Value | None]:
        """The defaults of the dims that a block may leave out."""
        return {dim.name: dim.default for dim in self.dims if dim.optional}

    def dim(self, name: str) -> Dim:
        """The dim of that name."""
        return next(dim for dim in self.dims if dim.name == name)

    def filled(self, dims: Dims) -> dict[str, Value]:
        """The dims of a block with the optional ones that it leaves out."""
        return {**{dim.name: dim.default for dim in self.dims if dim.optional and dim.default is not None}, **dims}

    def resolve(self, raw: Dims, known: Mapping[str, Value]) -> dict[str, Value]:
        """Every dim as a plain value. Raises ValueError that names a dim without a value."""
        everything, raw = dict(known), self.filled(raw)
        for dim in self.dims:
            try:
                everything[dim.name] = dim.resolve(raw[dim.name], everything)
            except ValueError as error:
                raise ValueError(f"{dim.name}: {error}") from None
        return {dim.name: everything[dim.name] for dim in self.dims}

    def faults(self, values: Dims, known: Mapping[str, Value]) -> list[Fault]:
        """Faults of resolved `values` in an architecture with these facts."""
        values = self.filled(values)
        names = {dim.name for dim in self.dims}
        faults = [Fault(name, f"unknown dim of {self.name}; allowed: {sorted(names) or 'none'}")
                  for name in values if name not in names]
        faults += [Fault(name, f"missing dim of {self.name}") for name in sorted(names - set(values))]
        faults += [Fault(dim.name, f"{values[dim.name]!r} is not allowed; allowed: {dim.allowed}")
                   for dim in self.dims if dim.name in values
                   and (not dim.accepts(values[dim.name]) or dim.expression(values[dim.name]))]
        if known.get("causal") and not self.causal:
            faults.append(Fault("", f"{self.name} is not causal and cannot be used in a decoder"))
        if not faults:
            everything = {**known, **values}
            messages = ((rule.needs[0], rule.fault(everything)) for rule in self.rules)
            faults = [Fault(name, text) for name, text in messages if text]
        return faults


def match(value: object, choices: tuple[Value, ...]) -> Value | None:
    """The choice that equals a value, or None; true and 1 are not the same."""
    for choice in choices:
        if value == choice and isinstance(value, bool) == isinstance(choice, bool):
            return choice
    return None
