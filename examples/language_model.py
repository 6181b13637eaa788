# %% [markdown]
# # A language model for this machine
#
# From a search space to a model that writes, in half a minute: train a supernet, find out what its architectures take
# on this machine, search, cut one out, train it on its own, let it write. What comes out is tiny; larger numbers in
# the same cells make it a real one.
#
# Everything is written to a temporary folder, or to the one that the variable FOLDER names.

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
# A list is searched, a single value is fixed. `nas spaces` names the spaces that come along; `load_space` takes those,
# too.

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
# One training for all of them, on text that comes along with Python. `data={"train": "my.txt"}` is your own.

# %%
run = api.train("little.yaml", "lm", "little", data={"limit": 2000},
                training={"steps": 40, "batch_size": 8, "lr": 5e-3, "evaluate_limit": 16})
print({name: f"{metrics['loss']:.2f}" for name, metrics in api.evaluate(run, limit=16).items()})

# %% [markdown]
# ## The device
#
# This machine, one thread, PyTorch as it is. Four seconds of timing are too few to trust (a real profile takes
# minutes), and enough to see how it goes. `nas devices` lists others.

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
# For a small loss and a small latency. Loss is evaluated on the supernet's weights, latency is looked up.

# %%
api.search(run, {"devices": ["here"], "trials": 12, "limit": 8}, console=console)
front = api.pareto(run, device="here")
for entry in front:
    print(entry.arch.key[:12], f"loss {entry.metrics['loss']:.3f}", f"{entry.costs['latency:here']:.3f} ms")

# %% [markdown]
# ## The model
#
# The knee is where the front bends most. It is cut out with the supernet's outputs, and trained on its own for a while.

# %%
(subnet,) = api.extract(run, knee=True)
better = api.retrain(subnet, {"steps": 20})
print(f"loss {subnet.facts.metrics['loss']:.3f}, retrained {better.facts.metrics['loss']:.3f}: {better.path}")
print(f"predicted {latency.predict(better.arch):.3f} ms")

# %%
print("The function returns" + api.generate(better, "The function returns", 20, seed=1))
