"""Grouped queries: slices keep every query head with its key/value head, and each group has its own order."""

from __future__ import annotations

import torch

from search_spaces import Architecture
from search_spaces.files.loader import space_from_data
from supernet import Supernet, extract
from supernet.batch import Batch
from supernet.filling import fill
from supernet.train.ordering import order
from supernet.train.ordering.groups import find_groups
from supernet.train.ordering.order import permute, permute_stored
from supernet.transformer import Transformer

SPACE = space_from_data({
    "schema_version": 1, "name": "toy", "family": "lm", "vocab_size": 11, "context": 8, "width": 12,
    "positions": "rotary", "norm": "rmsnorm", "embedding": {"lookup": {}}, "head": {"tied": {}},
    "decoder": {"slots": 1, "layers": {"plain": {
        "mixer": {"grouped_attention": {"n_kv_heads": [1, 2, 3], "queries": [1, 2, 3], "head_dim": 4}},
        "ffn": {"ffn": {"inner": 8}}}}}}, "toy")
QUERIES, OUTPUT = "decoder.0.mixer.block.attend.q.weight", "decoder.0.mixer.block.attend.o.weight"


def filled() -> tuple[Supernet, Transformer]:
    """The store of a random model, which is the largest architecture."""
    model = Transformer(SPACE.largest(), seed=0).eval()
    net = Supernet(SPACE, seed=1).eval()
    fill(net, model)
    return net, model


def arch_of(n_kv_heads: int, queries: int) -> Architecture:
    """The architecture with these dims."""
    wanted = {"n_kv_heads": n_kv_heads, "queries": queries}
    return SPACE.decode({name: wanted[name.rpartition(".")[2]] for name in SPACE.genes})


def test_a_slice_takes_the_first_queries_of_the_first_groups() -> None:
    net, model = filled()
    whole, out = model.state_dict()[QUERIES].view(3, 3, 4, 12), model.state_dict()[OUTPUT].view(12, 3, 3, 4)
    small = extract(net, arch_of(2, 2)).state_dict()
    assert torch.equal(small[QUERIES].view(2, 2, 4, 12), whole[:2, :2])
    assert torch.equal(small[OUTPUT].view(12, 2, 2, 4), out[:, :2, :2])


def test_every_group_has_its_own_order() -> None:
    groups = {group.name: group for group in find_groups(SPACE.largest()).groups}
    queries = groups["decoder.0.mixer queries"]
    assert (queries.size, queries.within) == (9, 3) and groups["decoder.0.mixer n_kv_heads"].size == 3
    net, model = filled()
    tokens = torch.arange(10).reshape(2, 5)
    chosen = torch.tensor([2, 0, 1, 3, 5, 4, 8, 7, 6])
    permute(net, [queries], {queries.name: chosen}, permute_stored(net))
    before, after = (each.state_dict()[QUERIES].view(9, 4, 12) for each in (model, extract(net, SPACE.largest())))
    assert torch.equal(after, before[chosen])
    assert (net(SPACE.largest(), tokens) - model(tokens)).abs().max() < 1e-5


def test_ordering_keeps_the_function_and_puts_loud_queries_first() -> None:
    net, model = filled()
    with torch.no_grad():
        model.get_parameter("decoder.0.mixer.block.attend.v.weight").view(3, 4, 12)[1] *= 9.0
    fill(net, model)
    tokens = torch.arange(8)[None]
    report = order(net, [Batch(tokens, tokens)])
    assert report.orders["decoder.0.mixer n_kv_heads"][0] == 1, "the group whose values are the largest"
    assert (net(SPACE.largest(), tokens) - model(tokens)).abs().max() < 1e-5
