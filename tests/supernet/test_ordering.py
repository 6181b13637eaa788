"""Ordering by importance: permutation groups are derived, and the ordered architecture computes what it did before."""

import pytest
import torch

from search_spaces import InputError, SearchSpace, load_space, shipped_spaces
from search_spaces.files.loader import space_from_data, space_from_text, space_text
from search_spaces.files.reading import parse_yaml
from search_spaces.units import plan
from supernet import Supernet, extract
from supernet.batch import Batch
from supernet.filling import fill
from supernet.inference import run_model
from supernet.train.opening import OrderBeforeStep, largest_first
from supernet.train.ordering import order
from supernet.train.ordering.groups import find_groups
from supernet.train.strategy import make_strategy
from tests.supernet.toys import LM, SEQ2SEQ, Rows, recipe, supernet_trainer

GROUPED = space_from_text("""
{schema_version: 1, name: grouped, family: lm, vocab_size: 20, context: 8, width: [8, 12], positions: rotary,
 embedding: {lookup: {rank: 4}}, head: {tied: {}},
 decoder: {slots: 2, layers: {plain: {
   mixer: {attention: {n_heads: [2, 6], head_dim: 4, n_kv_heads: 2}}, ffn: {ffn: {inner: [1x, 2x], gated: true}}}}}}
""", "grouped")


LARGE = ("albert", "delight-lm", "hat-like")


def shallow(name: str) -> SearchSpace:
    """A shipped space with few words, a large one with two layers."""
    data = {**parse_yaml(space_text(name), name), "vocab_size": 500 if name == "zoo-lm" else 50, "context": 16}
    if name not in LARGE:
        return space_from_data(data, name)
    for stack in (data[side] for side in ("encoder", "decoder") if side in data):
        stack["slots"] = 2
        scaled = stack.get("depth", {}).get("layers") == "scaled"
        stack["depth"] = {"keep": "first", "layers": "scaled" if scaled else 2}
        stack.pop("sharing", None)
    if "scaling" in data:
        data["scaling"]["depths"] = ["2-2"]
    return space_from_data(data, name)


def disturbed(space: SearchSpace) -> Supernet:
    """A supernet in which no two channels, heads or norms are alike."""
    torch.manual_seed(0)
    net = Supernet(space, seed=0).eval()
    with torch.no_grad():
        for tensor in net.parameters():
            tensor.add_(0.1 * torch.randn_like(tensor))
    return net


def calibration(space: SearchSpace, n: int = 2) -> list[Batch]:
    """Random batches of the family; rows of encoders and seq2seq models are padded."""
    noise = torch.Generator().manual_seed(1)
    def ids(length: int) -> torch.Tensor:
        return torch.randint(0, space.vocab_size, (3, length), generator=noise)

    mask = torch.arange(7) < torch.tensor([7, 4, 6])[:, None]
    made = {"lm": lambda: Batch(ids(7), ids(7)),
            "seq2seq": lambda: Batch(ids(7), ids(5), target=ids(5), mask=mask),
            "encoder": lambda: Batch(ids(7), _labels(space, ids), mask=mask)}
    return [made[space.family]() for _ in range(n)]


def _labels(space: SearchSpace, ids) -> torch.Tensor:
    return torch.arange(3) % space.n_classes if space.n_classes else ids(7)


@torch.no_grad()
def outputs(net: Supernet, batch: Batch, arch=None) -> torch.Tensor:
    return run_model(net, arch or net.space.largest(), batch)


def check_unchanged(space: SearchSpace, score: str) -> None:
    net, batches = disturbed(space), calibration(space)
    before = outputs(net, batches[0])
    report = order(net, batches, score)
    assert any(found != tuple(sorted(found)) for found in report.orders.values()), "nothing moved"
    after = outputs(net, batches[0])
    assert (before - after).abs().max() <= 2e-5 * before.abs().max()


@pytest.mark.parametrize("name", shipped_spaces())
def test_an_ordered_supernet_computes_the_same(name):
    check_unchanged(shallow(name), "activation")


@pytest.mark.parametrize("name", ["lm-tiny", "encoder-small", "seq2seq-small"])
def test_the_first_order_change_of_the_loss_is_a_score_too(name):
    check_unchanged(shallow(name), "taylor")


@pytest.mark.parametrize("space", [LM, SEQ2SEQ, GROUPED], ids=lambda space: space.name)
def test_grouped_queries_and_pairs_of_stacks_are_ordered_too(space):
    check_unchanged(space, "activation")


def named(space: SearchSpace) -> dict[str, tuple[int, int]]:
    return {group.name: (group.size, group.within) for group in find_groups(space.largest()).groups}


def test_groups_follow_from_the_shapes():
    assert named(LM) == {
        **{f"decoder.{i}.mixer {dim}": size for i in range(3)
           for dim, size in (("head_dim", (4, 1)), ("n_heads and n_kv_heads", (2, 1)))},
        **{f"decoder.{i}.ffn inner": (24, 1) for i in range(3)}, "width": (12, 1)}


def test_query_heads_stay_with_their_key_and_rotary_channels_in_their_places():
    groups = find_groups(GROUPED.largest())
    assert named(GROUPED) == {
        "embedding rank": (4, 1), "decoder.0.ffn inner": (24, 1), "decoder.1.ffn inner": (24, 1), "width": (12, 1),
        **{f"decoder.{i}.mixer {dim}": size for i in range(2)
           for dim, size in (("n_heads", (6, 2)), ("n_kv_heads", (2, 1)))}}
    assert set(groups.left_alone) == {"decoder.0.mixer head_dim", "decoder.1.mixer head_dim"}


def test_sinusoids_and_split_channels_keep_the_width_in_place():
    for name, culprit in (("lm-mixed", "lookup (embedding)"), ("seq2seq-small", "lsra (encoder.0.mixer)")):
        assert find_groups(shallow(name).largest()).left_alone["width"].startswith(culprit)


def test_what_is_never_active_comes_last():
    """Channels of a feed-forward, a head and a channel of the stream whose activations vanish."""
    net = disturbed(LM)
    with torch.no_grad():
        net.get_stored("decoder/0/ffn/ffn/block/up/weight")[3] = 0
        net.get_stored("decoder/0/ffn/ffn/block/up/bias")[3] = 0
        net.get_stored("decoder/1/mixer/attention/block/attend/v/weight")[0] = 0
        net.get_stored("decoder/1/mixer/attention/block/attend/v/bias")[0] = 0
        for name, tensor in net.named_parameters():
            if "/norm/" in name:
                tensor[5] = 0
    report = order(net, calibration(LM))
    assert report.orders["decoder.0.ffn inner"][-1] == 3
    assert report.orders["decoder.1.mixer n_heads and n_kv_heads"] == (1, 0)
    assert report.orders["width"][-1] == 5


def test_a_layer_that_does_nothing_has_the_score_0():
    net = disturbed(LM)
    with torch.no_grad():
        for name, tensor in net.named_parameters():
            if name.startswith("decoder/1/") and ("/o/" in name or "/down/" in name):
                tensor.zero_()
    layers = order(net, calibration(LM)).layers
    assert layers["decoder.1"] == pytest.approx(0, abs=1e-6) and min(layers["decoder.0"], layers["decoder.2"]) > 0.01


def test_a_training_that_orders_on_its_way_ends_with_the_same_function():
    """Averages and moments of AdamW move with the weights they belong to."""
    plain, ordered = (supernet_trainer(strategy="largest", ema=0.5, dtype=torch.float64) for _ in range(2))
    ordered.before_step = OrderBeforeStep(3)
    for trainer in (plain, ordered):
        while not trainer.finished:
            trainer.step()
    batch = Rows().batch(0, 4, 9)
    assert torch.allclose(outputs(plain.model.eval(), batch), outputs(ordered.model.eval(), batch), atol=1e-9)
    with plain.averaged() as one, ordered.averaged() as other:
        assert torch.allclose(outputs(one, batch), outputs(other, batch), atol=1e-9)
    assert any(not torch.allclose(one, other) for one, other in zip(plain.model.parameters(),
                                                                    ordered.model.parameters()))


@pytest.mark.parametrize("optimiser", ["adamw", "muon"])
def test_moments_move_with_their_weights(optimiser):
    trainer = supernet_trainer(strategy="largest", ema=0.5, optimiser=optimiser)
    trainer.step()
    with torch.no_grad():
        for full, tensor in trainer.tensors().items():
            part, _, name = full.partition("/")
            weight = trainer.named.get(name.partition("/")[2] if part == "adam" else name)
            if weight is not None and part != "model" and tensor.numel() == weight.numel():
                tensor.copy_(weight.view(tensor.shape))
    before = {name: weight.detach().clone() for name, weight in trainer.named.items()}
    OrderBeforeStep(1)(trainer)
    assert any(not torch.equal(before[name], weight) for name, weight in trainer.named.items())
    moved = trainer.tensors()
    for name, weight in trainer.named.items():
        found = [tensor for full, tensor in moved.items() if full.endswith(f"/{name}") and tensor.numel() > 1]
        assert len(found) >= 2 and all(torch.equal(tensor.view(weight.shape), weight) for tensor in found)


def test_the_space_opens_after_the_largest_was_trained_alone():
    net = Supernet(LM)
    strategy = make_strategy("sandwich", LM, 0, 2, 10)
    first = largest_first(strategy, net, recipe(steps=10, order_at=0.3))
    assert [first.draw(step) for step in range(3)] == [(LM.largest(),)] * 3
    assert [first.draw(step) for step in range(3, 10)] == [strategy.draw(step) for step in range(3, 10)]
    assert largest_first(strategy, net, recipe(steps=10)) is strategy


def test_an_unknown_score_is_refused():
    with pytest.raises(InputError, match="'luck' is not allowed; allowed: activation, taylor"):
        order(Supernet(LM), [Rows().batch(0, 2, 0)], "luck")


@pytest.mark.parametrize("space", [LM, SEQ2SEQ, load_space("lm-tiny")], ids=lambda space: space.name)
def test_filling_is_the_inverse_of_extraction(space):
    for arch in (space.largest(), space.smallest()):
        model, other = extract(disturbed(space), arch), Supernet(space, seed=5).eval()
        untouched = {name: tensor.clone() for name, tensor in other.state_dict().items()}
        fill(other, model)
        again = extract(other, arch)
        for one, same in zip(model.state_dict().values(), again.state_dict().values()):
            torch.testing.assert_close(one, same, atol=1e-6, rtol=1e-5)  # a full table is folded from its core
        paths = {step.path.replace(".", "/") for step in plan(arch)}
        assert all(torch.equal(tensor, untouched[name]) for name, tensor in other.state_dict().items()
                   if not any(name.startswith(f"{path}/") for path in paths))
