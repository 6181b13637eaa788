"""Progressive replacement: whose place a student takes, what runs meanwhile, and what is trained."""

import random

import pytest
import torch

from search_spaces import InputError, load_space
from search_spaces.units import SUBLAYERS, plan
from supernet import Supernet, Transformer, extract
from supernet.inference import run_model
from supernet.train.step import Trainer
from supernet.train.strategy import Fixed
from supernet.train.teaching import DistillationLoss
from supernet.train.theseus import Theseus, _Mixed, layer_ends, mixture, predecessor, take_frame
from supernet.transformer import run
from tests.supernet.test_teaching import SPACES, Same, batch_of
from tests.supernet.toys import LM, recipe


def frame(arch):
    return [step for step in plan(arch) if step.unit.role not in SUBLAYERS]


def students(space, n=12):
    """Architectures that are not the largest of their interface."""
    rng, found = random.Random(0), []
    while len(found) < n:
        arch = space.sample(rng)
        try:
            predecessor(space, arch)
            found.append(arch)
        except InputError:
            pass
    return found


def pair_of(family, seed=0):
    """A supernet's weights in a student and in its predecessor."""
    space = SPACES[family]
    arch = students(space)[seed]
    net = Supernet(space, seed=3).eval()
    return extract(net, arch), extract(net, predecessor(space, arch))


def logits_of(student, larger, runs, batch):
    arch = mixture(student.arch, larger.arch, runs)
    return run(arch, _Mixed(student, larger), False, batch.tokens, batch.target, batch.mask, batch.target_mask, None,
               None)


class TestPredecessor:
    @pytest.mark.parametrize("space", [*SPACES.values(), load_space("lm-tiny"), load_space("delight-lm")],
                             ids=lambda space: space.name)
    def test_it_has_the_students_interface_and_is_of_the_space(self, space):
        for student in students(space):
            larger = predecessor(space, student)
            assert frame(larger) == frame(student) and larger in space
            assert all(len(larger.stacks[name]) >= len(layers) for name, layers in student.stacks.items())
            assert predecessor_of_itself_is_refused(space, larger)

    def test_it_is_the_largest_where_the_interface_is_the_largests(self):
        space = load_space("lm-tiny")
        largest = space.largest()
        genes = {**space.encode(largest), "decoder.depth": 2}
        assert predecessor(space, space.decode(genes)) == largest

    def test_an_architecture_of_another_space_is_refused(self):
        with pytest.raises(InputError, match="is not in space toy"):
            predecessor(LM, load_space("lm-tiny").smallest())


def predecessor_of_itself_is_refused(space, arch):
    with pytest.raises(InputError, match="is itself the largest architecture of .* there is no larger model"):
        predecessor(space, arch)
    return True


class TestMixture:
    @pytest.mark.parametrize("family", SPACES)
    def test_with_all_layers_it_is_the_student_and_with_none_the_predecessor(self, family):
        for seed in range(4):
            (student, larger), batch = pair_of(family, seed), batch_of(family)
            depth = student.arch.depth
            assert mixture(student.arch, larger.arch, [True] * depth) == student.arch
            with torch.no_grad():
                for runs, model in (([True] * depth, student), ([False] * depth, larger)):
                    found = logits_of(student, larger, runs, batch)
                    assert torch.equal(found, run_model(model, model.arch, batch))

    @pytest.mark.parametrize("family", SPACES)
    def test_any_mixture_runs_and_keeps_the_order(self, family):
        (student, larger), batch, rng = pair_of(family, 1), batch_of(family), random.Random(1)
        for _ in range(5):
            runs = [rng.random() < 0.5 for _ in range(student.arch.depth)]
            assert logits_of(student, larger, runs, batch).isfinite().all()
            mixed, marks = mixture(student.arch, larger.arch, runs), iter(runs)
            for stack, layers in student.arch.stacks.items():
                theirs, first, wanted = larger.arch.stacks[stack], 0, []
                for layer, end in zip(layers, layer_ends(len(layers), len(theirs))):
                    wanted += [layer.mixer] if next(marks) else [each.mixer for each in theirs[first : end + 1]]
                    first = end + 1
                assert [layer.mixer for layer in mixed.stacks[stack]] == wanted

    def test_a_frame_can_be_taken_over(self):
        student, larger = pair_of("seq2seq")
        other = Transformer(student.arch, seed=9).eval()
        take_frame(other, larger)
        for step in frame(student.arch):
            mine, theirs = (model.get_submodule(step.path).state_dict() for model in (other, larger))
            assert all(torch.equal(mine[name], theirs[name]) for name in mine)


class TestSchedule:
    def test_the_share_rises_to_one(self):
        theseus = Theseus(Transformer(LM.largest()), seed=0, start=0.3, until=7)
        assert [round(theseus.share(step), 6) for step in range(9)] == [0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0, 1.0]
        assert [theseus.is_replacing(step) for step in (0, 6, 7)] == [True, True, False]

    def test_draws_follow_from_seed_and_step_and_one_layer_runs_at_least(self):
        arch = students(LM)[0]
        one, two = (Theseus(Transformer(LM.largest()), seed=seed, start=0.0, until=1e9) for seed in (0, 0))
        drawn = [one.draw(arch, step) for step in range(40)]
        assert drawn == [two.draw(arch, step) for step in range(40)]
        assert all(sum(each) == 1 for each in drawn)
        half = Theseus(Transformer(LM.largest()), seed=1, start=0.5, until=1e9)
        share = sum(sum(half.draw(LM.largest(), step)) for step in range(1000)) / 3000
        assert 0.45 < share < 0.6


class TestTraining:
    @pytest.mark.parametrize("family", SPACES)
    def test_only_layers_that_run_are_trained_until_all_do(self, family):
        student, larger = pair_of(family, 2)
        theseus = Theseus(larger, seed=0, start=0.5, until=3)
        loss = DistillationLoss(student, None, (), temperature=1.0, label_share=1.0, feature_weight=0.0,
                                attention_weight=0.0, fade=False, theseus=theseus)
        trainer = Trainer(student, Fixed(student.arch), recipe(), Same(batch_of(family)), training_loss=loss)
        kept = {name: tensor.clone() for name, tensor in larger.state_dict().items()}
        for step in range(5):
            before = {name: tensor.detach().clone() for name, tensor in student.named_parameters()}
            trainer.step()
            changed = {name for name, tensor in student.named_parameters() if not torch.equal(tensor, before[name])}
            runs = theseus.draw(student.arch, step)
            places = [(stack, layer) for stack, layers in student.arch.stacks.items() for layer in layers]
            running = {f"{stack}.{slot}.{role}" for (stack, layer), is_on in zip(places, runs) if is_on
                       for role, _, slot in layer.parts()}
            if theseus.is_replacing(step):
                assert changed and all(name.startswith(tuple(running)) for name in changed)
            else:
                assert {name.split(".")[0] for name in changed} >= {"embedding", *student.arch.stacks}
        assert all(torch.equal(tensor, kept[name]) for name, tensor in larger.state_dict().items())
        assert all(parameter.grad is None for parameter in larger.parameters())

    def test_recomputing_layers_gives_the_same_gradients(self):
        found = []
        for checkpointing in (False, True):
            student, larger = pair_of("seq2seq", 2)
            loss = DistillationLoss(student, None, (), temperature=1.0, label_share=1.0, feature_weight=0.0,
                                    attention_weight=0.0, fade=False,
                                    theseus=Theseus(larger, seed=0, start=0.5, until=3))
            trainer = Trainer(student, Fixed(student.arch), recipe(checkpointing=checkpointing),
                              Same(batch_of("seq2seq")), training_loss=loss)
            trainer.step()
            found.append({name: tensor.detach().clone() for name, tensor in student.named_parameters()})
        assert all(torch.equal(found[0][name], found[1][name]) for name in found[0])
