"""DeFINE's group transformations against a loop over groups."""

import torch
import torch.nn.functional as F

from supernet.blocks.define_lookup import DefineLookup, define_shapes
from supernet.build import fresh

COMMON = {"width": 12, "vocab_size": 23, "context": 8, "positions": "none", "bias": True}


@torch.no_grad()
def test_group_transformations_are_loops_over_groups():
    made = fresh(DefineLookup(**COMMON, rank=8, depth=3, expansion=20, groups=4)).eval()
    assert define_shapes(8, 3, 20, 4) == ([4, 2, 1], [12, 16, 20])
    row = made.table.weight[5]
    y = row
    for i, groups in enumerate((4, 2, 1)):
        layer, found = made.get_submodule(f"layer{i}"), []
        for g in range(groups):
            part = row.chunk(groups)[g] if i == 0 else torch.cat([y.chunk(groups)[g], row.chunk(groups)[g]])
            found.append(F.gelu(layer.norm(part @ layer.weight[g] + layer.bias[g])))
        y = torch.cat(found)
    assert torch.allclose(made(torch.tensor([[5]]))[0, 0], made.reduce(y), atol=1e-6)
