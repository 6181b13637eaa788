"""Whether profiles of one device agree: the same table by another route, or made again at another hour.

    python benchmarks/same_profile.py SPACE PROFILE PROFILE... [--results benchmarks/results]

PROFILE is the folder of a profile that has the space's units. Prints one JSON line. For each profile but the first,
against the first: `models`, the mean relative difference in % of the latencies predicted for 200 sampled architectures,
and `ratio`, their median ratio; `units`, the median relative difference in % of the prices that both measured. Two
profiles made by the same route tell what noise is.
"""

from __future__ import annotations

import argparse
import json
import random

import numpy as np
from _results import add_option, append

from hardware_profiles import LatencyModel
from search_spaces import load_space

SAMPLES = 200


def measured(model: LatencyModel) -> dict[object, float]:
    return {place: row.ms for place, row in model.table.items() if row.source == "measured" and place[0] == "prefill"}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("space")
    parser.add_argument("profiles", nargs="+", metavar="PROFILE")
    add_option(parser)
    options = parser.parse_args()
    space = load_space(options.space)
    archs = [space.sample(random.Random(seed)) for seed in range(SAMPLES)]
    first, *others = (LatencyModel.load(folder) for folder in options.profiles)
    rows: list[dict[str, object]] = []
    line: dict[str, object] = {"benchmark": "same_profile", "space": space.name, "first": options.profiles[0]}
    for name, other in zip(options.profiles[1:], others):
        ratios = other.predict_many(archs) / first.predict_many(archs)
        prices = measured(first), measured(other)
        units = np.array([prices[1][place] / ms for place, ms in prices[0].items() if place in prices[1]])
        models_difference, units_difference = np.abs(ratios - 1).mean(), np.median(np.abs(units - 1))
        line[name] = {"models": round(100 * float(models_difference), 2), "ratio": round(float(np.median(ratios)), 4),
                      "units": round(100 * float(units_difference), 2), "units_compared": len(units)}
        rows.append({"route": name, "space": space.name, "device": other.stored.device.name,
                     "units_difference": round(float(units_difference), 4),
                     "models_difference": round(float(models_difference), 4),
                     "median_ratio": round(float(np.median(ratios)), 4)})
    print(json.dumps(line))
    append(options.results, "profile_routes", rows)


if __name__ == "__main__":
    main()
