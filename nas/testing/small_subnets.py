"""Subnets of random architectures with random weights, as small as possible, for testing exports."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml
from tokenizers import Tokenizer, decoders, models, pre_tokenizers

from nas.core.subnet import Subnet, SubnetFacts, write_subnet
from nas.tasks.tokenizer import SPECIALS
from search_spaces import SearchSpace
from search_spaces.files.loader import space_from_text
from supernet import Transformer

TASKS = {"lm": "lm", "encoder": "classification", "seq2seq": "translation"}
BASE: dict[str, Any] = {"schema_version": 1, "vocab_size": 40, "context": 12, "width": [8, 16]}
MIXERS = {"attention": {"n_heads": [1, 2], "head_dim": 4, "n_kv_heads": [1, "n_heads"]},
          "conv": {"kernel": [3, 5], "conv_heads": 2, "conv": ["light", "dynamic"]},
          "delight": {"depth": [2, 3], "multiplier": 1.5},
          "lsra": {"ratio": 0.5, "n_heads": 2, "kernel": [3, 5], "conv_heads": 2, "conv": ["light", "dynamic"],
                   "glu": [False, True]}}
FFN = {"ffn": {"inner": ["1x", 24], "activation": ["relu", "gelu", "silu"], "gated": [False, True]}}


def _stack(slots: int = 1, **more: object) -> dict[str, Any]:
    return {"slots": slots, "sharing": ["none", "all"], "layers": {"plain": {"mixer": MIXERS, "ffn": FFN, **more}}}


SPACES: dict[str, dict[str, Any]] = {
    "lm": {"positions": ["learned", "sinusoidal", "rotary"], "norm": ["layernorm", "rmsnorm"], "bias": [True, False],
           "embedding": {"lookup": {"rank": [4, "full"]}}, "head": {"tied": {}, "linear": {"head_rank": [4, "full"]}},
           "decoder": _stack(2)},
    "encoder": {"positions": ["learned", "rotary"], "placement": ["pre", "post"], "norm": ["layernorm", "none"],
                "n_classes": 3, "n_types": 2,
                "embedding": {"lookup": {"rank": [4, "full"], "positions_at": ["width", "rank"],
                                         "norm_after": [False, True]}},
                "head": {"classifier": {"pool": ["first", "mean"], "pooler": [False, True]}},
                "encoder": _stack(2, between={"pool": {"factor": [2, 3]}, "skip": {}})},
    "seq2seq": {"positions": ["learned", "sinusoidal"], "share_inputs": [True, False],
                "embedding": {"lookup": {"scale": [False, True]},
                              "dextra_lookup": {"rank": 8, "depth": 2, "multiplier": 1.5}},
                "head": {"linear": {}, "tied": {"projection": "own"}}, "encoder": _stack(),
                "decoder": _stack(cross={"cross_attention": {"n_heads": 2, "head_dim": 4}})}}


def space(family: str) -> SearchSpace:
    """A tiny space of a family, with every kind of block that it can have."""
    return space_from_text(yaml.safe_dump({**BASE, "name": family, "family": family, **SPACES[family]}), family)


def ship(model: Transformer, folder: Path) -> Subnet:
    """A subnet of a model, whose run is gone."""
    arch = model.arch
    labels = tuple(f"class {i}" for i in range(arch.n_classes))
    facts = SubnetFacts(key=arch.key, task=TASKS[arch.family], run="gone", labels=labels)
    return write_subnet(folder, model, tokenizer(arch.vocab_size), facts)


def tokenizer(n: int) -> Tokenizer:
    """One of n pieces, most of them single letters."""
    letters = pre_tokenizers.ByteLevel.alphabet()
    words = [*SPECIALS, *sorted(letters), *(f"{a}{b}" for a in sorted(letters) for b in sorted(letters))][:n]
    vocab = {word: i for i, word in enumerate(words)}
    result = Tokenizer(models.BPE(vocab=vocab, merges=[], unk_token="<unk>"))  # noqa: S106
    result.pre_tokenizer, result.decoder = pre_tokenizers.ByteLevel(add_prefix_space=False), decoders.ByteLevel()
    result.add_special_tokens(list(SPECIALS))
    return result
