"""Keys name architectures in files that outlive the process: they may not depend on its hash seed."""

from __future__ import annotations

import os
import subprocess
import sys

PROGRAM = """
import random
from search_spaces import load_space
for name in ("lm-tiny", "encoder-small", "seq2seq-small", "delight-lm"):
    space, rng = load_space(name), random.Random(0)
    print(space.smallest().key, space.largest().key, *space.genes)
    for _ in range(250):
        arch = space.sample(rng)
        print(arch.key, space.encode(arch))
"""


def keys_under(hash_seed: str) -> str:
    environment = {**os.environ, "PYTHONHASHSEED": hash_seed}
    done = subprocess.run([sys.executable, "-c", PROGRAM], env=environment, capture_output=True, text=True, check=True)
    return done.stdout


def test_keys_samples_and_genotypes_are_the_same_under_another_hash_seed() -> None:
    first = keys_under("1")
    assert first.count("\n") == 4 * 251  # 1,000 samples and both ends of every space
    assert keys_under("2") == first
