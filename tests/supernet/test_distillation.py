"""Losses against their textbook forms."""

import pytest
import torch
import torch.nn.functional as F

from search_spaces import InputError
from supernet.batch import IGNORE
from supernet.train.losses import label_loss, labelled, soft_loss, soft_targets, teacher_loss


def drawn(*shape, seed=0, scale=3.0):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64) * scale


LABELS = torch.tensor([0, 3, 6, 3, 1])


def test_soft_loss_is_the_cross_entropy_of_distributions():
    logits, targets = drawn(5, 7), drawn(5, 7, seed=1).softmax(-1)
    assert torch.allclose(soft_loss(logits, targets), -(targets * logits.log_softmax(-1)).sum(), rtol=1e-12)


def test_soft_loss_has_the_gradient_of_autograd():
    targets = drawn(5, 7, seed=1).softmax(-1)
    ours, textbook = (drawn(5, 7).requires_grad_() for _ in range(2))
    (2.5 * soft_loss(ours, targets)).backward()
    (2.5 * -(targets * textbook.log_softmax(-1)).sum()).backward()
    assert torch.allclose(ours.grad, textbook.grad, rtol=1e-10, atol=1e-14)


def test_soft_loss_neither_overflows_nor_teaches_the_teacher():
    logits = torch.tensor([[1e4, -1e4, 0.0]], requires_grad=True)
    targets = torch.tensor([[0.5, 0.25, 0.25]], requires_grad=True)
    loss = soft_loss(logits, targets)
    loss.backward()
    assert loss.isfinite() and logits.grad.isfinite().all()
    assert targets.grad is None


def test_the_gradient_takes_the_memory_of_the_students_logits():
    weights, places = drawn(5, 7).requires_grad_(), []
    logits = weights * 2
    logits.register_hook(lambda gradient: places.append(gradient.data_ptr()))
    soft_loss(logits, drawn(5, 7, seed=1).softmax(-1)).backward()
    assert places == [logits.data_ptr()]


def test_losses_do_not_depend_on_how_many_rows_are_taken_at_a_time(monkeypatch):
    logits, targets, labels = drawn(5, 7), drawn(5, 7, seed=1).softmax(-1), LABELS
    whole = soft_loss(logits, targets), label_loss(logits, labels)
    monkeypatch.setattr("supernet.train.losses.ROWS", 2)
    assert (soft_loss(logits, targets), label_loss(logits, labels)) == whole


@pytest.mark.parametrize("smoothing", [0.0, 0.1, 0.9])
@pytest.mark.parametrize("trust", [0.0, 0.3, 1.0])
def test_mixing_targets_is_mixing_losses(trust, smoothing):
    teacher, logits = drawn(5, 7, seed=1), drawn(5, 7)
    targets = soft_targets(teacher.clone(), LABELS, trust, smoothing)
    assert torch.allclose(targets.sum(-1), torch.ones(5, dtype=torch.float64), rtol=1e-12)
    mixed = (trust * -(teacher.softmax(-1) * logits.log_softmax(-1)).sum()
             + (1 - trust) * F.cross_entropy(logits, LABELS, reduction="sum", label_smoothing=smoothing))
    assert torch.allclose(soft_loss(logits, targets), mixed, rtol=1e-12)


def test_soft_targets_take_the_memory_of_the_teachers_logits():
    teacher = drawn(5, 7).requires_grad_()
    targets = soft_targets(teacher, LABELS, 0.5, 0.1)
    assert not targets.requires_grad
    assert targets.data_ptr() == teacher.data_ptr()


def test_label_loss_is_summed_and_smoothed():
    logits = drawn(5, 7)
    logs = logits.log_softmax(-1)
    sharp = -logs[torch.arange(5), LABELS].sum()
    assert torch.allclose(label_loss(logits, LABELS), sharp)
    assert torch.allclose(label_loss(logits, LABELS, 0.2), 0.8 * sharp - 0.2 * logs.mean(-1).sum())


@pytest.mark.parametrize("smoothing", [0.0, 0.2])
def test_label_loss_has_the_gradient_of_autograd(smoothing):
    ours, textbook = (drawn(5, 7).requires_grad_() for _ in range(2))
    (2.5 * label_loss(ours, LABELS, smoothing)).backward()
    (2.5 * F.cross_entropy(textbook, LABELS, reduction="sum", label_smoothing=smoothing)).backward()
    assert torch.allclose(ours.grad, textbook.grad, rtol=1e-10, atol=1e-14)
    assert torch.autograd.gradcheck(lambda logits: label_loss(logits, LABELS, smoothing), drawn(5, 7).requires_grad_())


def test_only_labels_that_count_are_kept():
    logits, labels = drawn(2, 3, 7), torch.tensor([[1, IGNORE, 2], [IGNORE, 0, IGNORE]])
    flat, wanted = labelled(logits, labels)
    assert wanted.tolist() == [1, 2, 0]
    assert torch.equal(flat, logits[[0, 0, 1], [0, 2, 1]])


def test_labels_of_whole_sequences_and_of_nothing():
    flat, wanted = labelled(drawn(4, 3), torch.tensor([0, 1, 2, 0]))
    assert flat.shape == (4, 3) and wanted.tolist() == [0, 1, 2, 0]
    flat, wanted = labelled(drawn(4, 3), torch.full((4,), IGNORE))
    assert float(label_loss(flat, wanted)) == 0
    assert float(soft_loss(flat, soft_targets(flat, wanted, 0.5))) == 0


@pytest.mark.parametrize(("given", "becomes"), [
    (torch.bfloat16, torch.float32), (torch.float32, torch.float32), (torch.float64, torch.float64)])
def test_losses_are_taken_in_float32_at_least(given, becomes):
    assert labelled(drawn(4, 3).to(given), torch.tensor([0, 1, 2, IGNORE]))[0].dtype == becomes


@pytest.mark.parametrize("trust", [0.0, 0.3, 1.0])
def test_one_output_is_a_number_with_the_squared_error(trust):
    labels = torch.tensor([0.5, -100.0, 3.0], dtype=torch.float64)  # -100 is a number like any other
    logits, wanted = labelled(drawn(3, 1), labels)
    assert torch.equal(wanted, labels)
    assert torch.allclose(label_loss(logits, wanted), ((logits[:, 0] - labels) ** 2).sum())
    teacher = drawn(3, 1, seed=1)
    assert torch.allclose(teacher_loss(logits, teacher, temperature=2.0), ((logits - teacher) ** 2).sum())
    ours, textbook = (logits.clone().requires_grad_() for _ in range(2))
    soft_loss(ours, soft_targets(teacher.clone(), wanted, trust)).backward()
    ((trust * (textbook - teacher) ** 2 + (1 - trust) * (textbook - labels[:, None]) ** 2).sum()).backward()
    assert torch.allclose(ours.grad, textbook.grad, rtol=1e-12)


def test_numbers_are_not_smoothed():
    with pytest.raises(InputError, match="label_smoothing: 0.1 is not allowed where a model predicts a number"):
        label_loss(drawn(3, 1), torch.ones(3), 0.1)
