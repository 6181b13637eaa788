# %% [markdown]
# # My own block
#
# A block is a plain `nn.Module` and a declaration, its `Kind`. This file has both; the code at its end uses them.
# Other programs and the command line find the block if the variable NAS_PLUGINS names this file:
# `NAS_PLUGINS=own_block.py nas blocks recent`.

# %%
"""A token mixer that averages the last few tokens and scales the mean by a learned gate."""

import os
import random
import tempfile
from pathlib import Path

import torch
from torch import Tensor, nn

from search_spaces.kind import TIMES_WIDTH, Dim, Kind
from supernet.call import Call
from supernet.layers.attention import RESIDUAL_GAIN
from supernet.layout import Layout


class Recent(nn.Module):
    """Mean of the last `window` tokens, gated, on `inner` channels."""

    def __init__(self, *, width: int, bias: bool, inner: int, window: int) -> None:
        super().__init__()
        self.inner, self.window = inner, window
        self.enter = nn.Linear(width, inner, bias=bias)
        self.gate = nn.Linear(width, inner, bias=bias)
        self.leave = nn.Linear(inner, width, bias=bias)
        self.drop = nn.Dropout(0.0)  # the rate is set from outside

    def forward(self, x: Tensor, call: Call) -> Tensor:
        """x: (batch, n, width). Norm and residual are added around it."""
        values = self.enter(x)
        if call.mask is not None:  # padding must not change the outputs of real tokens
            values = values.masked_fill(~call.mask[..., None], 0.0)
        if call.state is None:
            before = values.new_zeros(x.shape[0], self.window - 1, self.inner)
        else:  # x continues a sequence: the state holds the values before it
            (before,) = call.state.tensors
        wide = torch.cat([before, values], dim=1)
        if call.state is not None:
            call.state.tensors = (wide[:, x.shape[1]:],)
        recent = wide.unfold(1, self.window, 1).mean(dim=-1)
        return self.leave(self.drop(torch.sigmoid(self.gate(x)) * recent))

    def state_shapes(self, batch: int, past: int) -> tuple[tuple[int, ...], ...]:
        """The state between tokens; zeros before the first."""
        return ((batch, self.window - 1, self.inner),)

    def layouts(self) -> dict[str, Layout]:
        """Slices are the first rows and columns; the last map starts with smaller values, as a residual follows."""
        return {"leave.weight": Layout(gain=RESIDUAL_GAIN)}


KIND = Kind(
    name="recent", role="mixer", module=Recent, help="mean of the last tokens, gated", facts=("width", "bias"),
    dims=(Dim("inner", int, "channels that are averaged", expressions=(TIMES_WIDTH,)),
          Dim("window", int, "tokens that are averaged")),
)

# %% [markdown]
# ## Use it
#
# `plugins.add` registers this file in the program and in every process it starts, also in workers of a Ray cluster. A
# space can then use the block like any other: here it competes with attention.

# %%
if __name__ == "__main__":
    from nas import api
    from nas.core.evaluation import load_supernet
    from nas.costs import count
    from search_spaces import load_space, plugins
    from supernet import extract

    plugins.add(__file__)
    os.chdir(os.environ.get("FOLDER") or tempfile.mkdtemp())
    Path("mine.yaml").write_text("""
schema_version: 1
name: mine
family: lm
vocab_size: 48
context: 16
width: [16, 24]
embedding: {lookup: {}}
head: {tied: {}}
decoder:
  slots: 2
  depth: {keep: first, layers: [1, 2]}
  layers:
    plain:
      mixer:
        recent: {inner: ['0.5x', '1x'], window: [2, 4]}
        attention: {n_heads: [1, 2], head_dim: 8}
      ffn: {ffn: {inner: ['1x', '2x']}}
""")
    rng = random.Random(0)
    animals, does = ["the cat", "a dog", "the bird", "my horse"], ["sleeps", "runs", "sings", "eats"]
    Path("my.txt").write_text("".join(f"{rng.choice(animals)} {rng.choice(does)} .\n" for _ in range(400)))

    run = api.train("mine.yaml", "lm", "mine", data={"train": "my.txt"},
                    training={"steps": 30, "batch_size": 8, "lr": 1e-2, "evaluate_limit": 8})
    api.search(run, {"trials": 10, "limit": 8})
    for entry in api.pareto(run):
        mixers = " ".join(layer.mixer.kind for layer in entry.arch.decoder)
        print(f"loss {entry.metrics['loss']:.3f} with {entry.costs['params']:,.0f} parameters: {mixers}")

    # %% [markdown]
    # ## Slicing, extraction, counting and decoding token by token work without further code

    # %%
    space = load_space(run.path / "space.yaml")
    arch = space.decode({**space.encode(space.smallest()), "width": 24})
    assert {layer.mixer.kind for layer in arch.decoder} == {"recent"}
    net, tokens = load_supernet(run, space), torch.randint(space.vocab_size, (2, 9))
    model = extract(net, arch)
    first, cache = model.decode(tokens[:, :4], model.start(2))
    pieces = torch.cat([first, model.decode(tokens[:, 4:], cache)[0]], dim=1)
    assert torch.equal(net(arch, tokens), model(tokens))
    assert torch.allclose(model(tokens), pieces, atol=1e-5)
    print(f"supernet and extracted model give the same outputs; {count(arch, seq_len=9)}")

    (subnet,) = api.extract(run, top=1)
    print("the cat" + api.generate(subnet, "the cat", 5, seed=0))
