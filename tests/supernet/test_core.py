"""A full matrix that shares a core with a factorised one."""

import random

import pytest
import torch

from search_spaces.files.loader import space_from_text
from supernet import Supernet, Transformer, extract
from supernet.filling import fill
from supernet.store import has_cores

TEXT = """
{schema_version: 1, name: cores, family: lm, vocab_size: 20, context: 8, width: [8, 12], positions: rotary,
 embedding: {lookup: {rank: %s, scale: %s}}, head: {tied: {}, linear: {head_rank: %s}},
 decoder: {slots: 2, layers: {one: {mixer: {attention: {n_heads: 2, head_dim: 4}}, ffn: {ffn: {inner: 8}}}}}}
"""
TOKENS = torch.arange(8)[None]


def space(rank="[2, 4, full]", scale="false", head_rank="[2, full]"):
    return space_from_text(TEXT % (rank, scale, head_rank), "cores")


def arch(made, **genes):
    defaults = {"width": 12, "embedding.lookup.rank": "full", "head.kind": "linear", "head.linear.head_rank": "full"}
    return made.decode({**defaults, **genes})


@pytest.mark.parametrize("scale", ["false", "true"])
def test_the_full_table_is_the_product_of_the_factors_where_its_own_is_zero(scale):
    made = space(scale=scale)
    net = Supernet(made).eval()
    for name, parameter in net.named_parameters():
        if name.endswith(("@own", "bias")):
            parameter.data.zero_()
    full, factorised = (arch(made, **{"embedding.lookup.rank": rank}) for rank in ("full", 4))
    with torch.no_grad():
        embedded = [extract(net, each).embedding(TOKENS) for each in (full, factorised)]
    torch.testing.assert_close(*embedded)


def test_the_full_head_is_the_product_of_the_factors_where_its_own_is_zero():
    made = space()
    net = Supernet(made).eval()
    dict(net.named_parameters())["head/linear/words/weight@own"].data.zero_()
    with torch.no_grad():
        torch.testing.assert_close(net(arch(made), TOKENS), net(arch(made, **{"head.linear.head_rank": 2}), TOKENS))


@torch.no_grad()
def test_extracted_models_fold_the_core():
    made = space()
    net = Supernet(made).eval()
    for seed in range(12):
        one = made.sample(random.Random(seed))
        assert torch.equal(net(one, TOKENS), extract(net, one)(TOKENS))


@torch.no_grad()
def test_a_folded_table_follows_the_weights():
    made = space()
    net = Supernet(made).eval()
    before = net(arch(made), TOKENS)
    dict(net.named_parameters())["embedding/lookup/project/weight"].mul_(2)
    after = net(arch(made), TOKENS)
    assert not torch.equal(before, after)
    assert torch.equal(after, extract(net, arch(made))(TOKENS))


def test_the_factors_learn_from_the_full_table():
    made = space()
    net = Supernet(made)
    net(arch(made, **{"head.kind": "tied"}), TOKENS).sum().backward()
    named = dict(net.named_parameters())
    assert all(named[f"embedding/lookup/{name}/weight"].grad.abs().sum() > 0 for name in ("table", "project"))


@pytest.mark.parametrize("made", [space(rank="full", head_rank="full"), space(rank="[2, 4]", head_rank="2")])
def test_spaces_without_both_store_what_they_did(made):
    net = Supernet(made)
    assert not has_cores(net.state_dict())
    assert net.state_dict().keys() == Supernet(made, cores=False).state_dict().keys()


def test_weights_of_earlier_versions_still_run():
    made = space()
    old, new = Supernet(made, cores=False), Supernet(made)
    assert has_cores(new.state_dict()) and not has_cores(old.state_dict())
    assert "embedding/lookup/table/weight@direct" in old.state_dict()
    again = Supernet(made, seed=1, cores=False)
    again.load_state_dict(old.state_dict())
    with torch.no_grad():
        assert torch.equal(again.eval()(arch(made), TOKENS), old.eval()(arch(made), TOKENS))


def test_a_narrow_map_is_no_core_for_a_wider_table():
    """The factors have to reach every column: here the widest model is never factorised."""
    made = space_from_text((TEXT % ("[8, full]", "false", "full")).replace("[8, 12]", "[8]"), "cores")
    assert not has_cores(Supernet(made).state_dict())


@torch.no_grad()
@pytest.mark.parametrize("scale", ["false", "true"])
def test_factors_start_as_the_singular_vectors_of_a_full_table_that_fills_the_store(scale):
    made = space(scale=scale)
    net, model = Supernet(made).eval(), Transformer(arch(made), seed=3).eval()
    fill(net, model)
    torch.testing.assert_close(net(arch(made), TOKENS), model(TOKENS))
    table = model.state_dict()["embedding.table.weight"]
    low = extract(net, arch(made, **{"embedding.lookup.rank": 4}))
    product = low.embedding.table.weight @ low.embedding.project.weight.T
    rows, values, columns = torch.linalg.svd(table, full_matrices=False)
    best = rows[:, :4] * values[:4] @ columns[:4]
    torch.testing.assert_close(product * (4 / 12) ** 0.5 if scale == "true" else product, best, atol=1e-5, rtol=1e-4)
