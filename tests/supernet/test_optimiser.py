"""Muon for the matrices of layers, AdamW for the rest."""

import pytest
import torch

from search_spaces import load_space
from supernet import Supernet, Transformer
from supernet.train.checkpoint import Checkpoints
from supernet.train.optimiser import matrices_of
from tests.supernet.toys import LM, plain_trainer, same, snapshot, supernet_trainer

TINY = load_space("lm-tiny")


def test_matrices_are_those_of_layers():
    found = matrices_of(Transformer(TINY.largest()))
    assert found["decoder.0.mixer.block.attend.q.weight"] == (64, 64)
    assert not any(name.startswith(("embedding", "head")) or "norm" in name or name.endswith("bias") for name in found)


def test_stored_matrices_have_their_heads_in_one_axis():
    """The store keeps heads x head size x width; at most four heads, at most 32 wide, in 64 channels."""
    stored = matrices_of(Supernet(TINY))
    assert stored["decoder/0/mixer/attention/block/attend/q/weight"] == (128, 64)
    assert stored["decoder/0/mixer/attention/block/attend/o/weight"] == (64, 128)


def test_an_update_is_orthogonal_in_plain_models_and_in_the_store():
    """All its singular values are about 1, at the size of an AdamW update."""
    plain = plain_trainer(LM.largest(), optimiser="muon", weight_decay=0.0)
    shared = supernet_trainer(LM, strategy="largest", optimiser="muon", weight_decay=0.0)
    for trainer in (plain, shared):
        names = matrices_of(trainer.model)
        before = {name: trainer.named[name].detach().clone() for name in names}
        trainer.step()
        for name, (rows, columns) in names.items():
            if trainer.named[name].grad is None:
                continue
            update = (before[name] - trainer.named[name].detach()).view(rows, columns) / trainer.recipe.lr
            largest = torch.linalg.svdvals(update)[0] / (0.2 * max(rows, columns) ** 0.5)
            assert 0.5 < largest < 1.6, name


@pytest.mark.parametrize("strategy", ["turns", "sandwich"])
def test_a_resumed_training_ends_alike(tmp_path, strategy):
    settings = {"optimiser": "muon", "strategy": strategy, "ema": 0.9}
    whole, first = supernet_trainer(**settings), supernet_trainer(**settings)
    for _ in range(4):
        whole.step()
    for _ in range(2):
        first.step()
    Checkpoints(tmp_path, 1).save(first)
    again = supernet_trainer(**settings)
    Checkpoints(tmp_path, 1).load_newest(again)
    for _ in range(2):
        again.step()
    assert same(snapshot(whole), snapshot(again))


def test_it_learns():
    trainer = plain_trainer(steps=40, optimiser="muon")
    losses = [trainer.step().losses[0] for _ in range(40)]
    assert losses[-1] < losses[0] - 1
