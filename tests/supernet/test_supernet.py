"""The shared store: determinism, threads, precision, data-parallel gradients, training mode."""

import copy
import dataclasses
import random
import threading

import pytest
import torch
import torch.multiprocessing as mp

from search_spaces import InputError, load_space
from search_spaces.files.loader import space_from_text
from supernet import Supernet, extract
from supernet.train.parallel import reduce_gradients

SPACE = load_space("lm-tiny")
TOKENS = torch.arange(40).view(4, 10)


def sampled(n, seed=0):
    rng = random.Random(seed)
    return [SPACE.sample(rng) for _ in range(n)]


def test_the_same_seed_gives_the_same_store():
    a, b, c = (Supernet(SPACE, seed=seed).state_dict() for seed in (0, 0, 1))
    assert all(torch.equal(a[name], b[name]) for name in a)
    assert not all(torch.equal(a[name], c[name]) for name in a)


def test_a_state_dict_round_trips_and_a_copy_runs():
    net, other = Supernet(SPACE, seed=0).eval(), Supernet(SPACE, seed=1).eval()
    arch = SPACE.largest()
    other.load_state_dict(net.state_dict())
    assert torch.equal(net(arch, TOKENS), other(arch, TOKENS))
    assert torch.equal(net(arch, TOKENS), copy.deepcopy(net)(arch, TOKENS))


def test_threads_do_not_disturb_each_other():
    net, archs = Supernet(SPACE).eval(), sampled(12)
    with torch.no_grad():
        alone = [net(arch, TOKENS) for arch in archs]
        wrong = []

        def work(seed):
            order = list(range(len(archs)))
            with torch.no_grad():
                for _ in range(4):
                    random.Random(seed).shuffle(order)
                    wrong.extend(i for i in order if not torch.equal(net(archs[i], TOKENS), alone[i]))

        threads = [threading.Thread(target=work, args=(seed,)) for seed in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert wrong == []


def test_nothing_stays_bound_after_a_call():
    net, arch = Supernet(SPACE), SPACE.largest()
    net(arch, TOKENS).sum().backward()
    first = {name: p.grad.clone() for name, p in net.named_parameters() if p.grad is not None}
    net.zero_grad()
    net(SPACE.smallest(), TOKENS).sum().backward()
    net.zero_grad()
    net(arch, TOKENS).sum().backward()
    assert all(torch.equal(first[name], p.grad) for name, p in net.named_parameters() if name in first)


@pytest.mark.parametrize("seed", range(4))
def test_it_runs_under_autocast_like_the_plain_model(seed):
    net = Supernet(SPACE).eval()
    arch = SPACE.sample(random.Random(seed))
    with torch.autocast("cpu", dtype=torch.bfloat16), torch.no_grad():
        bound, plain = net(arch, TOKENS), extract(net, arch)(TOKENS)
    assert torch.equal(bound, plain)


@pytest.mark.skipif(not torch.accelerator.is_available(), reason="no accelerator on this machine")
def test_it_runs_on_an_accelerator():
    device = torch.accelerator.current_accelerator()
    net = Supernet(SPACE).eval().to(device)
    for arch in sampled(5):
        bound, plain = net(arch, TOKENS.to(device)), extract(net, arch)(TOKENS.to(device))
        assert torch.allclose(bound, plain, atol=1e-5)


@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16])
def test_the_precision_of_the_store_reaches_every_table(dtype):
    text = """
    {schema_version: 1, name: waves, family: lm, vocab_size: 30, context: 16, width: [8, 16],
     positions: [sinusoidal, rotary], embedding: {lookup: {scale: true}}, head: {tied: {}},
     decoder: {slots: 2, layers: {one: {mixer: {attention: {n_heads: 2}}, ffn: {ffn: {inner: 2x}}}}}}
    """
    space = space_from_text(text, "waves")
    net = Supernet(space).eval().to(dtype)
    for positions in ("sinusoidal", "rotary"):
        arch = space.decode({"width": 8, "positions": positions})
        bound = net(arch, TOKENS[:, :9] % 30)
        assert bound.dtype == dtype
        assert torch.equal(bound, extract(net, arch)(TOKENS[:, :9] % 30))


def test_dropout_works_in_training_only():
    net, arch = Supernet(SPACE, dropout=0.3), SPACE.largest()
    torch.manual_seed(0)
    assert not torch.equal(net(arch, TOKENS), net(arch, TOKENS))
    net.eval()
    assert torch.equal(net(arch, TOKENS), net(arch, TOKENS))
    torch.manual_seed(1)
    bound = net.train()(arch, TOKENS)
    torch.manual_seed(1)
    assert torch.equal(bound, extract(net, arch)(TOKENS))


def test_a_subnet_can_be_trained_through_the_store():
    net, arch = Supernet(SPACE), SPACE.smallest()
    optimiser = torch.optim.AdamW(net.parameters(), lr=1e-2, weight_decay=0.0)
    losses = []
    for _ in range(30):
        loss = torch.nn.functional.cross_entropy(net(arch, TOKENS).flatten(0, 1), TOKENS.flatten())
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        losses.append(float(loss.detach()))
    assert losses[-1] < losses[0] - 1


def test_an_architecture_of_another_space_is_refused_by_name():
    net, other = Supernet(SPACE), load_space("lm-small")
    with pytest.raises(InputError, match="too small for .*not in this space"):
        net(other.largest(), TOKENS)
    layer = dataclasses.replace(SPACE.smallest().decoder[0], mixer_slot=9)
    with pytest.raises(InputError, match="stores no decoder/9/mixer.*not in this space"):
        net(dataclasses.replace(SPACE.smallest(), decoder=(layer,)), TOKENS)


def _worker(rank, folder, archs, result):
    torch.distributed.init_process_group("gloo", init_method=f"file://{folder}/rendezvous", rank=rank, world_size=2)
    net = Supernet(SPACE).double()
    for arch in archs:
        (net(arch, TOKENS[rank * 2 : rank * 2 + 2]).square().mean() / 2).backward()
    reduce_gradients(net.parameters())
    if rank == 0:
        torch.save({n: p.grad for n, p in net.named_parameters() if p.grad is not None}, result)
    torch.distributed.destroy_process_group()


def test_two_processes_give_the_gradients_of_one(tmp_path):
    archs = sampled(3)
    mp.spawn(_worker, args=(str(tmp_path), archs, tmp_path / "gradients.pt"), nprocs=2)
    together = torch.load(tmp_path / "gradients.pt", weights_only=True)
    net = Supernet(SPACE).double()
    for arch in archs:
        net(arch, TOKENS).square().mean().backward()
    alone = {n: p.grad for n, p in net.named_parameters() if p.grad is not None}
    assert alone.keys() == together.keys()
    assert all(torch.allclose(alone[name], together[name], atol=1e-12) for name in alone)


def test_changing_the_mode_before_backward_does_not_disturb_checkpointing():
    net, arch = Supernet(SPACE, dropout=0.2), SPACE.largest()
    net.checkpointing = True
    loss = net(arch, TOKENS).square().mean()
    net.eval()
    loss.backward()
    assert all(p.grad.isfinite().all() for p in net.parameters() if p.grad is not None)
