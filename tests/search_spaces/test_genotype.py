"""Genotypes: flat, rectangular, checked, and what Optuna sees."""

from __future__ import annotations

import random

import optuna
import pytest

from search_spaces import InputError, load_space, shipped_spaces
from search_spaces.files.loader import space_from_data
from search_spaces.space.choices import stack_assignments
from search_spaces.space.genotype import extreme

SPACE = load_space("lm-tiny")


def genotype(**changes: object) -> dict:
    return {**SPACE.encode(SPACE.sample(random.Random(0))), **changes}


def test_an_unknown_gene_is_named() -> None:
    with pytest.raises(InputError, match="genotype of lm-tiny: wdth: is not a gene"):
        SPACE.decode(genotype(wdth=48))


def test_a_missing_gene_is_named() -> None:
    genes = genotype()
    del genes["width"]
    with pytest.raises(InputError, match="width: is missing"):
        SPACE.decode(genes)


@pytest.mark.parametrize("value", [50, "48", None, True, [48]])
def test_a_wrong_value_is_named_with_what_is_allowed(value: object) -> None:
    with pytest.raises(InputError) as caught:
        SPACE.decode(genotype(width=value))
    assert f"width: {value!r} is not allowed; allowed: 48, 64" in str(caught.value)


def test_all_faults_of_a_genotype_come_together() -> None:
    with pytest.raises(InputError) as caught:
        SPACE.decode({"width": 1, "nonsense": 2})
    assert len(caught.value.faults) == len(SPACE.genes) + 1


def test_one_does_not_stand_for_true() -> None:
    name = next(name for name, values in SPACE.genes.items() if values == (False, True))
    with pytest.raises(InputError, match=f"{name}: 1 is not allowed"):
        SPACE.decode(genotype(**{name: 1}))


def test_genes_with_a_single_value_are_not_in_the_genotype() -> None:
    assert all(len(values) > 1 for values in SPACE.genes.values())


@pytest.mark.parametrize("name", shipped_spaces())
def test_what_a_genotype_does_not_use_may_have_any_value(name: str) -> None:
    space, rng = load_space(name), random.Random(0)
    for _ in range(20):
        genes = {gene: rng.choice(values) for gene, values in space.genes.items()}
        arch, used = space.read(genes)
        assert used <= space.genes.keys()
        others = {gene: rng.choice(values) for gene, values in space.genes.items() if gene not in used}
        assert space.read({**genes, **others}) == (arch, used)


def test_layers_that_are_left_out_and_kinds_that_are_not_chosen_are_not_used() -> None:
    space = load_space("lm-small")
    genes = {**extreme(space, -1), "decoder.depth": 2}
    used = space.read(genes)[1]
    assert {name.split(".")[1] for name in used if name.startswith("decoder.") and name.count(".") > 1} == {"0", "3"}
    assert "decoder.0.transformer.mixer.attention.n_heads" in used
    assert not any(".lsra." in name for name in used)


def test_the_extremes_choose_the_least_and_the_greatest() -> None:
    least, greatest = extreme(SPACE, 0), extreme(SPACE, -1)
    assert (least["width"], greatest["width"]) == (48, 64)
    assert (least["decoder.depth"], greatest["decoder.depth"]) == (1, 4)
    assert (least["decoder.sharing"], greatest["decoder.sharing"]) == ("all", "none")
    assert (least["embedding.lookup.rank"], greatest["embedding.lookup.rank"]) == (16, "full")
    inner = "decoder.0.transformer.ffn.ffn.inner"
    assert (least[inner], greatest[inner]) == ("1x", 160)


@pytest.mark.parametrize("name", ["lm-tiny", "encoder-small", "seq2seq-small"])
def test_distributions_cover_the_genes(name: str) -> None:
    space = load_space(name)
    found = space.distributions()
    assert {gene: distribution.choices for gene, distribution in found.items()} == space.genes


@pytest.mark.parametrize("name", ["lm-tiny", "seq2seq-small"])
def test_an_optuna_study_can_sample_architectures(name: str) -> None:
    space = load_space(name)
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    study = optuna.create_study(sampler=optuna.samplers.RandomSampler(seed=0))
    for _ in range(10):
        trial = study.ask(space.distributions())
        arch = space.decode(trial.params)
        assert arch in space
        study.tell(trial, arch.width)
    assert len({trial.params["width"] for trial in study.trials}) > 1


def test_an_architecture_outside_the_space_is_told_what_stands_in_the_way() -> None:
    other = load_space("lm-small").smallest()
    with pytest.raises(InputError) as caught:
        SPACE.encode(other)
    assert "vocab_size: 4096; this space has 512" in str(caught.value)
    assert "width: 128; this space has 48, 64" in str(caught.value)


def test_numbers_of_another_type_are_read_as_the_spaces_own() -> None:
    space = load_space("lm-tiny")
    genotype = space.encode(space.sample(random.Random(5)))
    as_table = {name: float(value) if type(value) is int else value for name, value in genotype.items()}
    assert space.decode(as_table) == space.decode(genotype)
    assert space.decode(as_table).key == space.decode(genotype).key
    space.sample(random.Random(6))


def test_stack_wide_genes_of_kinds_ruled_out_do_not_multiply() -> None:
    dims = {"n_heads": {"global": [1, 2, 4]}, "head_dim": {"global": [2, 4, 8]}}
    families = {f"family{i}": {"mixer": {"attention": dims}, "ffn": {"ffn": {"inner": {"global": [4, 8, 16]}}}}
                for i in range(4)}
    space = space_from_data({
        "schema_version": 1, "name": "wide", "family": "lm", "vocab_size": 9, "context": 8, "width": 16,
        "embedding": {"lookup": {}}, "head": {"tied": {}},
        "decoder": {"slots": 4, "choose": {"global": list(families)}, "layers": families},
    }, "wide")
    assert len(list(stack_assignments(space.stacks["decoder"]))) == 4 * 27
    assert space.size() == 27
    assert space.sample(random.Random(0)) in space
