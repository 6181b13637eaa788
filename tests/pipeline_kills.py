"""Kill whole pipelines at random moments and resume them: weights, trials and front have to be the undisturbed ones.

    python -m tests.pipeline_kills --kills 15

The search weighs the loss against parameters: two measurements of a latency are never the same.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from tests.nas.pipeline.test_pipeline import CONFIG, made
from tests.nas.runs import write_inputs

BIGGER = {"steps: 4": "steps: 30", "trials: 8": "trials: 30", "{steps: 3}": "{steps: 20}",
          "evaluate_limit: 4": "evaluate_limit: 4, checkpoint_every: 5"}


def start(config: str) -> subprocess.Popen[bytes]:
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[1])}
    return subprocess.Popen([sys.executable, "-m", "nas", "run", config], env=environment, stdout=subprocess.DEVNULL,
                            stderr=subprocess.DEVNULL)


def written(run: str, text: str) -> str:
    Path(f"{run}.yaml").write_text(text.replace("run: p", f"run: {run}"), "utf-8")
    return f"{run}.yaml"


def stage_of(run: str) -> str:
    """The stage a pipeline was in."""
    path = Path("runs", run, "pipeline.json")
    known = json.loads(path.read_text("utf-8"))["stages"] if path.is_file() else {}
    begun = [name for name, entry in known.items() if entry["state"] != "done"]
    return begun[0] if begun else "between stages" if known else "prepare"


def result(run: str) -> dict[str, bytes]:
    """What has to be equal: weights, trials, and the front."""
    front = json.loads(Path("runs", run, "pareto.json").read_text("utf-8"))
    return {**made(run), "front": json.dumps([front["front"], front["hypervolume"]]).encode()}


def check(kills: int, seed: int) -> None:
    """Kill a pipeline so many times. Raises AssertionError where it does not end like the undisturbed one."""
    rng, before, done = random.Random(seed), Path.cwd(), 0
    text = CONFIG
    for old, new in BIGGER.items():
        text = text.replace(old, new)
    with tempfile.TemporaryDirectory() as folder:
        try:
            os.chdir(folder)
            write_inputs(Path(folder))
            begun = time.monotonic()
            if start(written("straight", text)).wait() != 0:
                raise AssertionError("the undisturbed pipeline failed")
            usual_s, wanted, number = time.monotonic() - begun, result("straight"), 0
            while done < kills:
                run, told = f"killed{number}", []
                config, number = written(run, text), number + 1
                while done < kills:
                    process = start(config)
                    try:
                        process.wait(rng.uniform(0.05, 1.0) * usual_s)
                        break  # it came to its end
                    except subprocess.TimeoutExpired:
                        process.send_signal(signal.SIGKILL)
                        process.wait()
                        done += 1
                        told.append(stage_of(run))
                if start(config).wait() != 0:
                    raise AssertionError(f"{run} does not go on")
                if result(run) != wanted:
                    raise AssertionError(f"{run} ends with something else, killed in {', '.join(told)}")
                print(f"killed in {', '.join(told) or 'nothing'}: equal", flush=True)
        finally:
            os.chdir(before)
    print(f"{done} kills of {number} pipelines: weights, trials and front as undisturbed")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--kills", type=int, default=15)
    parser.add_argument("--seed", type=int, default=0)
    asked = parser.parse_args()
    check(asked.kills, asked.seed)


if __name__ == "__main__":
    main()
