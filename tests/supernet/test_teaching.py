"""Lessons: the formulas, which layers belong together, and who learns."""

import random
from dataclasses import replace

import pytest
import torch
import torch.nn.functional as F

from search_spaces import InputError
from search_spaces.files.loader import space_from_text
from supernet import Supernet, Transformer, extract
from supernet.batch import IGNORE, Batch
from supernet.filling import fill
from supernet.train.losses import attention_loss, relative_feature_error, teacher_loss
from supernet.train.ordering import order
from supernet.train.step import Trainer
from supernet.train.strategy import Fixed
from supernet.train.teaching import LOSSES, DistillationLoss, Pair, Teacher, layer_pairs
from supernet.train.theseus import layer_ends
from tests.supernet.toys import LM, SEQ2SEQ, Rows, plain_trainer, recipe, same, snapshot

ENCODER = space_from_text("""
{schema_version: 1, name: toycls, family: encoder, vocab_size: 20, context: 8, width: [8, 12], n_classes: 3,
 embedding: {lookup: {}}, head: {classifier: {}},
 encoder: {slots: 4, depth: {keep: searched, at_least: 1}, layers: {plain: {
   mixer: {conv: {kernel: [3, 5]}, lsra: {ratio: 0.5, n_heads: 2, kernel: 3, conv_heads: 2},
           attention: {n_heads: [1, 2, 4]}},
   ffn: {ffn: {inner: [1x, 2x]}}}}}}
""", "toycls")
SPACES = {"lm": LM, "encoder": ENCODER, "seq2seq": SEQ2SEQ}


def batch_of(family, size=4, seed=0):
    """A batch with padding wherever the family has some."""
    rng = torch.Generator().manual_seed(seed)
    tokens = torch.randint(20, (size, 8), generator=rng)
    lengths = torch.randint(1, 9, (size, 1), generator=rng)
    mask = torch.arange(8) < lengths
    if family == "lm":
        return Batch(tokens, torch.randint(20, (size, 8), generator=rng))
    if family == "encoder":
        return Batch(tokens, torch.randint(3, (size,), generator=rng), mask=mask)
    target = torch.randint(20, (size, 6), generator=rng)
    real = torch.arange(6) < torch.randint(1, 7, (size, 1), generator=rng)
    labels = torch.randint(20, (size, 6), generator=rng).masked_fill(~real, IGNORE)
    return Batch(tokens, labels, target, mask, real)


class Same:
    """One batch, again and again."""

    def __init__(self, batch):
        self.one = batch

    def batch(self, index, size, seed):
        return self.one


def teaching(student, teacher, distill=LOSSES, **settings):
    found = {"temperature": 2.0, "label_share": 0.25, "feature_weight": 1.0, "attention_weight": 1.0, "fade": False,
             **settings}
    return DistillationLoss(student, Teacher(teacher) if teacher else None, distill, **found)


def taught(family="lm", distill=LOSSES, seed=0, **settings):
    """A trainer of a small student that a larger one of the same space teaches."""
    space, rng = SPACES[family], random.Random(seed)
    arch, made = space.sample(rng), recipe(**settings)
    student = Transformer(arch, dropout=made.dropout, seed=1)
    loss = teaching(student, Transformer(space.largest(), seed=2), distill)
    return Trainer(student, Fixed(arch), made, Same(batch_of(family)), training_loss=loss)


def test_a_teacher_in_another_order_is_projected():
    """A model that starts a run is ordered there: the same states in other channels."""
    space = SPACES["encoder"]
    teacher, net = Transformer(space.largest(), seed=2).eval(), Supernet(space).eval()
    fill(net, teacher)
    batches = [batch_of("encoder", seed=seed, size=32) for seed in range(12)]
    assert list(order(net, batches[:2]).orders["width"]) != list(range(space.largest().width))
    student = extract(net, space.largest())
    losses = {}
    for corresponds in (True, False):
        loss = teaching(student, teacher, ("features",), same_channels=corresponds)
        loss.fit_projections(student, batches, recipe())
        trainer = Trainer(student, Fixed(student.arch), recipe(), Same(batches[0]), training_loss=loss)
        with torch.no_grad():
            losses[corresponds] = float(loss.losses(trainer, student.arch, batches[0])[1]) / 32
    assert losses[False] < 0.05 < 0.5 < losses[True]


def test_students_with_the_same_batches_ask_a_teacher_once(monkeypatch):
    teacher = Teacher(Transformer(SPACES["encoder"].largest(), seed=2), {})
    again, other = batch_of("encoder"), batch_of("encoder", seed=1)
    told = [teacher.tell(batch, recipe(), ("logits",)) for batch in (again, other)]
    monkeypatch.setattr(Transformer, "forward", None)
    assert all(same(first, teacher.tell(batch, recipe(), ("logits",))) for first, batch in zip(told, (again, other)))
    shorter = replace(again, mask=again.mask & (torch.arange(8) < 2))
    with pytest.raises(TypeError):  # another mask is another batch
        teacher.tell(shorter, recipe(), ("logits",))


class TestFormulas:
    @pytest.mark.parametrize("temperature", [1.0, 3.0])
    def test_logits(self, temperature):
        student, teacher = torch.randn(2, 7, 5, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
        wanted = 0.0
        for mine, theirs in zip(student, teacher):
            p, q = (theirs / temperature).softmax(0), (mine / temperature).softmax(0)
            wanted += temperature**2 * sum(float(a * (a / b).log()) for a, b in zip(p, q))
        assert float(teacher_loss(student, teacher, temperature)) == pytest.approx(wanted)

    @pytest.mark.parametrize("padded", [False, True])
    def test_features(self, padded):
        rng = torch.Generator().manual_seed(0)
        student, teacher = torch.randn(2, 3, 4, 5, generator=rng)
        mask = torch.tensor([[1, 1, 0, 0], [1, 1, 1, 1], [1, 0, 0, 0]]).bool() if padded else None
        places = [(i, j, k) for i in range(3) for j in range(4) for k in range(5) if mask is None or mask[i, j]]
        missing = sum(float(student[place] - teacher[place]) ** 2 for place in places)
        wanted = missing / sum(float(teacher[place]) ** 2 for place in places)
        assert float(relative_feature_error(student, teacher, mask)) == pytest.approx(wanted, rel=1e-5)

    @pytest.mark.parametrize("heads", [2, 3])
    @pytest.mark.parametrize("padded", [False, True])
    def test_attention(self, heads, padded):
        rng = torch.Generator().manual_seed(0)
        seen = torch.ones(4, 4).tril().bool()
        student, teacher = ((torch.randn(3, n, 4, 4, generator=rng).masked_fill(~seen, -torch.inf)).softmax(-1)
                            for n in (heads, 2))
        mask = torch.tensor([[1, 1, 0, 0], [1, 1, 1, 1], [1, 0, 0, 0]]).bool() if padded else None
        mine, theirs = (student, teacher) if heads == 2 else (student.mean(1, True), teacher.mean(1, True))
        rows = [sum(float(t * (t / s).log()) for s, t in zip(mine[i, h, j], theirs[i, h, j]) if t > 0)
                for i in range(3) for h in range(mine.shape[1]) for j in range(4) if mask is None or mask[i, j]]
        found = attention_loss(student.requires_grad_(), teacher, mask)
        assert float(found.detach()) == pytest.approx(sum(rows) / len(rows), rel=1e-5)
        found.backward()
        assert student.grad.isfinite().all()

    @pytest.mark.parametrize("family", SPACES)
    @torch.no_grad()
    def test_the_parts_of_a_loss_are_the_formulas(self, family):
        trainer = taught(family)
        loss, batch, student = trainer.training_loss, trainer.data.one, trainer.model.eval()
        labels, logits, features, attention = loss.losses(trainer, student.arch, batch)
        mine, theirs = (model(*((batch.tokens,) if batch.target is None else (batch.tokens, batch.target)),
                              mask=batch.mask, target_mask=batch.target_mask, outputs=("logits", *LOSSES[1:]))
                        for model in (student, loss.teacher.model))
        flat, wanted = mine["logits"].reshape(-1, mine["logits"].shape[-1]), batch.labels.flatten()
        assert float(labels) == pytest.approx(float(F.cross_entropy(flat, wanted, ignore_index=IGNORE,
                                                                    reduction="sum")), rel=1e-5)
        counts = wanted != IGNORE
        other = theirs["logits"].reshape(flat.shape)
        assert float(logits) == pytest.approx(float(teacher_loss(flat[counts], other[counts], 2.0)), rel=1e-5)
        n, pairs = int(counts.sum()), layer_pairs(student.arch, loss.teacher.model.arch)
        masks = [batch.mask if pair.stack == "encoder" else batch.target_mask for pair in pairs]
        maps = loss.projections or [lambda x: x] * len(pairs)
        one = [relative_feature_error(project(mine["features"][pair.student]), theirs["features"][pair.teacher], mask)
               for pair, mask, project in zip(pairs, masks, maps)]
        assert float(features) == pytest.approx(n * float(sum(one)) / len(one), rel=1e-5)
        two = [attention_loss(a, b, mask) for pair, mask in zip(pairs, masks)
               for a, b in zip(mine["attention"][pair.student][::-1], theirs["attention"][pair.teacher][::-1])]
        assert float(attention) == pytest.approx(n * float(sum(two)) / len(two), rel=1e-5)

    def test_a_step_learns_from_their_weighted_sum(self):
        trainer = taught(distill=("features", "logits"), clip=0.0)
        loss, batch = trainer.training_loss, trainer.data.one
        assert loss.parts == ("labels", "logits", "features")
        assert loss.weights(0.5) == [0.25, 0.75, 1.0]
        parts = loss.losses(trainer, trainer.model.arch, batch)
        total = 0.25 * parts[0] + 0.75 * parts[1] + parts[2]
        wanted = torch.autograd.grad(total / batch.n_labels, list(trainer.named.values()), allow_unused=True)
        report = trainer.step()
        assert report.names == ("labels", "logits", "features")
        assert report.losses == pytest.approx([float(part.detach()) / batch.n_labels for part in parts], rel=1e-5)
        norm = torch.linalg.vector_norm(torch.stack([g.norm() for g in wanted if g is not None]))
        assert report.grad_norm == pytest.approx(float(norm), rel=1e-4)


    def test_what_a_teacher_says_may_fade(self):
        student, teacher = Transformer(LM.smallest()), Transformer(LM.largest())
        loss = teaching(student, teacher, ("logits", "features"), fade=True)
        assert [loss.weights(done) for done in (0.0, 0.5, 1.0)] == [[0.25, 0.75, 1.0], [0.625, 0.375, 0.5], [1, 0, 0]]
        assert teaching(student, teacher, ("features",), fade=True).weights(0.75) == [1.0, 0.25]
        assert teaching(student, None, ()).weights(0.0) == [1.0]


class TestAlike:
    @pytest.mark.parametrize("family", SPACES)
    @torch.no_grad()
    def test_a_student_that_is_its_teacher_has_nothing_to_learn_from_it(self, family):
        arch = SPACES[family].largest()
        student, teacher = Transformer(arch, seed=0), Transformer(arch, seed=0)
        loss = teaching(student, teacher)
        trainer = Trainer(student, Fixed(arch), recipe(), Same(batch_of(family)), training_loss=loss)
        found = loss.losses(trainer, arch, batch_of(family))
        assert [float(part) for part in found[1:]] == pytest.approx([0, 0, 0], abs=1e-6)
        assert float(found[0]) > 1

    @pytest.mark.parametrize("family", ["encoder", "seq2seq"])
    @torch.no_grad()
    def test_what_stands_in_the_padding_does_not_matter(self, family):
        trainer, batch = taught(family), batch_of(family)
        other = batch_of(family)
        other.tokens[~batch.mask] = 7
        if batch.target is not None:
            other.target[~batch.target_mask] = 7
        trainer.model.eval()
        one, two = (trainer.training_loss.losses(trainer, trainer.model.arch, each) for each in (batch, other))
        assert [float(x) for x in one] == pytest.approx([float(x) for x in two], rel=1e-5)


class TestLayers:
    @pytest.mark.parametrize(("n", "m", "wanted"), [
        (1, 4, (3,)), (2, 4, (1, 3)), (4, 4, (0, 1, 2, 3)), (3, 4, (0, 2, 3)), (2, 3, (1, 2)), (4, 2, (0, 0, 1, 1)),
        (4, 1, (0, 0, 0, 0)), (2, 5, (2, 4)),
    ])
    def test_fellows(self, n, m, wanted):
        assert layer_ends(n, m) == wanted

    def test_groups_are_never_empty(self):
        for m in range(1, 20):
            for n in range(1, m + 1):
                ends = layer_ends(n, m)
                assert len(set(ends)) == n and list(ends) == sorted(ends) and ends[-1] == m - 1

    def test_stacks_are_mapped_each_for_itself(self):
        assert layer_pairs(SEQ2SEQ.smallest(), SEQ2SEQ.largest()) == (Pair("encoder", 0, 2), Pair("decoder", 1, 4))

    def test_layers_without_maps_are_left_out(self):
        rng = random.Random(0)
        mixers = {"conv": None, "lsra": None, "attention": None}
        while None in mixers.values():
            arch = ENCODER.sample(rng)
            kinds = {layer.mixer.kind for layer in arch.encoder}
            if len(kinds) == 1:
                mixers[kinds.pop()] = arch
        teacher = Transformer(mixers["attention"], seed=0)
        assert "attention" in teaching(Transformer(mixers["lsra"]), teacher).parts
        with pytest.raises(InputError, match="no pair of matching student and teacher layers"):
            teaching(Transformer(mixers["conv"]), teacher)


class TestLearning:
    @pytest.mark.parametrize("family", SPACES)
    def test_no_gradient_reaches_the_teacher(self, family):
        trainer = taught(family, seed=1)
        teacher = trainer.training_loss.teacher.model
        before = {name: tensor.clone() for name, tensor in teacher.state_dict().items()}
        trainer.step()
        assert all(parameter.grad is None and not parameter.requires_grad for parameter in teacher.parameters())
        assert all(torch.equal(tensor, before[name]) for name, tensor in teacher.state_dict().items())
        assert not teacher.training
        assert not any(name.startswith("lesson.teacher") for name in trainer.named)

    @pytest.mark.parametrize("family", SPACES)
    def test_losses_in_bfloat16_are_nearly_those_in_float32(self, family):
        coarse, fine = taught(family, seed=1, precision="bf16"), taught(family, seed=1, precision="fp32")
        assert coarse.step().losses == pytest.approx(fine.step().losses, rel=0.05)

    def test_the_teacher_is_asked_once_a_batch(self, monkeypatch):
        trainer, asked = taught(accumulate=3), []
        honest = Teacher.tell
        monkeypatch.setattr(Teacher, "tell", lambda *given: asked.append(1) or honest(*given))
        trainer.step()
        assert len(asked) == 3

    def test_projections_are_trained_saved_and_loaded(self):
        def fresh():
            return taught(distill=("features",), seed=1, ema=0.9, dropout=0.1)

        straight, stopped = fresh(), fresh()
        assert straight.model.arch.width != LM.largest().width and len(straight.training_loss.projections) > 0
        start = straight.training_loss.projections[0].weight.detach().clone()
        for _ in range(2):
            straight.step(), stopped.step()
        assert not torch.equal(straight.training_loss.projections[0].weight, start)
        resumed = fresh()
        resumed.load(snapshot(stopped), stopped.progress)
        for _ in range(2):
            straight.step(), resumed.step()
        assert same(snapshot(straight), snapshot(resumed))

    def test_projections_start_where_they_fit_best(self):
        trainer = taught(distill=("features",), seed=1)
        objective, batches = trainer.training_loss, [batch_of("lm", 32, seed) for seed in range(4)]

        def loss():
            return sum(float(objective.losses(trainer, trainer.model.arch, batch)[1].detach()) for batch in batches)

        trainer.model.train()
        objective.fit_projections(trainer.model, batches, trainer.recipe)
        assert trainer.model.training
        best = loss()
        for projection in objective.projections:
            with torch.no_grad():
                projection.weight.add_(0.02 * torch.randn(projection.weight.shape))
        assert best < loss()

    def test_without_a_teacher_nothing_changes(self):
        plain, labels = plain_trainer(LM.largest()), plain_trainer(LM.largest())
        labels.training_loss = teaching(labels.model, None, ())
        for _ in range(3):
            one, two = plain.step(), labels.step()
            assert one.losses == two.losses and two.names == ("labels",)
        assert same(snapshot(plain), snapshot(labels))

    def test_a_taught_student_comes_nearer_to_its_teacher(self):
        school = plain_trainer(LM.largest(), steps=40)
        for _ in range(40):
            school.step()
        teacher = school.model
        student = Transformer(LM.smallest(), seed=5)
        loss = teaching(student, teacher, ("logits", "features"), label_share=0.0)
        trainer = Trainer(student, Fixed(LM.smallest()), recipe(steps=30), Rows(), training_loss=loss)
        losses = [trainer.step().losses[1:] for _ in range(30)]
        assert all(last < first for first, last in zip(losses[0], losses[-1]))
