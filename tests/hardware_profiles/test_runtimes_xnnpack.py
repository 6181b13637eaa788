"""What of a module XNNPACK takes, and with how many threads it runs."""

import subprocess
import sys

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from hardware_profiles.runtimes import _lowering, xnnpack

pytestmark = pytest.mark.skipif(bool(xnnpack.missing()), reason=str(xnnpack.missing()))


@pytest.mark.parametrize(("n", "m"), [(5, 5), (1, 4), (3, 1)])
@pytest.mark.parametrize("is_causal", [False, True])
def test_attention_written_out_is_the_same(n, m, is_causal):
    q, k, v = torch.randn(2, 3, n, 4), torch.randn(2, 3, m, 4), torch.randn(2, 3, m, 6)
    expected = F.scaled_dot_product_attention(q, k, v, is_causal=is_causal)
    assert torch.allclose(_lowering.attend(q, k, v, is_causal=is_causal), expected, atol=1e-6)
    assert torch.allclose(_lowering.attend(q, k, v, scale=0.3), F.scaled_dot_product_attention(q, k, v, scale=0.3),
                          atol=1e-6)
    mask = torch.rand(2, 1, 1, m) > 0.5
    mask[..., 0] = True
    assert torch.allclose(_lowering.attend(q, k, v, mask), F.scaled_dot_product_attention(q, k, v, mask), atol=1e-6)


def test_norms_and_copies_written_out_are_the_same():
    x, weight, bias = torch.randn(2, 3, 8), torch.randn(8), torch.randn(8)
    pairs = [(_lowering.layer_norm(x, (8,), weight, bias, 1e-5), F.layer_norm(x, (8,), weight, bias, 1e-5)),
             (_lowering.layer_norm(x, (3, 8)), F.layer_norm(x, (3, 8))),
             (_lowering.rms_norm(x, (8,), weight, 1e-6), F.rms_norm(x, (8,), weight, 1e-6)),
             (_lowering.rms_norm(x, (8,)), F.rms_norm(x, (8,))),
             (_lowering.rms_norm(x, (3, 8)), F.rms_norm(x, (3, 8))),
             *((_lowering.masked_fill(x, x > 0, value), x.masked_fill(x > 0, value)) for value in (0.0, 2.0)),
             (_lowering.addcmul(x, x, x, value=0.5), torch.addcmul(x, x, x, value=0.5)),
             *((_lowering.repeat_interleave(x, 3, dim), x.repeat_interleave(3, dim)) for dim in (0, 1, -1))]
    assert all(torch.allclose(ours, theirs, atol=1e-5) for ours, theirs in pairs)


class Masked(nn.Module):
    """Attention whose mask is an input: nothing can be folded, and a row may see nothing."""

    def forward(self, x, mask):
        return F.scaled_dot_product_attention(x, x, x, attn_mask=mask)


def test_tells_what_was_not_delegated(tmp_path):
    from executorch.extension.pybindings import portable_lib

    path, options = str(tmp_path / "model.pte"), {"threads": 1, "precision": "fp32"}
    x, mask = torch.randn(1, 2, 4, 8), torch.ones(4, 4).tril(-1).bool()
    facts = xnnpack.compile(Masked(), (x, mask), path, options)
    assert 0 < facts["not_delegated"] < 1
    found = portable_lib._load_for_executorch(path).forward([x, mask])[0]
    assert torch.allclose(found, Masked()(x, mask), atol=1e-5)


class Mixed(nn.Module):
    """A linear map, a convolution, and a product of two activations."""

    def __init__(self):
        super().__init__()
        self.linear, self.conv = nn.Linear(8, 8, bias=False), nn.Conv1d(8, 8, 3, padding=1, groups=8)

    def forward(self, x):
        x = self.conv(self.linear(x).transpose(1, 2)).transpose(1, 2)
        return torch.bmm(x, x.transpose(1, 2).contiguous())


def test_tells_what_int8_leaves_in_full_precision(tmp_path):
    options = {"threads": 1, "precision": "int8"}
    facts = xnnpack.compile(Mixed().eval(), (torch.randn(1, 4, 8),), str(tmp_path / "model.pte"), options)
    left = 4 * 8 * 3 + 4 * 4 * 8
    assert facts["not_quantised"] == pytest.approx(left / (left + 4 * 8 * 8))


THREADS = """
import numpy, sys
from hardware_profiles.runtimes import xnnpack
xnnpack.load(sys.argv[1], [numpy.zeros((2, 4), "float32")], {"threads": int(sys.argv[2]), "precision": "fp32"})
from executorch.extension.pybindings import portable_lib
assert portable_lib._threadpool_get_thread_count() == int(sys.argv[2])
try:
    xnnpack.load(sys.argv[1], [], {"threads": 7, "precision": "fp32"})
except RuntimeError as error:
    print(error)
"""


def test_the_pool_has_the_threads_that_were_asked_for(tmp_path):
    path = tmp_path / "model.pte"
    xnnpack.compile(nn.Linear(4, 4).eval(), (torch.zeros(2, 4),), str(path), {"threads": 3, "precision": "fp32"})
    done = subprocess.run([sys.executable, "-W", "ignore", "-c", THREADS, path, "3"], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stdout == "xnnpack runs with 3 threads in this process; 7 threads need a new process\n"
