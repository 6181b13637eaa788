# %% [markdown]
# # A translator
#
# An encoder-decoder that translates German number names to English, searched for a low loss and few multiply-adds.
# The data are generated.
#
# Everything is written to a temporary folder, or to the folder set in the variable FOLDER.

# %%
import os
import tempfile
from pathlib import Path

from nas import api

os.chdir(os.environ.get("FOLDER") or tempfile.mkdtemp())

# %% [markdown]
# ## The space
#
# Encoder and decoder have separate choices.

# %%
Path("speakers.yaml").write_text("""
schema_version: 1
name: speakers
family: seq2seq
vocab_size: 200
context: 32
width: [16, 32]
share_inputs: true
embedding: {lookup: {}}
head: {tied: {}}
encoder:
  slots: 2
  depth: {keep: first, layers: [1, 2]}
  layers:
    plain:
      mixer: {attention: {n_heads: [1, 2], head_dim: 8}}
      ffn: {ffn: {inner: ['1x', '2x']}}
decoder:
  slots: 1
  layers:
    plain:
      mixer:
        conv: {kernel: [3, 7]}
        attention: {n_heads: [1, 2], head_dim: 8}
      cross: {cross_attention: {n_heads: [1, 2], head_dim: 8}}
      ffn: {ffn: {inner: ['1x', '2x']}}
""")

# %% [markdown]
# ## Train and search
#
# `nas settings` lists the training settings, `nas search --help` those of a search.

# %%
run = api.train("speakers.yaml", "translation", "speakers", data={"size": 2000, "direction": "de-en"},
                training={"steps": 40, "batch_size": 16, "lr": 5e-3, "evaluate_limit": 32})
api.search(run, {"objectives": ["loss", "macs"], "trials": 12, "limit": 16})
front = api.pareto(run)
for entry in front:
    print(entry.arch.key[:12], f"loss {entry.metrics['loss']:.3f}", f"{entry.costs['macs']:,.0f} multiply-adds")

# %% [markdown]
# ## Extract a model and retrain it
#
# The supernet is the teacher: the model learns from its logits and from the labels.

# %%
(subnet,) = api.extract(run, knee=True)
better = api.retrain(subnet, {"steps": 40}, distill="logits")
print(f"loss {subnet.facts.metrics['loss']:.3f}, retrained {better.facts.metrics['loss']:.3f}")
print(f"{better.facts.costs['params']:,.0f} parameters: {better.path}")

# %%
for text in ("zwei", "dreizehn"):
    print(f"{text} -> {api.translate(better, [text])[0]!r}")
