"""The supernet against extracted models: outputs, gradients outside the slice, parameter counts.

Used by the tests with a few architectures per space, and by `make parity` with many.
"""

from __future__ import annotations

import argparse
import random
import sys

from nas.testing.parity import TOLERANCE, Report, batch, compare, leaks, randomised
from search_spaces import load_space, shipped_spaces

__all__ = ["TOLERANCE", "Report", "batch", "check_space", "compare", "leaks", "randomised"]


def check_space(name: str, per_space: int, seed: int = 0) -> Report:
    """Compare `per_space` random architectures of a shipped space, its smallest and its largest."""
    space, report, rng = load_space(name), Report(), random.Random(seed)
    net = randomised(space, seed)
    archs = [space.smallest(), space.largest(), *(space.sample(rng) for _ in range(per_space - 2))]
    for i, arch in enumerate(archs):
        compare(net, arch, i, report)
    return report


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--per-space", type=int, default=200)
    parser.add_argument("spaces", nargs="*", default=shipped_spaces())
    options = parser.parse_args()
    fine = True
    for name in options.spaces:
        report = check_space(name, options.per_space)
        fine &= report.ok
        print(f"{name}: {report.architectures} architectures, {report.bit_equal} bit-equal, "
              f"largest difference {report.worst:.1e}, {len(report.leaks)} gradients outside a slice, "
              f"{len(report.miscounts)} wrong counts: {'ok' if report.ok else 'FAILED'}")
        for kind, dims in sorted(report.covered.items()):
            values = {dim: sorted(found, key=lambda value: (str(type(value)), value)) for dim, found in dims.items()}
            print(f"  {kind}: " + "; ".join(f"{dim} {_listed(found)}" for dim, found in sorted(values.items())))
        for problem in (*report.leaks, *report.miscounts):
            print("  FAILED", problem)
    return 0 if fine else 1


def _listed(values: list) -> str:
    shown = ", ".join(map(str, values))
    return shown if len(values) <= 8 else f"{values[0]} ... {values[-1]} ({len(values)} values)"


if __name__ == "__main__":
    sys.exit(main())
