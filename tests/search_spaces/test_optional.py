"""What earlier versions did not know (optional dims, norm_eps) is left out at its default and kept otherwise."""

from __future__ import annotations

from dataclasses import replace

import pytest

from search_spaces import Architecture, InputError, load_space
from search_spaces.block import BlockConfig
from search_spaces.units import plan

ATTENTION = {"n_heads": 4, "head_dim": 16, "n_kv_heads": 4}


@pytest.fixture(scope="module")
def arch() -> Architecture:
    return load_space("lm-small").smallest()


def test_an_optional_dim_at_its_default_is_not_named() -> None:
    plain = BlockConfig.of("attention", ATTENTION)
    assert BlockConfig.of("attention", {**ATTENTION, "qk_norm": False, "rotary_base": 10000}) == plain
    assert plain["rotary_base"] == 1e4 and "rotary_base" not in dict(plain.dims)
    assert dict(BlockConfig.of("attention", {**ATTENTION, "qk_norm": True}).dims)["qk_norm"] is True


def test_norm_eps_is_kept_in_json_and_in_the_units(arch: Architecture) -> None:
    assert "norm_eps" not in arch.to_dict()
    other = replace(arch, norm_eps=1e-12)
    assert Architecture.from_json(other.to_json()) == other
    assert all(dict(step.unit.facts)["norm_eps"] == 1e-12 for step in plan(other) if step.role in ("mixer", "norm"))
    assert all("norm_eps" not in dict(step.unit.facts) for step in plan(arch))


@pytest.mark.parametrize(("eps", "says"), [(1e-5, "is the default"), (2, "allowed: a number from 0 to 1"),
                                           (True, "allowed: a number from 0 to 1")])
def test_a_wrong_norm_eps_is_refused(arch: Architecture, eps: float, says: str) -> None:
    with pytest.raises(InputError, match=says):
        replace(arch, norm="layernorm", norm_eps=eps)


def test_a_space_fixes_norm_eps_and_optional_dims(tmp_path) -> None:
    path = tmp_path / "own.yaml"
    path.write_text("""
schema_version: 1
name: own
family: lm
vocab_size: 50
context: 16
width: [16, 32]
norm_eps: 1.0e-12
positions: [rotary]
embedding: {lookup: {}}
head: {tied: {scale: [true]}}
decoder:
  slots: 2
  layers:
    only:
      mixer: {attention: {n_heads: [2], rotary_base: [500.0], biases: [qkv]}}
      ffn: {ffn: {inner: [2x, 4x], activation: [gelu_tanh]}}
""")
    space = load_space(str(path))
    arch = space.largest()
    assert arch.norm_eps == 1e-12 and arch.decoder[0].mixer["rotary_base"] == 500 and arch.head["scale"] is True
    assert arch in space and space.decode(space.encode(arch)) == arch
    assert replace(arch, norm_eps=0.0) not in space
