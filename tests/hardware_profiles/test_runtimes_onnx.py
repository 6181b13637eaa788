"""What ONNX Runtime quantises, and the providers it has."""

import pytest
import torch
from torch import nn

from hardware_profiles.runtimes import onnx_runtime
from search_spaces import InputError

pytestmark = pytest.mark.skipif(bool(onnx_runtime.missing()), reason=str(onnx_runtime.missing()))
INT8 = {"threads": 1, "precision": "int8"}


class Shared(nn.Module):
    """One linear map used twice, and a product of two activations."""

    def __init__(self):
        super().__init__()
        self.map = nn.Linear(128, 128, bias=False)

    def forward(self, x):
        y = self.map(self.map(x))
        return y @ y.transpose(1, 2)


def test_quantises_every_product_with_a_weight(tmp_path):
    import onnx

    path = tmp_path / "model.onnx"
    facts = onnx_runtime.compile(Shared().eval(), (torch.randn(1, 64, 128),), str(path), INT8)
    kinds = [node.op_type for node in onnx.load(path).graph.node]
    assert kinds.count("MatMulInteger") == 2 and kinds.count("MatMul") == 1
    assert facts["not_quantised"] == pytest.approx(64 / (2 * 128 + 64))


def test_quantises_a_linear_map_over_rows(tmp_path):
    facts = onnx_runtime.compile(nn.Linear(8, 4).eval(), (torch.randn(2, 8),), str(tmp_path / "model.onnx"), INT8)
    assert facts == {"not_quantised": 0.0}


class Grouped(nn.Module):
    """A linear map in two groups after one over all."""

    def __init__(self):
        super().__init__()
        self.map, self.groups = nn.Linear(8, 8, bias=False), nn.Parameter(torch.randn(2, 4, 3))

    def forward(self, x):
        return torch.bmm(self.map(x).reshape(-1, 2, 4).transpose(0, 1), self.groups)


def test_leaves_the_weights_of_groups_as_they_are(tmp_path):
    module, x, path = Grouped().eval(), torch.randn(5, 8), str(tmp_path / "model.onnx")
    facts = onnx_runtime.compile(module, (x,), path, INT8)
    assert facts["not_quantised"] == pytest.approx(2 * 4 * 3 / (2 * 4 * 3 + 8 * 8))
    with torch.no_grad():
        expected = module(x)
    found = torch.from_numpy(onnx_runtime.call(path, INT8)([x.numpy()])[0])
    assert (found - expected).abs().max() < 0.05 * expected.abs().max()


class Summed(nn.Module):
    """A linear map, and products written as Einsum, of two and of three tensors."""

    def __init__(self):
        super().__init__()
        self.map, self.heads = nn.Linear(8, 8, bias=False), nn.Parameter(torch.randn(2, 8, 3))
        self.gates, self.mix = nn.Parameter(torch.randn(4, 8)), nn.Parameter(torch.randn(8, 5))

    def forward(self, x):
        y = self.map(x)
        return torch.einsum("bni,hio->bnho", y, self.heads), torch.einsum("bni,si,im->bnsm", y, self.gates, self.mix)


def test_products_that_are_written_as_einsum_count_as_not_quantised(tmp_path):
    import onnx

    path = tmp_path / "model.onnx"
    facts = onnx_runtime.compile(Summed().eval(), (torch.randn(2, 7, 8),), str(path), INT8)
    kept = [node.op_type for node in onnx.load(path).graph.node if node.op_type in onnx_runtime.PRODUCTS]
    assert kept, "nothing is left in fp32"
    left = 2 * 8 * 3 + 4 * 8 * 5
    assert facts["not_quantised"] == pytest.approx(left / (left + 8 * 8))


class Tied(nn.Module):
    """A table that words are read from and scored with."""

    def __init__(self):
        super().__init__()
        self.table = nn.Embedding(1000, 64)

    def forward(self, tokens):
        return self.table(tokens) @ self.table.weight.T


def test_a_table_of_words_is_small_in_int8(tmp_path):
    module, tokens = Tied().eval(), torch.randint(1000, (2, 16))
    paths = {precision: str(tmp_path / f"{precision}.onnx") for precision in ("fp32", "int8")}
    for precision, path in paths.items():
        onnx_runtime.compile(module, (tokens,), path, {"threads": 1, "precision": precision})
    fp32, int8 = ((tmp_path / f"{precision}.onnx").stat().st_size for precision in paths)
    assert int8 < 0.6 * fp32  # twice in eight bits: to be read, and turned around to score
    with torch.no_grad():
        expected = module(tokens)
    found = torch.from_numpy(onnx_runtime.call(paths["int8"], INT8)([tokens.numpy()])[0])
    assert (found - expected).abs().max() < 0.05 * expected.abs().max()


def test_a_file_says_nothing_of_the_source_it_is_made_from(tmp_path):
    path = tmp_path / "model.onnx"
    onnx_runtime.compile(nn.Linear(8, 4).eval(), (torch.randn(2, 8),), str(path), {"threads": 1, "precision": "fp32"})
    assert b".py" not in path.read_bytes()


def test_refuses_a_provider_that_is_not_there():
    with pytest.raises(InputError, match="'GuessedProvider' is not available here; available: .*CPUExecutionProvider"):
        onnx_runtime.load("model.onnx", [], {"threads": 1, "provider": "GuessedProvider"})


def test_the_table_of_operators_is_built_once_a_process(tmp_path, monkeypatch):
    from torch.onnx._internal.exporter._registration import ONNXRegistry

    built, build = [], ONNXRegistry.from_torchlib

    def counted(*version):
        built.append(version)
        return build(*version)

    monkeypatch.setattr(onnx_runtime, "_registries", {})
    monkeypatch.setattr(ONNXRegistry, "from_torchlib", counted)
    for width in (8, 4):
        onnx_runtime.compile(nn.Linear(width, 4).eval(), (torch.randn(2, width),), str(tmp_path / "model.onnx"),
                             {"threads": 1, "precision": "fp32"})
    assert len(built) == 1 and ONNXRegistry.from_torchlib is counted
