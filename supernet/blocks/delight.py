"""DeLighT's token mixer: a DExTra unit followed by single-head attention at half the width."""

from __future__ import annotations

from collections.abc import Mapping

from torch import Tensor, nn

from search_spaces.kind import SCALED_DEPTH, SCALED_MULTIPLIER, Dim, DrawnPart, Kind, Rule, Value
from supernet.call import Call
from supernet.layers.attention import MultiHead
from supernet.layers.dextra import DExTra
from supernet.layers.groups import most_groups

DEXTRA_DIMS = (
    Dim("depth", int, "number of group-linear layers of the DExTra unit", most=64, expressions=(SCALED_DEPTH,)),
    Dim("multiplier", float, "expansion factor of the unit", least=0.01, expressions=(SCALED_MULTIPLIER,)),
    Dim("group_start", int, "groups of the first layer: 2 as in the released code, 1 as in the paper", default=2,
        most=2),
)
"""The dims of all kinds with a DExTra unit."""
DEXTRA_RULES = (
    Rule(("multiplier", "width"), lambda _, width: width % 8 == 0 and (width // 2) % most_groups(width) == 0,
         "the width must be a multiple of 8, and the groups of the DExTra unit must divide half of it"),
)


def canonical_dextra(dims: dict[str, Value], facts: Mapping[str, Value]) -> dict[str, Value]:
    """Canonical dims: two layers never widen, and a single group has no choice of start, so those dims have no
    effect."""
    if int(dims["depth"]) <= 2:
        dims = {**dims, "multiplier": 1.0}
    return {**dims, "group_start": min(int(dims["group_start"]), most_groups(int(facts["width"])))}


class DeLight(nn.Module):
    """A DExTra unit, then single-head attention."""

    def __init__(self, *, width: int, causal: bool, positions: str, context: int, depth: int, multiplier: float,
                 group_start: int) -> None:
        super().__init__()
        half = width // 2
        self.dextra = DExTra(in_dim=width, inner_dim=half, out_dim=half, depth=depth, multiplier=multiplier,
                             group_start=group_start, max_groups=most_groups(width))
        self.attend = MultiHead(query_dim=half, memory_dim=half, out_dim=width, n_heads=1, head_dim=half, n_kv_heads=1,
                                bias=True, causal=causal, rotary_length=context if positions == "rotary" else 0)

    def forward(self, x: Tensor, call: Call) -> Tensor:
        x = self.dextra(x)
        return self.attend(x, x, call.mask, call.record, call.state, call.position)

    def state_shapes(self, batch: int, past: int) -> tuple[tuple[int, ...], ...]:
        return self.attend.state_shapes(batch, past)


KIND = Kind(
    name="delight",
    role="mixer",
    module=DeLight,
    help="expand-reduce unit (DExTra) and single-head attention (DeLighT)",
    paper="Mehta et al. (2021), DeLighT, arXiv:2008.00623",
    dims=DEXTRA_DIMS,
    facts=("width", "causal", "positions", "context"),
    rules=DEXTRA_RULES,
    canonical=lambda dims, facts: ("delight", canonical_dextra(dims, facts)),
    words=lambda dims, width: ("delight", f"depth {dims['depth']}", f"expansion × {dims['multiplier']:g}"),
    parts=lambda dims, width: (DrawnPart(int(dims["multiplier"] * width), "deep"),),
)
