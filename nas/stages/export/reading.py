"""How text becomes the tokens of an exported model: its tokenizer and its special tokens, as its task uses them."""

from __future__ import annotations

from typing import Any

from tokenizers import Tokenizer
from tokenizers.processors import TemplateProcessing

from nas.core.subnet import Subnet
from nas.tasks.tokenizer import BOS, EOS, PAD, SPECIALS, UNK
from search_spaces import Architecture

TEMPLATES = {"lm": f"{SPECIALS[EOS]} $A", "encoder": f"{SPECIALS[BOS]} $A", "seq2seq": f"$A {SPECIALS[EOS]}"}
"""By family, how the tasks read a text: a document begins after the end of another, classifiers begin with `<bos>`,
sources of a translation end with `<eos>`."""


def reading_tokenizer(subnet: Subnet) -> Tokenizer:
    """The subnet's tokenizer, with the special tokens that its task puts around a text."""
    tokenizer = subnet.tokenizer()
    if subnet.facts.brings_tokenizer:
        return tokenizer  # which adds its own
    specials = [(SPECIALS[i], i) for i in (BOS, EOS)]
    tokenizer.post_processor = TemplateProcessing(single=TEMPLATES[subnet.arch.family], special_tokens=specials)
    return tokenizer


def special_ids(arch: Architecture) -> dict[str, int]:
    """The ids of special tokens, under the names that transformers has for them.

    A language model never sees `<bos>`: its documents begin with the end of the one before.
    """
    ids = {"pad_token_id": PAD, "bos_token_id": EOS if arch.family == "lm" else BOS, "eos_token_id": EOS,
             "unk_token_id": UNK}
    return {**ids, "decoder_start_token_id": BOS} if arch.family == "seq2seq" else ids


def label_names(subnet: Subnet) -> dict[str, Any]:
    """The classes by number and by name, or the scale of a number; empty for a model that predicts tokens."""
    labels, scale = subnet.facts.labels, subnet.facts.scale
    if not labels:
        return {}
    names = {"id2label": dict(enumerate(labels)), "label2id": {label: i for i, label in enumerate(labels)}}
    if scale is None:
        return names
    return {**names, "problem_type": "regression", "label_mean": scale[0], "label_deviation": scale[1]}


def label_scale(subnet: Subnet) -> dict[str, float]:
    """Where a model predicts a number: label = mean + deviation x output."""
    scale = subnet.facts.scale
    return {} if scale is None else {"label_mean": scale[0], "label_deviation": scale[1]}
