"""Token-by-token decoding with a cache."""

from __future__ import annotations

import math
from dataclasses import replace

import torch
from torch import Tensor

from search_spaces.architecture import Architecture
from search_spaces.errors import InputError
from search_spaces.units import plan
from supernet.cache import WHERE, Cache, decoder_steps, empty_states
from supernet.driver import PassInputs, drive
from supernet.parts import UnitParts


class DecodingMixin:
    """A language model or a seq2seq model with cached decoding.

    Everything runs in the model's mode: with dropout, call `eval()` first.
    """

    arch: Architecture

    def parts(self) -> UnitParts:
        """The units of the model."""
        raise NotImplementedError

    def start(self, sequences: int | Tensor, *, mask: Tensor | None = None, types: Tensor | None = None) -> Cache:
        """The cache before the first token.

        Args:
            sequences: for lm their number; for seq2seq the source ids (batch, n), which are encoded here.
            mask: (batch, n), true for real source tokens; None if all are real.
            types: (batch, n) token types of the source, 0 by default.

        Raises:
            InputError: the model cannot generate, or the source is not valid for it.
        """
        _check_start(self.arch, sequences, mask, types)
        parts, batch = self.parts(), sequences if isinstance(sequences, int) else sequences.shape[0]
        weights = parts.tensors(decoder_steps(self.arch)[0])
        cache = Cache(batch, 0, empty_states(self.arch, batch, next(iter(weights.values()))), memory_mask=mask)
        if isinstance(sequences, int):
            return cache
        encoder = [step for step in plan(self.arch) if step.stack == "encoder"]
        return replace(cache, memory=drive(encoder, parts, PassInputs(sequences, mask=mask, types=types)).x)

    def decode(self, tokens: Tensor, cache: Cache) -> tuple[Tensor, Cache]:
        """Decode tokens: the logits (batch, n, vocabulary), equal to those of a full forward pass, and the next cache.

        Args:
            tokens: (batch, n) ids, one or several of each sequence; all are real, of type 0.
            cache: from `start` or the last `decode`; it can be reused.

        Raises:
            InputError: the tokens do not fit the cache or exceed the context.
        """
        _check_tokens(self.arch, tokens, cache)
        read, target = (None, tokens) if self.arch.family == "seq2seq" else (tokens, None)
        done = drive(decoder_steps(self.arch), self.parts(),
                     PassInputs(read, target, mask=cache.memory_mask, memory=cache.memory, position=cache.position,
                            states=cache.states))
        return done.x, replace(cache, position=cache.position + tokens.shape[1], states=tuple(done.states))

    @torch.no_grad()
    def generate(self, tokens: Tensor, n: int, *, begin: int | None = None, mask: Tensor | None = None,
                 types: Tensor | None = None, temperature: float = 0.0, top_k: int | None = None,
                 seed: int | None = None, stop: int | None = None) -> Tensor:
        """Generate up to `n` tokens: (batch, at most n) ids, without the given ones.

        Args:
            tokens: (batch, m) ids; for lm a prompt, of equal length in all rows; for seq2seq the source.
            begin: the id that targets begin with, for seq2seq.
            mask: (batch, m), true for real source tokens, for seq2seq.
            types: (batch, m) token types of the source, for seq2seq.
            temperature: 0 takes the most probable token; otherwise logits are divided by it and tokens drawn.
            top_k: sample from the k most probable tokens only.
            seed: makes draws repeatable; None draws from torch's global generator.
            stop: the id that ends a row; the rest of the row is filled with it.

        Raises:
            InputError: a setting or the input is not allowed.
        """
        _check_generate(self.arch, tokens, n, begin, temperature, top_k, stop)
        prompt = tokens if begin is None else torch.full_like(tokens[:, :1], begin)
        cache = self.start(tokens.shape[0] if begin is None else tokens, mask=mask, types=types)
        generator = None if seed is None else torch.Generator(tokens.device).manual_seed(seed)
        ended = torch.zeros(tokens.shape[0], dtype=torch.bool, device=tokens.device)
        written: list[Tensor] = []
        while len(written) < n and not ended.all():
            logits, cache = self.decode(written[-1][:, None] if written else prompt, cache)
            chosen = _choose(logits[:, -1], temperature, top_k, generator)
            if stop is not None:
                chosen = chosen.masked_fill(ended, stop)
                ended = ended | (chosen == stop)
            written.append(chosen)
        return torch.stack(written, dim=1)


def _choose(logits: Tensor, temperature: float, top_k: int | None, generator: torch.Generator | None) -> Tensor:
    """(batch, vocabulary) -> (batch,) ids. Raises InputError if the model's outputs are not finite."""
    if not torch.isfinite(logits).all():
        raise InputError(WHERE, "the outputs of the model are not finite; its weights are damaged, or its training "
                                "diverged")
    if temperature == 0:
        return logits.argmax(dim=-1)
    logits = logits.float()
    if top_k is not None:
        least = logits.topk(min(top_k, logits.shape[-1])).values[:, -1:]
        logits = logits.masked_fill(logits < least, -math.inf)
    logits = (logits - logits.amax(dim=-1, keepdim=True)) / temperature  # no overflow at low temperatures
    return torch.multinomial(logits.softmax(dim=-1), 1, generator=generator)[:, 0]


def _check_start(arch: Architecture, sequences: int | Tensor, mask: Tensor | None, types: Tensor | None) -> None:
    _check_family(arch)
    if isinstance(sequences, int):
        if arch.family == "seq2seq":
            raise InputError(WHERE, "the family seq2seq needs the token ids of the source")
        if mask is not None or types is not None:
            raise InputError(WHERE, "mask and types are not allowed for the family lm: prompts have equal length and "
                                    "type 0")
        return
    if arch.family == "lm":
        raise InputError(WHERE, "the family lm needs the number of sequences here; pass their tokens to decode")
    _check_ids("a source", sequences)
    if sequences.shape[1] > arch.context:
        raise InputError(WHERE, f"a source of {sequences.shape[1]} tokens is longer than the context {arch.context}")
    if mask is not None and (mask.dtype != torch.bool or mask.shape != sequences.shape):
        raise InputError(WHERE, f"mask is {mask.dtype} of shape {tuple(mask.shape)}; allowed: bool of shape "
                                f"{tuple(sequences.shape)}, true for real tokens")
    if types is not None and not arch.n_types:
        raise InputError(WHERE, "token types were given to an architecture with n_types 0")


def _check_tokens(arch: Architecture, tokens: Tensor, cache: Cache) -> None:
    _check_ids("the input", tokens)
    if tokens.shape[0] != cache.batch:
        raise InputError(WHERE, f"{tokens.shape[0]} sequences of tokens do not match a cache of {cache.batch}")
    if cache.position + tokens.shape[1] > arch.context:
        raise InputError(WHERE, f"{tokens.shape[1]} tokens after {cache.position} exceed the context "
                                f"{arch.context}; at most {arch.context - cache.position} are allowed")


def _check_generate(arch: Architecture, tokens: Tensor, n: int, begin: int | None, temperature: float,
                    top_k: int | None, stop: int | None) -> None:
    _check_family(arch)
    _check_ids("a source" if arch.family == "seq2seq" else "a prompt", tokens)
    if (arch.family == "seq2seq") != (begin is not None):
        needs = "a start token for targets" if arch.family == "seq2seq" else "a prompt and no start token"
        raise InputError(WHERE, f"the family {arch.family} needs {needs}")
    given = 1 if arch.family == "seq2seq" else tokens.shape[1]
    if not 1 <= n <= arch.context + 1 - given:  # the last token is generated but not read
        raise InputError(WHERE, f"{n} tokens cannot be generated after {given} in a context of {arch.context}; "
                                f"allowed: 1 to {arch.context + 1 - given}")
    for name, token in (("begin", begin), ("stop", stop)):
        if token is not None and not 0 <= token < arch.vocab_size:
            raise InputError(WHERE, f"{name} is {token}; allowed: 0 to {arch.vocab_size - 1}")
    if not 0 <= temperature < math.inf:
        raise InputError(WHERE, f"temperature is {temperature}; allowed: 0 or a positive number")
    if top_k is not None and top_k < 1:
        raise InputError(WHERE, f"top_k is {top_k}; allowed: 1 or more")


def _check_family(arch: Architecture) -> None:
    if arch.family == "encoder":
        raise InputError(WHERE, "the family encoder cannot generate text; allowed: lm, seq2seq")


def _check_ids(what: str, ids: Tensor) -> None:
    if ids.dim() != 2 or not ids.numel():
        raise InputError(WHERE, f"{what} has shape {tuple(ids.shape)}; allowed: (batch, n) ids, n at least 1")
