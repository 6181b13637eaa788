"""A block from somebody else's package: found through the entry point, no file of the project edited."""

import subprocess
import sys
from pathlib import Path

PERFORMER = '''
"""Attention by random features: linear in the length. Its feature directions are a random buffer."""

import torch
from torch import nn

from search_spaces.kind import PER_HEAD, Dim, Kind
from supernet.layout import Layout


class Performer(nn.Module):
    def __init__(self, *, width, n_heads, head_dim, features):
        super().__init__()
        self.n_heads, self.head_dim, self.features = n_heads, head_dim, features
        self.qkv = nn.Linear(width, 3 * n_heads * head_dim)
        self.out = nn.Linear(n_heads * head_dim, width)
        self.register_buffer("directions", torch.randn(features, head_dim))

    def forward(self, x, call):
        q, k, v = self.qkv(x).unflatten(-1, (3, self.n_heads, self.head_dim)).permute(2, 0, 3, 1, 4)
        q, k = self.project(q), self.project(k)
        if call.mask is not None:
            k = k.masked_fill(~call.mask[:, None, :, None], 0.0)
        y = q @ (k.transpose(-2, -1) @ v)
        y = y / (q @ k.sum(dim=-2, keepdim=True).transpose(-2, -1)).clamp(min=1e-6)
        return self.out(y.transpose(1, 2).flatten(2))

    def project(self, x):
        x = x * self.head_dim**-0.25
        return torch.exp(x @ self.directions.T - x.square().sum(-1, keepdim=True) / 2 - 2.0) + 1e-4

    def layouts(self):
        shape = (3, self.n_heads, self.head_dim)
        return {"qkv.weight": Layout((*shape, self.qkv.in_features)), "qkv.bias": Layout(shape),
                "out.weight": Layout((self.out.out_features, *shape[1:]), inputs=(1, 2)),
                "directions": Layout(init=1.0)}


KIND = Kind(
    name="their_performer", role="mixer", module=Performer, causal=False, facts=("width",),
    dims=(Dim("n_heads", int, "heads"), Dim("head_dim", int, "size of a head", expressions=(PER_HEAD,)),
          Dim("features", int, "random features")),
)
'''
SCRIPT = '''
import random
import torch
from nas.costs import count
from search_spaces.files.loader import space_from_text
from search_spaces.space.inventory import inventory
from supernet import Transformer
from tests.parity import Report, compare, randomised

space = space_from_text("""
{schema_version: 1, name: theirs, family: encoder, vocab_size: 50, context: 16, n_classes: 3, width: [16, 24, 32],
 embedding: {lookup: {rank: [8, full]}}, head: {classifier: {}},
 encoder: {slots: 3, depth: {keep: searched}, sharing: [none, all],
   layers: {one: {mixer: {their_performer: {n_heads: [1, 2, 4], head_dim: [4, 8, width/n_heads], features: [4, 8, 16]},
                          attention: {n_heads: 2}}, ffn: {ffn: {inner: [1x, 2x]}}}}}}
""", "theirs")
report, rng, net = Report(), random.Random(0), randomised(space)
assert any(name.endswith("directions") for name, _ in net.named_buffers())
for i in range(30):
    arch = space.sample(rng)
    assert space.decode(space.encode(arch)) == arch
    compare(net, arch, i, report)
assert report.ok, (report.worst, report.leaks, report.miscounts)
assert set(report.covered["their_performer"]["features"]) == {4, 8, 16}, report.covered
cost = count(arch, seq_len=12)
assert cost.macs > 0 and space.size() > 0 and inventory(space)
pair = """{{mixer: {{{}: {{n_heads: 2, head_dim: 8{}}}}}, {}ffn: {{ffn: {{inner: 1x}}}}}}"""
translator = Transformer(space_from_text("""
{{schema_version: 1, name: pairs, family: seq2seq, vocab_size: 50, context: 16, width: 16, embedding: {{lookup: {{}}}},
 head: {{tied: {{}}}}, encoder: {{slots: 2, layers: {{one: {}}}}}, decoder: {{slots: 2, layers: {{one: {}}}}}}}
""".format(pair.format("their_performer", ", features: 8", ""),
           pair.format("attention", "", "cross: {cross_attention: {n_heads: 2}}, ")), "pairs").largest(), seed=0).eval()
source, target = torch.arange(14).view(2, 7), torch.full((2, 1), 1)
for _ in range(5):
    target = torch.cat([target, translator(source, target)[:, -1:].argmax(dim=-1)], dim=1)
assert torch.equal(translator.generate(source, 5, begin=1), target[:, 1:])
print("their performer: parity, counting, sampling and extraction work;", report.bit_equal, "of 30 bit-equal")
'''


def test_a_block_of_another_package_needs_no_edit_here(tmp_path):
    (tmp_path / "their_blocks.py").write_text(PERFORMER)
    info = tmp_path / "their_blocks-0.1.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: their-blocks\nVersion: 0.1\n")
    (info / "entry_points.txt").write_text("[nas.blocks]\ntheirs = their_blocks\n")
    root = Path(__file__).parents[2]
    done = subprocess.run([sys.executable, "-c", SCRIPT], cwd=root, capture_output=True, text=True,
                          env={"PYTHONPATH": f"{tmp_path}:{root}", "PATH": ""})
    assert done.returncode == 0, done.stderr
    assert "parity, counting, sampling and extraction work" in done.stdout


def test_a_broken_package_is_named(tmp_path):
    (tmp_path / "broken_blocks.py").write_text("import a_module_that_is_not_there\n")
    info = tmp_path / "broken-0.1.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: broken\nVersion: 0.1\n")
    (info / "entry_points.txt").write_text("[nas.blocks]\nbroken = broken_blocks\n")
    done = subprocess.run([sys.executable, "-m", "nas", "show", "lm-tiny"], capture_output=True, text=True,
                          env={"PYTHONPATH": str(tmp_path), "PATH": ""})
    assert done.returncode == 2
    assert "'broken_blocks'" in done.stderr and "a_module_that_is_not_there" in done.stderr
    assert "Traceback" not in done.stderr


RESIDUAL = '''
"""Halves what a block says."""

from search_spaces.residual import ResidualKind
from supernet.residuals._base import Residual


class Halved(Residual):
    def add(self, streams, sub):
        return streams + sub(streams) / 2


HALVED = ResidualKind("halved", Halved)
'''
WITH_RESIDUAL = '''
import random
from search_spaces import residual
from search_spaces.files.loader import space_from_text
from tests.parity import Report, compare, randomised

assert residual.names()[0] == "plain" and "halved" in residual.names()
space = space_from_text("""
{schema_version: 1, name: theirs, family: lm, vocab_size: 50, context: 16, width: [16, 32], residual: [plain, halved],
 embedding: {lookup: {}}, head: {tied: {}}, decoder: {slots: 2, layers: {one: {
   mixer: {attention: {n_heads: 2}}, ffn: {ffn: {inner: [1x, 2x]}}}}}}
""", "theirs")
report, rng, net = Report(), random.Random(0), randomised(space)
archs = [space.sample(rng) for _ in range(10)]
for i, arch in enumerate(archs):
    compare(net, arch, i, report)
assert report.ok and {arch.residual for arch in archs} == {"plain", "halved"}
'''


def test_a_residual_of_another_package_needs_no_edit_here(tmp_path):
    (tmp_path / "their_residuals.py").write_text(RESIDUAL)
    info = tmp_path / "their_residuals-0.1.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: their-residuals\nVersion: 0.1\n")
    (info / "entry_points.txt").write_text("[nas.residuals]\ntheirs = their_residuals\n")
    root = Path(__file__).parents[2]
    done = subprocess.run([sys.executable, "-c", WITH_RESIDUAL], cwd=root, capture_output=True, text=True,
                          env={"PYTHONPATH": f"{tmp_path}:{root}", "PATH": ""})
    assert done.returncode == 0, done.stderr
