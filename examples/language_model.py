# %% [markdown]
# # A language model for this machine
#
# From a search space to a model that generates text, in half a minute: train a supernet, profile this machine, search,
# extract a model, retrain it, and generate text. The model is tiny; increase the numbers in these cells for a useful
# one.
#
# Everything is written to a temporary folder, or to the folder set in the variable FOLDER.

# %%
import os
import tempfile
from pathlib import Path

from rich.console import Console

from nas import api
from search_spaces import load_space

os.chdir(os.environ.get("FOLDER") or tempfile.mkdtemp())
console = Console()

# %% [markdown]
# ## The space
#
# A list is searched, a single value is fixed. `load_space` also takes the name of a shipped space (`nas spaces` lists
# them).

# %%
Path("little.yaml").write_text("""
schema_version: 1
name: little
family: lm
vocab_size: 400
context: 32
width: [16, 64]
embedding: {lookup: {}}
head: {tied: {}}
decoder:
  slots: 4
  depth: {keep: first, layers: [1, 2, 4]}
  layers:
    plain:
      mixer:
        conv: {kernel: [3, 7]}
        attention: {n_heads: [1, 2], head_dim: 8}
      ffn: {ffn: {inner: ['1x', '2x']}}
""")
space = load_space("little.yaml")
print(f"{space.name}: {space.size():,} architectures")

# %% [markdown]
# ## The supernet
#
# One training run for all architectures, on the bundled sample text. For your own: `data={"train": "my.txt"}`.

# %%
run = api.train("little.yaml", "lm", "little", data={"limit": 2000},
                training={"steps": 40, "batch_size": 8, "lr": 5e-3, "evaluate_limit": 16})
print({name: f"{metrics['loss']:.2f}" for name, metrics in api.evaluate(run, limit=16).items()})

# %% [markdown]
# ## The device
#
# This machine, one thread, eager PyTorch. A few seconds of timing are enough for an example; a reliable profile takes
# minutes. `nas devices` lists other devices.

# %%
Path("here.yaml").write_text("""
schema_version: 1
name: here
kind: cpu
runtime: torch-eager
timing: {least_rounds: 3, most_rounds: 10, calibration: 8, memory: false}
""")
latency = api.profile("here.yaml", run, "20s")

# %% [markdown]
# ## The search
#
# For a low loss and a low latency. The loss is evaluated with the supernet's weights, the latency is a look-up.

# %%
api.search(run, {"devices": ["here"], "trials": 12, "limit": 8}, console=console)
front = api.pareto(run, device="here")
for entry in front:
    print(entry.arch.key[:12], f"loss {entry.metrics['loss']:.3f}", f"{entry.costs['latency:here']:.3f} ms")

# %% [markdown]
# ## The model
#
# The knee is where the front bends most. It is extracted, with the same outputs as in the supernet, and retrained.

# %%
(subnet,) = api.extract(run, knee=True)
better = api.retrain(subnet, {"steps": 20})
print(f"loss {subnet.facts.metrics['loss']:.3f}, retrained {better.facts.metrics['loss']:.3f}: {better.path}")
print(f"predicted {latency.predict(better.arch):.3f} ms")

# %%
print("The function returns" + api.generate(better, "The function returns", 20, seed=1))
