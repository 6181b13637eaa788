# %% [markdown]
# # A classifier, exported to ONNX
#
# An encoder that predicts which chapter of Python's documentation a passage comes from: searched for a low loss and few
# parameters, extracted, and exported for ONNX Runtime (`pip install 'paretoformer[onnx]'`).
#
# Everything is written to a temporary folder, or to the folder set in the variable FOLDER.

# %%
import os
import tempfile
from pathlib import Path

import numpy as np
import onnxruntime
import torch

from nas import api

os.chdir(os.environ.get("FOLDER") or tempfile.mkdtemp())

# %% [markdown]
# ## The space
#
# Vocabulary and number of classes are fitted to the data.

# %%
Path("readers.yaml").write_text("""
schema_version: 1
name: readers
family: encoder
vocab_size: 400
context: 48
n_classes: 2
width: [16, 32]
embedding: {lookup: {rank: [8, full]}}
head: {classifier: {pool: mean}}
encoder:
  slots: 2
  depth: {keep: first, layers: [1, 2]}
  layers:
    plain:
      mixer:
        conv: {kernel: [3, 7]}
        attention: {n_heads: [1, 2], head_dim: 8}
      ffn: {ffn: {inner: ['1x', '2x']}}
""")

# %% [markdown]
# ## Train and search
#
# Limits are written as on the command line.

# %%
run = api.train("readers.yaml", "classification", "readers", data={"limit": 1000},
                training={"steps": 40, "batch_size": 16, "lr": 5e-3, "evaluate_limit": 32})
api.search(run, {"objectives": ["loss", "params"], "max": ["params=20k"], "trials": 12, "limit": 32})
front = api.pareto(run)
for entry in front:
    print(entry.arch.key[:12], f"loss {entry.metrics['loss']:.3f}", f"{entry.costs['params']:,.0f} parameters")

# %% [markdown]
# ## Extract the best and use it

# %%
(subnet,) = api.extract(run, top=1)
for answer in api.classify(subnet, ["Return a list of the files in a directory.", "The with statement wraps a block."]):
    print(f"{answer.label} ({answer.probability:.2f}): {answer.text}")

# %% [markdown]
# ## Export it
#
# An export is written only if its outputs equal those of the plain model. It runs without Paretoformer.

# %%
exported = api.export(subnet, "onnx")
tokens = torch.tensor([subnet.tokenizer().encode("Return a list of the files in a directory.").ids])
session = onnxruntime.InferenceSession(exported.folder / "model.onnx")
inputs = {"input_ids": tokens.numpy(), "attention_mask": torch.ones_like(tokens).numpy()}
with torch.no_grad():
    difference = np.abs(session.run(None, inputs)[0] - subnet.model()(tokens).numpy()).max()
print(f"{exported.folder / 'model.onnx'}: {exported.record['bytes']:,} bytes, logits differ by {difference:.1e}")
