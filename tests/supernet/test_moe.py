"""The mixture of experts against a loop over tokens, and the loss that balances it."""

import pytest
import torch

from search_spaces.files.loader import space_from_text
from supernet.blocks.moe import BALANCE, MixtureOfExperts, balance_loss
from supernet.build import fresh
from supernet.call import Call
from supernet.train.step import adds_loss
from tests.supernet.toys import LM, plain_trainer, supernet_trainer

SPACE = space_from_text("""
{schema_version: 1, name: experts, family: lm, vocab_size: 20, context: 8, width: 8, embedding: {lookup: {}},
 head: {tied: {}}, decoder: {slots: 2, layers: {plain: {mixer: {attention: {n_heads: 2}},
   ffn: {moe: {experts: [2, 4], top_k: [1, 2], inner: 8}}}}}}
""", "experts")


def module(experts=5, top_k=2, bias=True):
    torch.manual_seed(0)
    made = fresh(MixtureOfExperts(width=8, bias=bias, experts=experts, top_k=top_k, inner=6, activation="gelu"))
    with torch.no_grad():
        for parameter in made.parameters():
            parameter.add_(torch.randn_like(parameter) * 0.3)
    return made.eval()


def by_hand(made, x):
    """One token after the other, each through the experts of its greatest probabilities."""
    y = torch.zeros_like(x)
    for place in torch.cartesian_prod(*map(torch.arange, x.shape[:2])).tolist():
        token = x[tuple(place)]
        shares = (made.route.weight @ token).softmax(0)
        for i in shares.argsort(descending=True)[: made.top_k].tolist():
            up_bias, down_bias = (0, 0) if made.up_bias is None else (made.up_bias[i], made.down_bias[i])
            inner = torch.nn.functional.gelu(token @ made.up[i] + up_bias)
            y[tuple(place)] += shares[i] * (inner @ made.down[i] + down_bias)
    return y


@torch.no_grad()
@pytest.mark.parametrize(("experts", "top_k", "bias"), [(5, 2, True), (4, 1, False), (3, 3, True)])
def test_it_is_a_loop_over_tokens_however_it_runs(experts, top_k, bias):
    made, x = module(experts, top_k, bias), torch.randn(2, 7, 8)
    expected = by_hand(made, x)
    assert torch.allclose(made(x, Call()), expected, atol=1e-6)
    for n in (1, 7):
        batch = x[:1, :n]
        exported = torch.export.export(Called(made), (batch,), strict=False).module()
        assert torch.allclose(exported(batch), expected[:1, :n], atol=1e-6)


class Called(torch.nn.Module):
    def __init__(self, block):
        super().__init__()
        self.block = block

    def forward(self, x):
        return self.block(x, Call())


def test_nothing_is_dropped_where_all_tokens_want_one_expert():
    made = module(4, 1, False)
    with torch.no_grad():
        made.route.weight.copy_(torch.tensor([[9.0], [0], [0], [0]]).expand(4, 8))
    x = torch.rand(1, 50, 8) + 0.1
    assert torch.allclose(made(x, Call()), by_hand(made, x), atol=1e-6)


def test_the_balance_is_least_where_loads_are_equal():
    shares = torch.eye(4)[torch.arange(8) % 4] * 0.9 + 0.025
    equal = balance_loss(shares, shares.argmax(-1, keepdim=True), None)
    assert torch.allclose(equal, torch.ones(()))
    skewed = shares[torch.zeros(8, dtype=torch.long)]
    assert balance_loss(skewed, skewed.argmax(-1, keepdim=True), None) > 3
    mask = torch.arange(8)[None] < 4  # padding has no say
    padded = torch.cat([shares[:4], skewed[:4]])
    assert torch.allclose(balance_loss(padded, padded.argmax(-1, keepdim=True), mask), torch.ones(()))


def test_the_loss_reaches_the_router_and_the_plain_path_has_none():
    assert adds_loss(SPACE.largest()) and not adds_loss(LM.largest())
    made, losses = module(4, 1, False), []
    made(torch.randn(1, 5, 8), Call(losses=losses))
    assert len(losses) == 1 and losses[0] >= BALANCE * 0.5
    losses[0].backward()
    assert made.route.weight.grad.any() and made.up.grad is None


@pytest.mark.parametrize("checkpointing", [False, True])
def test_training_adds_the_loss_once_for_each_layer(checkpointing):
    trainer = plain_trainer(SPACE.largest(), checkpointing=checkpointing)
    batch = trainer.data.batch(0, 4, 0)
    trainer.model.train()
    trainer.model.checkpointing = checkpointing
    found = trainer.model(batch.tokens, outputs=("logits", "aux_loss"))
    assert 2 * BALANCE * 0.9 < found["aux_loss"] < 2 * BALANCE * 4
    gradients = []
    for own in (True, False):
        trainer.clear_gradients(1)
        if own:
            trainer.add_gradients((SPACE.largest(),), batch, batch.n_labels)
        else:
            logits = trainer.model(batch.tokens)
            loss = torch.nn.functional.cross_entropy(logits.flatten(0, 1), batch.labels.flatten())
            (loss + trainer.model(batch.tokens, outputs=("aux_loss",))["aux_loss"]).backward()
        gradients.append({name: p.grad.clone() for name, p in trainer.named.items()})
    assert all(torch.allclose(gradients[0][name], gradients[1][name], atol=1e-6) for name in gradients[0])


def test_a_supernet_of_experts_learns():
    trainer = supernet_trainer(SPACE, steps=60, n_random=1)
    reports = [trainer.step() for _ in range(60)]
    assert reports[-1].losses[0] < reports[0].losses[0] - 0.5
