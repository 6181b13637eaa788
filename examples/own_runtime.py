# %% [markdown]
# # My own runtime
#
# A runtime says how a module is compiled, and how the result is run and timed. This file is one, and at its end what is
# done with it. Other programs and the command line find it where the variable NAS_PLUGINS names this file; its name,
# with dashes, is what a device's file says: `runtime: own-runtime`.
#
# It is copied to the device that it times models on: there the standard library is all it may import at its top.

# %%
"""Graphs of `torch.export`, run by PyTorch without the Python code they came from."""

from __future__ import annotations

import os
import tempfile
import time

SUFFIX = ".pt2"
PRECISIONS = ("fp32",)
OPTIONS = ()


def missing():
    """Why it cannot be used here, with the command that helps; None where it can."""
    try:
        import torch  # noqa: F401
    except ImportError:
        return "PyTorch is missing; run `pip install torch`"
    return None


def versions():
    """What its times depend on."""
    import torch

    return {"torch": torch.__version__}


def compile(module, inputs, path, options):
    """Write a module, in eval mode, that takes these tensors by position. Gives facts worth keeping: here none."""
    import torch

    from search_spaces.errors import InputError

    try:
        torch.export.save(torch.export.export(module, tuple(inputs)), path)
    except Exception as error:
        raise InputError("own-runtime", f"cannot compile it: {str(error).splitlines()[0]}") from error
    return {}


def load(path, inputs, options):
    """A function that runs the file once, on NumPy arrays, and gives the seconds."""
    import torch

    graph, tensors = _opened(path, options), [torch.from_numpy(array) for array in inputs]

    def run():
        with torch.inference_mode():
            start = time.perf_counter()
            graph(*tensors)
            return time.perf_counter() - start

    return run


def call(path, options):
    """A function from NumPy arrays to the outputs, for checking compiled models."""
    import torch

    graph = _opened(path, options)

    def run(inputs):
        with torch.inference_mode():
            outputs = graph(*(torch.from_numpy(array) for array in inputs))
        return [array.numpy() for array in (outputs if isinstance(outputs, (tuple, list)) else (outputs,))]

    return run


def _opened(path, options):
    import torch

    torch.set_num_threads(int(options["threads"]))
    return torch.export.load(path).module()


# %% [markdown]
# ## Put it to work
#
# `plugins.add` names this file to the program and to every process it starts. A device's file says the rest; of one
# that is reached by ssh, `transport` would say how.

# %%
if __name__ == "__main__":
    from pathlib import Path

    import torch

    from nas import api
    from search_spaces import load_space, plugins
    from supernet import Transformer

    plugins.add(__file__)
    os.chdir(os.environ.get("FOLDER") or tempfile.mkdtemp())
    Path("mine.yaml").write_text("""
{schema_version: 1, name: mine, family: lm, vocab_size: 80, context: 16, width: 16, embedding: {lookup: {}},
 head: {tied: {}}, decoder: {slots: 4, depth: {keep: first, layers: [1, 2, 3, 4]}, layers: {plain: {
   mixer: {attention: {n_heads: 2, head_dim: 8}}, ffn: {ffn: {inner: ['1x', '4x']}}}}}}
""")
    Path("device.yaml").write_text("""
schema_version: 1
name: graphs
kind: cpu
runtime: own-runtime
timing: {copies: 2, least_rounds: 3, most_rounds: 3, calibration: 4, memory: false}
""")

    # %% [markdown]
    # What it compiles computes the same.

    # %%
    space, options = load_space("mine.yaml"), {"threads": 1, "precision": "fp32"}
    model, tokens = Transformer(space.largest(), seed=0).eval(), torch.randint(80, (1, 16))
    compile(model, (tokens,), "model.pt2", options)
    outputs = torch.from_numpy(call("model.pt2", options)([tokens.numpy()])[0])
    with torch.no_grad():
        assert torch.allclose(model(tokens), outputs, atol=1e-5)
    print("compiled and plain model give the same outputs")

    # %% [markdown]
    # A minute at most, compiling included; few rounds, too few to trust, and what they say.

    # %%
    latency = api.profile("device.yaml", "mine.yaml", "1m")
    for name, arch in (("smallest", space.smallest()), ("largest", space.largest())):
        print(f"{name}: {latency.predict(arch):.3f} ms")
