# %% [markdown]
# # My own runtime
#
# A runtime compiles a module, and runs and times the result. This file is a runtime; the code at its end uses it.
# Other programs and the command line find it if the variable NAS_PLUGINS names this file. Its name, with dashes, is
# the value of `runtime` in a device file: `runtime: own-runtime`.
#
# The file is copied to the device, so at its top it may import only the standard library.

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
    """Why it is not available here, with the command that installs it; None if it is available."""
    try:
        import torch  # noqa: F401
    except ImportError:
        return "PyTorch is missing; run `pip install torch`"
    return None


def versions():
    """Versions of the software that latencies depend on."""
    import torch

    return {"torch": torch.__version__}


def compile(module, inputs, path, options):
    """Write a module, in eval mode, that takes these tensors by position. Returns facts to store: here none."""
    import torch

    from search_spaces.errors import InputError

    try:
        torch.export.save(torch.export.export(module, tuple(inputs)), path)
    except Exception as error:
        raise InputError("own-runtime", f"cannot compile it: {str(error).splitlines()[0]}") from error
    return {}


def load(path, inputs, options):
    """A function that runs the file once, on NumPy arrays, and returns the seconds."""
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
# ## Use it
#
# `plugins.add` registers this file in the program and in every process it starts. The rest is in the device file; for a
# device reached by ssh, it would also have a `transport`.

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
    # The compiled model has the same outputs.

    # %%
    space, options = load_space("mine.yaml"), {"threads": 1, "precision": "fp32"}
    model, tokens = Transformer(space.largest(), seed=0).eval(), torch.randint(80, (1, 16))
    compile(model, (tokens,), "model.pt2", options)
    outputs = torch.from_numpy(call("model.pt2", options)([tokens.numpy()])[0])
    with torch.no_grad():
        assert torch.allclose(model(tokens), outputs, atol=1e-5)
    print("compiled and plain model give the same outputs")

    # %% [markdown]
    # At most a minute, including compilation; too few rounds for a reliable profile.

    # %%
    latency = api.profile("device.yaml", "mine.yaml", "1m")
    for name, arch in (("smallest", space.smallest()), ("largest", space.largest())):
        print(f"{name}: {latency.predict(arch):.3f} ms")
