# %% [markdown]
# # My own data
#
# Your own files need no code: give their paths and the names of their columns. This example writes small files for
# language modelling, classification and translation, and trains on them. On the command line, `data` is
# `--data KEY=VALUE`, repeated.
#
# Everything is written to a temporary folder, or to the folder set in the variable FOLDER.

# %%
import os
import random
import tempfile
from pathlib import Path

from nas import api

os.chdir(os.environ.get("FOLDER") or tempfile.mkdtemp())
rng = random.Random(0)
TRAINING = {"steps": 30, "batch_size": 8, "lr": 1e-2, "evaluate_limit": 8}
LAYERS = "plain: {mixer: {attention: {n_heads: [1, 2], head_dim: 8}}, ffn: {ffn: {inner: ['1x', '2x']}}}"

# %% [markdown]
# ## Text for a language model
#
# Lines of plain text. Missing splits are taken from the training file; `my.txt.gz` would be decompressed.

# %%
animals, does = ["the cat", "a dog", "the bird", "my horse"], ["sleeps", "runs", "sings", "eats"]
Path("my.txt").write_text("".join(f"{rng.choice(animals)} {rng.choice(does)} .\n" for _ in range(400)))
Path("lm.yaml").write_text(f"""
{{schema_version: 1, name: my-lm, family: lm, vocab_size: 48, context: 16, width: [8, 16],
 embedding: {{lookup: {{}}}}, head: {{tied: {{}}}}, decoder: {{slots: 1, layers: {{{LAYERS}}}}}}}
""")
text = api.train("lm.yaml", "lm", "text", data={"train": "my.txt"}, training=TRAINING)

# %% [markdown]
# ## A table for a classifier
#
# CSV, TSV or JSON lines, with your own column names. Give the file of a split if you have one.

# %%
good, bad = ["a fine film", "great fun", "very good"], ["a dull film", "no fun", "very bad"]


def reviews(n):
    """Lines of a table with two columns."""
    rows = [(rng.choice(good), "5") if i % 2 else (rng.choice(bad), "1") for i in range(n)]
    return "review,stars\n" + "".join(f"{said} indeed,{stars}\n" for said, stars in rows)


Path("train.csv").write_text(reviews(200))
Path("valid.csv").write_text(reviews(40))
Path("encoder.yaml").write_text(f"""
{{schema_version: 1, name: my-encoder, family: encoder, vocab_size: 48, context: 16, n_classes: 2, width: [8, 16],
 embedding: {{lookup: {{}}}}, head: {{classifier: {{}}}}, encoder: {{slots: 1, layers: {{{LAYERS}}}}}}}
""")
table = api.train("encoder.yaml", "classification", "table", training=TRAINING, data={
    "train": "train.csv", "valid": "valid.csv", "text": "review", "label": "stars"})

# %% [markdown]
# ## Two parallel files for a translator
#
# `pairs.de` and `pairs.en`, aligned by line. The extensions name the languages.

# %%
words = {"eins": "one", "zwei": "two", "drei": "three", "vier": "four"}
lines = [rng.choices(list(words), k=rng.randint(1, 3)) for _ in range(300)]
Path("pairs.de").write_text("".join(" ".join(line) + "\n" for line in lines))
Path("pairs.en").write_text("".join(" ".join(words[word] for word in line) + "\n" for line in lines))
PAIR = LAYERS.replace("ffn: {ffn", "cross: {cross_attention: {n_heads: 1, head_dim: 8}}, ffn: {ffn")
Path("seq2seq.yaml").write_text(f"""
{{schema_version: 1, name: my-seq2seq, family: seq2seq, vocab_size: 48, context: 16, width: [8, 16],
 embedding: {{lookup: {{}}}}, head: {{tied: {{}}}},
 encoder: {{slots: 1, layers: {{{LAYERS}}}}}, decoder: {{slots: 1, layers: {{{PAIR}}}}}}}
""")
pairs = api.train("seq2seq.yaml", "translation", "pairs", training=TRAINING, data={
    "train": "pairs", "source": "de", "target": "en"})

# %% [markdown]
# ## The remaining stages are the same for all

# %%
for run in (text, table, pairs):
    api.search(run, {"trials": 6, "limit": 8})
    (subnet,) = api.extract(run, top=1)
    print(f"{run.name}: {len(api.pareto(run))} on the front, the best of loss {subnet.facts.metrics['loss']:.3f}")
    if run is text:
        print("  the cat" + api.generate(subnet, "the cat", 5, seed=0))
    elif run is table:
        print("  stars:", [answer.label for answer in api.classify(subnet, ["great fun indeed", "very bad indeed"])])
    else:
        print("  drei zwei ->", api.translate(subnet, ["drei zwei"])[0])
