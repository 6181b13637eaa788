"""Made-up tables of a ranking run."""

import numpy as np
import pandas as pd


def made_table(n=24, error=0.0, noise=0.0, repeats=0, seed=0):
    """Architectures whose trained loss is known up to noise, and is inherited up to an error; size tells nothing."""
    rng = np.random.default_rng(seed)
    true = np.linspace(3, 5, n)
    repeated = np.where(np.arange(n) < repeats, true + noise * rng.normal(size=n), np.nan)
    return pd.DataFrame({
        "group": ["spread", "band"] * (n // 2) + ["spread"] * (n % 2),
        "inherited_loss": 1 + true + error * rng.normal(size=n),
        "trained_loss": true + noise * rng.normal(size=n),
        "repeat_loss": repeated,
        "params": rng.permutation(n) + 1000, "non_embedding_params": rng.permutation(n) + 500,
        "macs": rng.permutation(n) + 9000, "depth": rng.integers(2, 7, n),
        "grad_norm": rng.random(n), "synflow": rng.random(n),
    })
