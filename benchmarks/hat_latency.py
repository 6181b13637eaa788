"""Held-out error of latencies learned from 80 whole models, on the measurements published with HAT.

    python benchmarks/hat_latency.py FOLDER

Prints one JSON line. For each CSV file of the folder: `mape`, the mean relative error in % on all rows but the 80 that
were learned from, over ten random draws of those, and `std`, its spread over the draws; `left_out`, the error that the
regressor expected; `inside_std`, the % of rows within one predicted standard deviation; `hat`, the error of HAT's own
predictor, which learned from 1,600 rows or more. `rejected` says which latencies were refused, and why: those of each
file, and those of its encoders and decoders alone.
"""

from __future__ import annotations

import argparse
import json
import statistics
from pathlib import Path

import numpy as np
from _results import add_option, append

from hardware_profiles.regression import fit
from search_spaces import InputError

HAT = {"titanxp": 5.9, "xeon": 4.9, "raspberrypi": 4.0}
LATENCIES = ("latency_mean_encoder", "latency_mean_decoder")


def read(path: Path) -> tuple[list[str], np.ndarray, np.ndarray]:
    """Names of the features, the features, and the latencies of encoder and decoder."""
    with path.open() as lines:
        header = next(lines).strip().split(",")
        rows = np.array([line.split(",") for line in lines if line.strip()], dtype=np.float64)
    names = [name for name in header if not name.startswith("latency_")]
    columns = [[header.index(name) for name in chosen] for chosen in (names, LATENCIES)]
    return names, rows[:, columns[0]], rows[:, columns[1]]


def held_out(names: list[str], features: np.ndarray, ms: np.ndarray, seed: int, n_rows: int) -> tuple[float, ...]:
    """Held-out error, expected error and rows within one standard deviation, all in %."""
    order = np.random.default_rng(seed).permutation(len(ms))
    known, others = order[:n_rows], order[n_rows:]
    regressor = fit(names, features[known], ms[known])
    predicted, std = regressor.predict(features[others])
    off = np.abs(predicted - ms[others])
    return 100 * float(np.mean(off / ms[others])), 100 * regressor.error, 100 * float(np.mean(off < std))


def device(path: Path, draws: int, n_rows: int) -> dict[str, float | None]:
    names, features, ms = read(path)
    results = [held_out(names, features, ms.sum(1), seed, n_rows) for seed in range(draws)]
    mapes, expected, inside = zip(*results)
    figures = {"mape": statistics.mean(mapes), "std": statistics.pstdev(mapes),
               "left_out": statistics.mean(expected), "inside_std": statistics.mean(inside)}
    hat = next((figure for name, figure in HAT.items() if name in path.stem), None)
    return {**{name: round(figure, 2) for name, figure in figures.items()}, "hat": hat}


def refused_parts(path: Path, n_rows: int) -> dict[str, str]:
    """Encoder and decoder latencies that cannot be learned, and why."""
    names, features, ms = read(path)
    rows = np.random.default_rng(0).permutation(len(ms))[:n_rows]
    refused = {}
    for part, column in zip(LATENCIES, ms.T):
        try:
            fit(names, features[rows], column[rows])
        except InputError as error:
            refused[f"{path.stem} {part}"] = error.faults[0].message
    return refused


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, help="with the CSV files of HAT's latency measurements")
    parser.add_argument("--draws", type=int, default=10)
    parser.add_argument("--rows", type=int, default=80, help="to learn from")
    add_option(parser)
    args = parser.parse_args()
    paths = sorted(args.folder.glob("*.csv"))
    if not paths:
        parser.error(f"{args.folder} has no CSV file")
    devices: dict[str, dict[str, float | None]] = {}
    rejected: dict[str, str] = {}
    for path in paths:
        try:
            devices[path.stem] = device(path, args.draws, args.rows)
        except InputError as error:
            rejected[path.stem] = error.faults[0].message
        rejected |= refused_parts(path, args.rows)
    print(json.dumps({"rows": args.rows, "draws": args.draws, "devices": devices, "rejected": rejected}))
    append(args.results, "hat_latency",
           [{"device": name, "n_models": args.rows, "draws": args.draws, "error": share(figures["mape"]),
             "hat_predictor_error": share(figures["hat"])} for name, figures in devices.items()])


def share(percent: float | None) -> float | str:
    return "" if percent is None else round(percent / 100, 4)


if __name__ == "__main__":
    main()
