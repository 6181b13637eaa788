"""The keys of a space file. Descriptions say what is allowed: they appear in errors and in the reference."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field

from search_spaces.kind import GREATEST, MOST_SLOTS, NORMS, PLACEMENTS, POSITIONS


def _listed(value: object) -> object:
    """A single value fixes a dimension."""
    return value if isinstance(value, list) else [value]


Count = Annotated[int, Field(strict=True, ge=1, le=GREATEST)]
CountOrZero = Annotated[int, Field(strict=True, ge=0, le=GREATEST)]
Counts = Annotated[list[Count], BeforeValidator(_listed), Field(min_length=1)]
Truths = Annotated[list[Annotated[bool, Field(strict=True)]], BeforeValidator(_listed), Field(min_length=1)]
Texts = Annotated[list[Annotated[str, Field(strict=True)]], BeforeValidator(_listed), Field(min_length=1)]
def _number(value: object) -> object:
    """Refuse what pydantic would turn into a number."""
    if isinstance(value, (bool, str)):
        raise ValueError("not a number")
    return value


Positive = Annotated[float, BeforeValidator(_number), Field(gt=0, le=GREATEST, allow_inf_nan=False)]
Numbers = Annotated[list[Positive], BeforeValidator(_listed), Field(min_length=1)]
Norms = Annotated[list[Literal["layernorm", "rmsnorm", "none"]], BeforeValidator(_listed), Field(min_length=1)]
Placements = Annotated[list[Literal["pre", "post"]], BeforeValidator(_listed), Field(min_length=1)]
Positions = Annotated[
    list[Literal["learned", "sinusoidal", "rotary", "none"]], BeforeValidator(_listed), Field(min_length=1)
]
Orders = Annotated[list[Literal["ascending", "descending"]], BeforeValidator(_listed), Field(min_length=1)]

FamilyName = Annotated[str, Field(strict=True, pattern=r"^[A-Za-z][A-Za-z0-9_-]*$")]
PartFile = dict[str, Any]
"""Kind -> its dims (checked against the kind's own declaration), and `choose` where several kinds are listed."""


class _Keys(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class DepthFile(_Keys):
    """How many of the slots a stack keeps, and which."""

    keep: Literal["first", "every_other", "searched"] = Field(
        description="first, every_other (LayerDrop's rule) or searched (each slot is kept or left out)")
    layers: Counts | Literal["scaled"] | None = Field(
        None,
        description="a list of whole numbers from 1 to 10^9, or scaled (the number of blocks of block-wise scaling)")
    at_least: Count = Field(1, description="a whole number from 1 to 10^9: the minimum depth where slots are searched")


class ScalingFile(_Keys):
    """Block-wise scaling of every dim written `scaled`."""

    depths: Texts = Field(description="a list of 'N_min-N_max' such as '4-8'")
    multiplier: Numbers = Field(description="a list of numbers > 0: the width multiplier of the first block")
    order: Orders = Field(["ascending"], description="ascending or descending")


class LayerFile(_Keys):
    """One layer type: which blocks its parts may be."""

    mixer: PartFile = Field(description="a table of mixer kinds and their dims")
    ffn: PartFile = Field(description="a table of feed-forward kinds and their dims")
    cross: PartFile | None = Field(None, description="a table of cross-attention kinds (decoder of seq2seq only)")
    between: PartFile | None = Field(None, description="a table of block kinds allowed after the layer, and skip")


class StackFile(_Keys):
    """A stack of layers."""

    slots: Annotated[int, Field(strict=True, ge=1, le=MOST_SLOTS)] = Field(description="a whole number from 1 to 512")
    depth: DepthFile | None = Field(None, description="a table with keep, and layers or at_least; absent: all slots")
    sharing: Texts = Field(["none"], description="a list of none, attention, ffn and all; in groups of k layers: "
                                                 "attention/k, ffn/k, all/k")
    choose: Any = Field(None, description="a list of layer types, {global: [...]} or {by_slot: [[...], ...]}")
    layers: dict[FamilyName, LayerFile] = Field(
        min_length=1, description="a table of layer types; their names are letters, digits, dash and underscore")


class SpaceFile(_Keys):
    """A search space."""

    schema_version: Literal[1] = Field(description="1")
    name: Annotated[str, Field(strict=True, pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]*$")] = Field(
        description="letters, digits, dot, dash and underscore")
    description: Annotated[str, Field(strict=True)] = Field("", description="a string")
    family: Literal["lm", "encoder", "seq2seq"] = Field(description="lm, encoder or seq2seq")
    vocab_size: Count = Field(description="a whole number from 1 to 10^9")
    context: Count = Field(description="a whole number from 1 to 10^9: the longest sequence")
    n_classes: CountOrZero = Field(0, description="a whole number from 0 to 10^9")
    n_types: CountOrZero = Field(0, description="a whole number from 0 to 10^9: token types")
    width: Counts = Field(description="a list of whole numbers from 1 to 10^9")
    norm: Norms = Field(["layernorm"], description=", ".join(NORMS))
    norm_eps: Annotated[float, Field(strict=True, gt=0, le=1)] | None = Field(
        None, description="a number from 0 to 1: epsilon that norms add to the variance; absent: the norm's default")
    placement: Placements = Field(["pre"], description=", ".join(PLACEMENTS))
    positions: Positions = Field(["learned"], description=", ".join(POSITIONS))
    bias: Truths = Field([True], description="true or false: whether linear maps have a bias")
    share_inputs: Truths = Field(
        [True], description="true or false: whether source and target share one embedding (seq2seq)")
    residual: Texts = Field(["plain"], description="how sub-layers are added to the stream: a list of residuals")
    embedding: PartFile = Field(description="a table of embedding kinds and their dims")
    head: PartFile = Field(description="a table of head kinds and their dims")
    scaling: ScalingFile | None = Field(None, description="a table with depths and multiplier")
    encoder: StackFile | None = Field(None, description="a stack: slots, depth, sharing, layers")
    decoder: StackFile | None = Field(None, description="a stack: slots, depth, sharing, layers")
