"""The training step: schedule, gradients, skipped steps, averages, and what must stay untouched."""

import math

import pytest
import torch
import torch.nn.functional as F

from search_spaces import InputError
from supernet import Supernet, Transformer
from supernet.batch import IGNORE, Batch
from supernet.inference import in_bf16, run_model
from supernet.train.optimiser import Optimisers
from supernet.train.recipe import Recipe
from supernet.train.step import Trainer
from supernet.train.strategy import Fixed
from tests.supernet.toys import LM, SEQ2SEQ, Rows, plain_trainer, recipe, same, snapshot, supernet_trainer


def weights(trainer):
    return {name: p.detach().clone() for name, p in trainer.named.items()}


def take(trainer, steps):
    return [trainer.step() for _ in range(steps)]


class TestLearningRate:
    def test_it_rises_then_falls_along_half_a_cosine(self):
        made = Recipe(lr=2.0, warmup=4, steps=14, final_lr=0.1)
        rates = [made.learning_rate(step) for step in range(15)]
        assert rates[:5] == [0.5, 1.0, 1.5, 2.0, 2.0]
        assert rates[9] == pytest.approx(2.0 * (0.1 + 0.9 / 2))
        assert rates[14] == pytest.approx(0.2)
        assert rates[4:] == sorted(rates[4:], reverse=True)

    @pytest.mark.parametrize(("warmup", "steps"), [(0, 1), (0, 10), (5, 5), (20, 5)])
    def test_short_trainings_have_a_rate_too(self, warmup, steps):
        made = Recipe(lr=1.0, warmup=warmup, steps=steps)
        assert all(0 < made.learning_rate(step) <= 1 for step in range(steps))

    def test_the_optimiser_gets_it(self):
        trainer = plain_trainer(warmup=3, lr=1e-3)
        reports = take(trainer, 4)
        assert [report.learning_rate for report in reports] == [trainer.recipe.learning_rate(i) for i in range(4)]
        assert {group["lr"] for group in trainer.optimiser.param_groups} == {reports[-1].learning_rate}


class TestLearning:
    def test_a_plain_model_learns(self):
        reports = take(plain_trainer(steps=60), 60)
        assert reports[0].losses[0] == pytest.approx(math.log(20), abs=0.5)
        assert reports[-1].losses[0] < reports[0].losses[0] - 1

    def test_a_supernet_learns_at_both_ends(self):
        trainer = supernet_trainer(steps=60, n_random=1)
        batch = trainer.data.batch(0, 16, 1)

        def losses():
            found = [run_model(trainer.model.eval(), arch, batch).detach() for arch in (LM.largest(), LM.smallest())]
            return [float(F.cross_entropy(logits.flatten(0, 1), batch.labels.flatten())) for logits in found]

        before = losses()
        take(trainer, 60)
        assert all(last < first - 0.3 for first, last in zip(before, losses()))

    def test_the_loss_is_that_of_the_weights_before_the_step(self):
        trainer = plain_trainer(data=Rows(ragged=True), label_smoothing=0.2)
        batch = trainer.data.batch(0, 4, 0)
        logits = run_model(trainer.model.eval(), trainer.model.arch, batch)
        wanted = F.cross_entropy(logits.flatten(0, 1), batch.labels.flatten(), ignore_index=IGNORE, label_smoothing=0.2)
        assert trainer.step().losses[0] == pytest.approx(float(wanted.detach()), rel=1e-5)

    def test_students_learn_from_the_first_and_the_labels(self):
        trainer = supernet_trainer(n_random=0, distill=0.3, dtype=torch.float64)
        archs, batch = trainer.strategy.draw(0), trainer.data.batch(0, 4, 0)
        teacher, student = (run_model(trainer.model.eval(), arch, batch).detach().flatten(0, 1) for arch in archs)
        labels = batch.labels.flatten()
        soft = -(teacher.softmax(-1) * student.log_softmax(-1)).sum(-1).mean()
        wanted = 0.3 * soft + 0.7 * F.cross_entropy(student, labels)
        assert trainer.step().losses == pytest.approx((float(F.cross_entropy(teacher, labels)), float(wanted)))

    def test_equal_recipes_give_equal_weights(self):
        settings = {"dropout": 0.2, "layerdrop": 0.3, "ema": 0.9}
        one, other, third = (supernet_trainer(seed=seed, **settings) for seed in (0, 0, 1))
        for trainer in (one, other, third):
            take(trainer, 2)
            torch.manual_seed(7)  # nobody else's random numbers matter
            take(trainer, 1)
        assert same(snapshot(one), snapshot(other))
        assert not same(snapshot(one), snapshot(third))

    def test_seq2seq_trains_with_masks(self):
        class Pairs:
            def batch(self, index, size, seed):
                source, target = torch.arange(12).view(2, 6), torch.arange(8).view(2, 4)
                mask = torch.tensor([[True] * 6, [True] * 4 + [False] * 2])
                target_mask = torch.tensor([[True] * 4, [True] * 3 + [False]])
                labels = torch.where(target_mask, (target + 1) % 20, IGNORE)
                return Batch(source, labels, target, mask, target_mask)

        trainer = supernet_trainer(SEQ2SEQ, Pairs(), layerdrop=0.3, dropout=0.1, steps=20)
        reports = take(trainer, 20)
        assert reports[0].tokens == 10 + 7
        assert reports[-1].losses[0] < reports[0].losses[0] - 0.5

    def test_bf16_reaches_the_logits_and_not_the_weights(self):
        trainer = plain_trainer(precision="bf16")
        assert trainer.logits(trainer.model.arch, trainer.data.batch(0, 4, 0)).dtype == torch.bfloat16
        assert math.isfinite(trainer.step().losses[0])
        assert {tensor.dtype for tensor in trainer.tensors().values()} == {torch.float32}

    def test_attention_learns_in_bf16_what_it_learns_in_fp32(self):
        coarse, fine = plain_trainer(precision="bf16", dropout=0.0), plain_trainer(precision="fp32", dropout=0.0)
        for trainer in (coarse, fine):
            trainer.add_gradients((trainer.model.arch,), trainer.data.batch(0, 4, 0), 1)
        norms = {name: float(parameter.grad.norm()) for name, parameter in fine.named.items()}
        noise = 1e-3 * max(norms.values())  # the biases of keys have no gradient but rounding
        for name, parameter in coarse.named.items():
            assert float((parameter.grad - fine.named[name].grad).norm()) <= 0.05 * norms[name] + noise, name


class TestGradients:
    @pytest.mark.parametrize("make", [plain_trainer, supernet_trainer])
    def test_accumulating_halves_is_one_batch(self, make):
        settings = {"data": Rows(ragged=True), "dtype": torch.float64, "layerdrop": 0.3, "ema": 0.5}
        whole, halves = make(batch_size=4, **settings), make(batch_size=2, accumulate=2, **settings)
        for _ in range(3):
            one, other = whole.step(), halves.step()
            assert other.losses == pytest.approx(one.losses, rel=1e-12)
            assert (other.tokens, other.grad_norm) == (one.tokens, pytest.approx(one.grad_norm, rel=1e-12))
            for name, p in whole.named.items():
                grad = halves.named[name].grad
                assert (p.grad is None and grad is None) or torch.allclose(p.grad, grad, rtol=1e-9, atol=1e-13), name
        for name, tensor in whole.tensors().items():
            assert torch.allclose(tensor, halves.tensors()[name], rtol=1e-7, atol=1e-8), name

    def test_recomputing_layers_changes_nothing(self):
        kept, recomputed = (supernet_trainer(checkpointing=flag, dropout=0.3, layerdrop=0.2, ema=0.9)
                            for flag in (False, True))
        take(kept, 3)
        take(recomputed, 3)
        assert recomputed.model.checkpointing and not kept.model.checkpointing
        assert same(snapshot(kept), snapshot(recomputed))

    def test_the_norm_is_clipped_only_where_asked(self):
        for clip in (0.0, 1e-3, 1e3):
            trainer = plain_trainer(clip=clip)
            report = trainer.step()
            norm = torch.nn.utils.get_total_norm([p.grad for p in trainer.named.values()])
            assert report.grad_norm > 0.1
            assert float(norm) == pytest.approx(min(clip or math.inf, report.grad_norm), rel=1e-3)

    def test_tensors_outside_the_architecture_do_not_move(self):
        made = recipe(ema=0.9)
        net, arch = Supernet(LM), LM.smallest()
        trainer = Trainer(net, Fixed(arch), made, Rows())
        before = weights(trainer)
        take(trainer, 3)
        used = {name for name, _ in net.windows(arch)}
        unused = set(trainer.named) - used
        assert unused and used
        for name, parameter in trainer.named.items():
            moved = not torch.equal(parameter, before[name])
            assert moved == (name in used), name
            has_state = f"exp_avg/{name}" in trainer.optimiser.tensors()
            assert (parameter.grad is None) == (not has_state) == (name in unused), name
            if name in unused:
                assert torch.equal(trainer.averages[name], before[name])

    def test_gradients_keep_their_memory_and_forget_their_values(self):
        trainer, places = supernet_trainer(n_random=0), {}
        for _ in range(3):
            trainer.step()
            held = {name: p.grad.data_ptr() for name, p in trainer.named.items() if p.grad is not None}
            places = {**held, **places}
            assert held.items() <= places.items()
        trainer.clear_gradients(2)
        assert not any(p.grad.any() for p in trainer.named.values())

    def test_what_lies_outside_the_slices_does_not_move(self):
        arch = LM.smallest()
        trainer = Trainer(Supernet(LM), Fixed(arch), recipe(weight_decay=0.0), Rows())
        before = weights(trainer)
        take(trainer, 2)
        moved = {name: p.detach() - before[name] for name, p in trainer.named.items()}
        sliced = set()
        for name, inside in trainer.model.windows(arch):
            assert moved[name][inside].any(), name
            sliced |= {name} if moved[name][inside].shape != moved[name].shape else set()
        for name, inside in trainer.model.windows(arch):
            moved[name][inside] = 0
        assert sliced
        assert [name for name, change in moved.items() if change.any()] == []

    def test_norms_and_biases_do_not_decay(self):
        model = Transformer(LM.largest())
        decaying, others = Optimisers(dict(model.named_parameters()), recipe(weight_decay=0.3)).param_groups
        assert (decaying["weight_decay"], others["weight_decay"]) == (0.3, 0.0)
        assert {p.ndim for p in others["params"]} == {1}
        assert min(p.ndim for p in decaying["params"]) == 2
        assert len(decaying["params"]) + len(others["params"]) == len(list(model.parameters()))


def spoil(trainer, steps, value=math.nan):
    """Make the logits of some steps unusable."""
    honest = trainer.logits

    def logits(arch, batch):
        found = honest(arch, batch)
        return found * value if trainer.progress.step in steps else found

    trainer.logits = logits
    return trainer


class TestSkippedSteps:
    @pytest.mark.parametrize("value", [math.nan, math.inf])
    @pytest.mark.parametrize("clip", [0.0, 1.0])
    def test_a_step_without_a_finite_gradient_changes_nothing(self, value, clip):
        trainer = spoil(supernet_trainer(ema=0.9, clip=clip), {2}, value)
        take(trainer, 2)
        before = snapshot(trainer)
        report = trainer.step()
        assert report.skipped and not math.isfinite(report.grad_norm)
        assert same(before, snapshot(trainer))
        progress = trainer.progress
        assert (progress.step, progress.skipped, progress.skipped_in_a_row) == (3, 1, 1)
        assert progress.tokens == 3 * 4 * 8
        assert not trainer.step().skipped
        assert (progress.skipped, progress.skipped_in_a_row) == (1, 0)
        assert not same(before, snapshot(trainer))

    def test_too_many_in_a_row_are_an_error_that_tells_the_step(self):
        trainer = spoil(plain_trainer(bad_steps=3, lr=0.25), {1, 3, 4, 5})
        take(trainer, 5)
        before = snapshot(trainer)
        with pytest.raises(InputError, match=r"step 5: the gradient was not finite in 3 consecutive steps; the last "
                                             r"checkpoint is intact; train again with an lr below 0\.25"):
            trainer.step()
        assert same(before, snapshot(trainer))


class TestAverages:
    def test_they_follow_by_the_formula(self):
        trainer = plain_trainer(ema=0.5, steps=12, dtype=torch.float64)
        wanted = weights(trainer)
        for step in range(12):
            trainer.step()
            decay = min(0.5, (1 + step) / (10 + step))
            wanted = {name: decay * wanted[name] + (1 - decay) * p.detach() for name, p in trainer.named.items()}
        assert wanted.keys() == trainer.averages.keys()
        assert all(torch.allclose(wanted[name], trainer.averages[name], rtol=1e-10) for name in wanted)

    def test_they_are_lent_and_taken_back(self):
        trainer = plain_trainer(ema=0.9)
        take(trainer, 2)
        before = snapshot(trainer)
        with trainer.averaged() as model:
            assert model is trainer.model and not model.training
            assert all(torch.equal(p, trainer.averages[name]) for name, p in model.named_parameters())
            assert not same(before, snapshot(trainer))
        assert same(before, snapshot(trainer))
        trainer.step()
        assert trainer.model.training

    def test_they_are_taken_back_after_an_error(self):
        trainer = supernet_trainer(ema=0.9)
        take(trainer, 2)
        before = snapshot(trainer)
        with pytest.raises(RuntimeError, match="evaluation"), trainer.averaged():
            raise RuntimeError("evaluation")
        assert same(before, snapshot(trainer))

    def test_without_them_the_weights_are_lent(self):
        trainer = plain_trainer()
        take(trainer, 1)
        before = weights(trainer)
        with trainer.averaged() as model:
            assert trainer.averages == {} and not model.training
            assert all(torch.equal(p, before[name]) for name, p in model.named_parameters())


class TestBatch:
    def test_labels_and_tokens_are_counted(self):
        batch = Batch(torch.zeros(2, 3, dtype=torch.long), torch.tensor([[1, 2, IGNORE], [IGNORE] * 3]))
        assert (batch.n_labels, batch.n_tokens) == (2, 6)
        masked = Batch(batch.tokens, batch.labels, mask=torch.tensor([[True, True, False], [True, False, False]]))
        assert masked.n_tokens == 3
        pair = Batch(batch.tokens, batch.labels, batch.tokens[:, :2], masked.mask)
        assert pair.n_tokens == 3 + 4

    @pytest.mark.parametrize("world", [1, 2, 3])
    def test_workers_share_the_rows(self, world):
        batch = Batch(torch.arange(10).view(5, 2), torch.arange(5), mask=torch.arange(10).view(5, 2) > 3)
        parts = [batch.part(rank, world) for rank in range(world)]
        assert sorted(label for part in parts for label in part.labels.tolist()) == list(range(5))
        assert all(torch.equal(part.tokens, batch.tokens[part.labels]) for part in parts)
        assert all(torch.equal(part.mask, batch.mask[part.labels]) for part in parts)
        assert parts[0].target is None


@pytest.mark.parametrize(("precision", "device", "native", "bf16"), [
    ("auto", "cuda", True, True), ("auto", "cuda", False, False), ("auto", "cpu", True, False),
    ("bf16", "cuda", False, True), ("bf16", "cpu", False, True), ("fp32", "cuda", True, False)])
def test_bfloat16_is_chosen_only_where_it_is_not_emulated(monkeypatch, precision, device, native, bf16):
    monkeypatch.setattr(torch.cuda, "is_bf16_supported", lambda including_emulation: native or including_emulation)
    assert in_bf16(Recipe(precision=precision), torch.device(device)) == bf16
