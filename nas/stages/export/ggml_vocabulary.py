"""The vocabulary of a GGUF file, from a tokenizer of the `tokenizers` library."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

from nas.core.subnet import Subnet
from nas.stages.export.reading import reading_tokenizer
from nas.tasks.tokenizer import EOS, PAD, UNK
from search_spaces import InputError

if TYPE_CHECKING:
    from gguf import GGUFWriter

_BYTE = re.compile(r"<0x[0-9A-F]{2}>")


def write_vocabulary(writer: GGUFWriter, subnet: Subnet) -> None:
    """Tokens, merges or scores, and special tokens. Raises InputError for a tokenizer not supported by llama.cpp."""
    from gguf import TokenType

    tokenizer = reading_tokenizer(subnet)
    spec = json.loads(tokenizer.to_str())
    model = spec["model"]
    if model["type"] != "BPE":
        raise InputError(str(subnet.path), f"has a tokenizer of the type {model['type']}; gguf supports BPE only")
    if not model["merges"]:
        raise InputError(str(subnet.path), "has a tokenizer without merges, which llama.cpp does not load")
    special = {token["id"]: token["special"] for token in spec["added_tokens"]}
    own = {"bos": EOS, "eos": EOS, "pad": PAD, "unk": UNK}
    specials = subnet.facts.specials if subnet.facts.brings_tokenizer else own
    tokens, kinds = [], []
    for i in range(subnet.arch.vocab_size):
        word = tokenizer.id_to_token(i)
        tokens.append(f"[PAD{i}]" if word is None else word)
        kinds.append(TokenType.UNUSED if word is None else TokenType.CONTROL if special.get(i)
                     else TokenType.USER_DEFINED if i in special
                     else TokenType.BYTE if model.get("byte_fallback") and _BYTE.fullmatch(word) else TokenType.NORMAL)
    merges = [merge if isinstance(merge, str) else " ".join(merge) for merge in model["merges"]]
    if model.get("byte_fallback"):
        writer.add_tokenizer_model("llama")
        writer.add_token_list(tokens)
        writer.add_token_scores(_scores(tokens, model["merges"]))
    else:
        writer.add_tokenizer_model("gpt2")
        writer.add_tokenizer_pre(_pre(subnet, spec.get("pre_tokenizer")))
        writer.add_token_list(tokens)
        writer.add_token_merges(merges)
    writer.add_token_types(kinds)
    for name, add in (("bos", writer.add_bos_token_id), ("eos", writer.add_eos_token_id),
                      ("pad", writer.add_pad_token_id), ("unk", writer.add_unk_token_id)):
        if name in specials:
            add(specials[name])
    first = tokenizer.encode("a").ids[:1]
    writer.add_add_bos_token(bool(first) and first[0] == specials.get("bos"))


def _scores(tokens: list[str], merges: list[Any]) -> list[float]:
    """What merges first has the highest score."""
    rank: dict[str, int] = {}
    for i, merge in enumerate(merges):
        left, right = merge.split(" ", 1) if isinstance(merge, str) else merge
        rank.setdefault(left + right, i)
    return [-float(rank[token]) - 1 if token in rank else 0.0 for token in tokens]


def _pre(subnet: Subnet, pre: dict[str, Any] | None) -> str:
    """llama.cpp's name for the way a text is split before the merges. Raises InputError where it has none."""
    parts = (pre or {}).get("pretokenizers", [pre] if pre else [])
    kinds = [part["type"] for part in parts]
    if kinds == ["ByteLevel"]:
        return "gpt-2"
    if kinds == ["Digits", "ByteLevel"] and parts[0].get("individual_digits"):
        return "smollm"
    if kinds == ["Split", "ByteLevel"]:
        pattern = str(parts[0]["pattern"].get("Regex", ""))
        if r"\p{N}{1,3}" in pattern:
            return "llama-bpe"
        if r"|\p{N}|" in pattern:
            return "qwen2"
    raise InputError(str(subnet.path), f"has a tokenizer that splits texts by {', '.join(kinds) or 'nothing'}, "
                                       "which llama.cpp does not support")
