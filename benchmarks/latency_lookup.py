"""How fast latencies are looked up: architectures per second of `LatencyModel.predict_many`.

    python benchmarks/latency_lookup.py [DEVICE]

On lm-small. Without a profiled DEVICE every unit has a made-up price: looking up does not depend on it. Prints one JSON
line: the best of a few rounds over architectures that were not looked up before, and over the same ones again.
"""

from __future__ import annotations

import argparse
import json
import random
import time

from hardware_profiles import LatencyModel
from hardware_profiles.device import load_profile
from hardware_profiles.profile import Conditions, Stored
from hardware_profiles.table import PriceRow, PriceTable, UnitWork
from nas.stages.profile.choice import units_of
from search_spaces import load_space

SPACE = "lm-small"


def made_up() -> LatencyModel:
    units = units_of(load_space(SPACE), "prefill")
    rows = [PriceRow("prefill", unit, 0.1, 0.1, 0.1, "measured", UnitWork(0, 0, 0, 0)) for unit in units]
    return LatencyModel(Stored(device=load_profile("cpu"), conditions=Conditions(batch=1, length=128, past=64)),
                        PriceTable(rows))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("device", nargs="?")
    parser.add_argument("-n", type=int, default=5000)
    options = parser.parse_args()
    model = LatencyModel.load(options.device) if options.device else made_up()
    space = load_space(SPACE)
    sets = [[space.sample(random.Random(seed)) for seed in range(first, first + options.n)]
            for first in (0, options.n, 2 * options.n)]
    model.predict_many(sets[0][:200])
    fresh, again = [], []
    for archs in sets:
        for seconds in (fresh, again):
            start = time.perf_counter()
            model.predict_many(archs)
            seconds.append(time.perf_counter() - start)
    print(json.dumps({"benchmark": "latency_lookup", "space": SPACE, "n": options.n,
                      "per_second": round(options.n / min(fresh)), "per_second_again": round(options.n / min(again))}))


if __name__ == "__main__":
    main()
