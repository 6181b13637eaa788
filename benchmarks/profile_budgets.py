"""Whether `nas profile` keeps its budget, and what a budget buys.

    python benchmarks/profile_budgets.py [--device cpu-onnxruntime] [--space lm-tiny] [--budgets 20s,40s,1m,2m,5m]
                                         [--results benchmarks/results]

Runs `nas profile` once for each budget, as a user would: a process of its own, in an empty folder, with nothing
compiled before. Prints one JSON line for each: `budget_s`; `wall_s`, the wall time of the command from its start to its
end; `refused_least`, where the budget is below the least, that least; the units that were measured and interpolated;
the whole models that calibrate; and `residual_error`, the relative error of whole models that are left out of the
calibration one by one. `--results` appends the rows to `profile_budgets.csv`.
"""

from __future__ import annotations

import argparse
import json
import platform
import re
import subprocess
import sys
import tempfile
import time
from typing import Any

from _results import add_option, append

from nas.core.durations import parse_time


def profiled(device: str, space: str, budget: str) -> dict[str, Any]:
    """One call in an empty folder."""
    with tempfile.TemporaryDirectory() as folder:
        start = time.monotonic()
        done = subprocess.run([sys.executable, "-m", "nas", "profile", device, "--space", space, "--budget", budget,
                               "--json"], cwd=folder, capture_output=True, text=True, check=False)
        taken = time.monotonic() - start
    line: dict[str, Any] = {"device": device, "space": space, "budget_s": parse_time(budget), "wall_s": round(taken, 1)}
    least = re.search(r"takes at least about (\S+)", done.stderr)
    if done.returncode == 2 and least:
        return {**line, "refused_least": least[1]}
    if done.returncode:
        sys.exit(done.stderr)
    phases = json.loads(done.stdout)["phases"]
    total = {name: sum(phase[name] for phase in phases) for name in ("n_units", "n_measured", "n_models")}
    return {**line, **total, "n_interpolated": total["n_units"] - total["n_measured"],
            "compiling_s": round(sum(phase["compiling_s"] for phase in phases), 1),
            "timing_s": round(sum(phase["timing_s"] for phase in phases), 1),
            "residual_error": round(max(phase["error"] for phase in phases), 4)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="cpu-onnxruntime")
    parser.add_argument("--space", default="lm-tiny")
    parser.add_argument("--budgets", default="20s,40s,1m,2m,5m")
    add_option(parser)
    options = parser.parse_args()
    for budget in options.budgets.split(","):
        line = profiled(options.device, options.space, budget)
        print(json.dumps({"benchmark": "profile_budgets", **line}), flush=True)
        append(options.results, "profile_budgets", [{**line, "python": platform.python_version()}])


if __name__ == "__main__":
    main()
