"""Writes the tables of measurements on docs/results.md and README.md from benchmarks/results/*.csv: `make results`.

A page marks each table with `<!-- results:NAME -->` and `<!-- /results -->`; the text between them is replaced.
Where a file has several rows for the same line of a table, the last one counts.
"""

from __future__ import annotations

import csv
import re
import statistics
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
RESULTS = ROOT / "benchmarks" / "results"
PAGES = ("docs/results.md", "README.md")
REGION = re.compile(r"(<!-- results:([\w-]+) -->\n).*?(<!-- /results -->)", re.DOTALL)
Row = dict[str, str]
Rows = dict[tuple[str, ...], Row]


def latest(name: str, *keys: str) -> Rows:
    """The last row of a file for each combination of values of these columns; none if nothing was measured yet."""
    if not (RESULTS / f"{name}.csv").exists():
        return {}
    with (RESULTS / f"{name}.csv").open(encoding="utf-8", newline="") as file:
        return {tuple(row[key] for key in keys): row for row in csv.DictReader(file)}


def table(header: Sequence[str], lines: Iterable[Sequence[str]]) -> str:
    written = (f"| {' | '.join(line)} |" for line in (header, ["---"] * len(header), *lines))
    return "".join(re.sub(r"\|\s+(?=\|)", "| ", line) + "\n" for line in written)


def listed(rows: Iterable[Row], columns: Mapping[str, Callable[[Row], str]]) -> str:
    """A table with a line for each row; `columns` maps each heading to its cell."""
    return table(list(columns), ([cell(row) for cell in columns.values()] for row in rows))


def source(name: str, rows: Iterable[Row]) -> str:
    """The line below a table: file, machines, dates, and the commits that were measured or that recorded the rows."""
    rows = list(rows)
    columns = (sorted({row[column] for row in rows} - {""}) for column in ("machine", "date"))
    commits = sorted({row["commit"] or row["recorded_in"] for row in rows})
    facts = [*(", ".join(values) for values in columns if values), f"commit {', '.join(commits)}"]
    return f"\n*`benchmarks/results/{name}.csv`: {'; '.join(facts)}.*\n"


def percent(value: str, digits: int = 1) -> str:
    return f"{100 * float(value):.{digits}f} %" if value else ""


def fixed(value: str, digits: int) -> str:
    return f"{float(value):.{digits}f}" if value else ""


def as_percent(column: str, digits: int = 1) -> Callable[[Row], str]:
    return lambda row: percent(row[column], digits)


def as_fixed(column: str, digits: int) -> Callable[[Row], str]:
    return lambda row: fixed(row[column], digits)


def as_code(column: str) -> Callable[[Row], str]:
    return lambda row: f"`{row[column]}`"


def as_millions(row: Row) -> str:
    return f"{float(row['params']) / 1e6:.2f} M"


def spread(row: Row, middle: str, low: str, high: str, digits: int) -> str:
    text = fixed(row[middle], digits)
    return f"{text} ({fixed(row[low], digits)} to {fixed(row[high], digits)})" if row[low] else text


def grid(title: str, rows: Rows, cell: Callable[[Row], str]) -> str:
    """A table of rows that are keyed by (name, number): a line for each name, a column for each number."""
    names, numbers = dict.fromkeys(key[0] for key in rows), sorted({int(key[1]) for key in rows})
    lines = ([f"`{name}`", *(cell(rows[name, str(n)]) if (name, str(n)) in rows else "" for n in numbers)]
             for name in names)
    return table([title, *(f"{number:,}" for number in numbers)], lines)


def latency() -> str:
    rows = latest("latency_check", "space", "device", "phase").values()
    return listed(rows, {
        "device": lambda row: f"`{row['device']}` ({row['runtime']})", "space": as_code("space"),
        "phase": lambda row: row["phase"], "error": as_percent("error"), "within 10 %": as_percent("within_10pct", 0),
        "tau": as_fixed("tau", 3), "tau within depth": as_fixed("tau_in_one_depth", 3),
        "repeat noise": as_percent("noise"), "units timed alone": as_percent("units_alone_error"),
        "proportional to MACs": as_percent("macs_error")}) + source("latency_check", rows)


def latency_summary() -> str:
    checks = latest("latency_check", "space", "device", "phase")
    rows = [row for (space, *_), row in checks.items() if space == "lm-small"]
    lines = {"error of the predicted latency": as_percent("error"),
             "repeat noise of the measurement": as_percent("noise"),
             "Kendall's tau, predicted and measured": as_fixed("tau", 2),
             "error of a plain sum of sub-layer latencies, without calibration": as_percent("units_alone_error"),
             "error of a prediction proportional to MACs": as_percent("macs_error")}
    header = (row["runtime"] + (", one token" if row["phase"] == "decode" else "") for row in rows)
    return table(["on 50 unseen models", *header], ([name, *map(cell, rows)] for name, cell in lines.items()))


def budgets() -> str:
    rows = latest("profile_budgets", "device", "space", "budget_s").values()

    def measured(row: Row) -> str:
        least = row["refused_least"]
        return f"refused: needs {least}" if least else f"{row['n_measured']} of {row['n_units']}"

    return listed(rows, {
        "device": as_code("device"), "space": as_code("space"), "budget": lambda row: f"{float(row['budget_s']):.0f} s",
        "wall time": lambda row: f"{float(row['wall_s']):.1f} s", "units measured": measured,
        "whole models": lambda row: row["n_models"], "residual error": as_percent("residual_error"),
    }) + source("profile_budgets", rows)


def routes() -> str:
    rows = latest("profile_routes", "route").values()
    return listed(rows, {
        "second profile": lambda row: row["route"], "units measured in both": as_percent("units_difference"),
        "predicted models": as_percent("models_difference"), "median ratio": as_fixed("median_ratio", 3),
    }) + source("profile_routes", rows)


def hat() -> str:
    rows = latest("hat_latency", "device").values()
    return listed(rows, {
        "device": lambda row: row["device"], "error": as_percent("error"),
        "HAT's own predictor, from 1,600 models": as_percent("hat_predictor_error")}) + source("hat_latency", rows)


def inherited() -> str:
    rows = latest("inherited_quality", "architecture").values()
    return listed(rows, {
        "architecture": lambda row: row["architecture"], "parameters": as_millions,
        "inherited weights": as_fixed("inherited_perplexity", 0), "trained alone": as_fixed("alone_perplexity", 0),
    }) + source("inherited_quality", rows)


def curve() -> str:
    rows = latest("supernet_curve", "architecture", "step")
    return grid("architecture, by step", rows, as_fixed("loss", 2)) + source("supernet_curve", rows.values())


def prefixes() -> str:
    rows = latest("ordered_prefixes", "model", "prefix").values()
    columns = {"model": as_code("model"), "kept": lambda row: row["prefix"], "ordered": as_fixed("ordered", 3),
               "original order": as_fixed("unordered", 3), "random order": as_fixed("random", 3)}
    return listed(rows, columns) + source("ordered_prefixes", rows)


def shrunk() -> str:
    rows = latest("shrink_pretrained", "data", "budget", "method", "seed").values()
    names = {"whole": "the whole model", "search": "search", "layers": "fewer layers", "uniform": "uniform shrinking",
             "importance": "global importance", "scratch": "encoder-small, from scratch"}

    def difference(name: str) -> Callable[[Row], str]:
        return lambda row: f"{float(row[f'{name}_difference']):+.3f} ± {float(row[f'{name}_difference_error']):.3f}"

    return listed(rows, {
        "data": as_code("data"), "budget": lambda row: row["budget"], "method": lambda row: names[row["method"]],
        "seed": lambda row: row["seed"],
        "latency": lambda row: f"{fixed(row['latency_ms'], 1)} ms" if row["latency_ms"] else "",
        "MACs": lambda row: f"{int(row['macs']) / 1e6:.0f} M",
        "accuracy": as_fixed("accuracy", 3), "vs. the whole model": difference("accuracy"),
        "loss": as_fixed("loss", 3), "loss vs. the whole model": difference("loss"),
        "steps x batch": lambda row: f"{row['steps']} x {row['batch_size']}"}) + source("shrink_pretrained", rows)


def retraining() -> str:
    rows = latest("retraining", "architecture").values()
    names = {"small": "fewest", "middle": "middle", "large": "most"}
    return listed(rows, {
        "MACs on the front": lambda row: names[row["architecture"]], "parameters": as_millions,
        "as extracted": as_fixed("extracted_perplexity", 0), "from scratch": as_fixed("scratch_perplexity", 0),
        "inherited weights": as_fixed("inherited_perplexity", 0),
        "inherited, supernet as teacher": as_fixed("distilled_perplexity", 0)}) + source("retraining", rows)


def measured() -> str:
    rows = [row for row in latest("measured_subnets", "device").values() if row["device"] != "all"]
    return listed(rows, {
        "device": as_code("device"), "fastest": lambda row: f"{row['fastest_ms']} ms",
        "slowest": lambda row: f"{row['slowest_ms']} ms", "gap to the prediction, median": as_percent("median_gap"),
        "gap, maximum": as_percent("max_gap")}) + source("measured_subnets", rows)


def int8() -> str:
    rows = latest("int8_exports", "figure", "runtime")
    runtimes = list(dict.fromkeys(runtime for _, runtime in rows))
    figures = {"size_ratio": ("file size", 2), "latency_ratio": ("latency", 2),
               "loss_increase": ("increase of the validation loss (64 windows)", 4)}
    lines = ([name, *(spread(rows[figure, engine], "median", "minimum", "maximum", digits) for engine in runtimes)]
             for figure, (name, digits) in figures.items())
    return table(["int8 relative to fp32", *runtimes], lines) + source("int8_exports", rows.values())


def sizes() -> str:
    rows = latest("export_sizes", "space", "format", "program").values()

    def megabytes(column: str) -> Callable[[Row], str]:
        return lambda row: f"{float(row[column]) / 1e6:.2f} MB" if row[column] else ""

    return listed(rows, {
        "space": as_code("space"), "format": as_code("format"), "file": as_code("program"),
        "fp32": megabytes("fp32_bytes"), "int8": megabytes("int8_bytes"),
        "int8 / fp32": lambda row: fixed(row["ratio"], 2),
        "multiply-adds of `model` in fp32": as_percent("not_quantised")}) + source("export_sizes", rows)


def decoders() -> str:
    rows = latest("exported_decoders", "space", "format", "key").values()
    spaces = list(dict.fromkeys(row["space"] for row in rows))

    def cell(name: str, space: str) -> str:
        equal = [row["equal"] == "True" for row in rows if (row["format"], row["space"]) == (name, space)]
        return f"{sum(equal)} of {len(equal)}" if equal else ""

    lines = ([f"`{name}`", *(cell(name, space) for space in spaces)]
             for name in sorted({row["format"] for row in rows}))
    header = ["equal greedy tokens", *(f"`{space}`" for space in spaces)]
    return table(header, lines) + source("exported_decoders", rows)


def decoding() -> str:
    rows = latest("decoding", "subnet", "runtime", "precision", "past")
    if not rows:
        return ""
    pasts = sorted({int(key[3]) for key in rows})

    def cell(line: tuple[str, ...], past: int) -> str:
        row = rows.get((*line, str(past)))
        return f"{fixed(row['with_cache_ms'], 2)} / {fixed(row['without_cache_ms'], 2)}" if row else ""

    lines = ([f"`{line[0]}`", line[1], line[2], *(cell(line, past) for past in pasts)]
             for line in dict.fromkeys(key[:3] for key in rows))
    header = ["model", "runtime", "precision", *(f"past {past}" for past in pasts)]
    intro = ("Milliseconds of one more token on one thread, with the cache / without, by the number of tokens "
             "read before (`python benchmarks/decoding.py lm-small seq2seq-small`). Without the cache, the whole "
             "sequence is read again, for seq2seq the source, too.\n\n")
    return intro + table(header, lines) + source("decoding", rows.values())


def compression() -> str:
    rows = latest("compression", "technique", "params")
    sizes = sorted({size for _, size in rows}, key=float, reverse=True)

    def name(technique: str) -> str:
        options, comma, rest = technique.partition(", ")
        return "original" if options == "none" else f"`{options}`{comma}{rest}"

    def cells(row: Row | None) -> list[str]:
        if row is None:
            return ["", ""]
        if row["loss"]:
            return [fixed(row["loss"], 4), f"{fixed(row['megabytes'], 2)} MB"]
        return [f"{float(row['loss_increase']):+.4f}", percent(row["size_ratio"])]

    header = [text for size in sizes for text in (f"loss, {float(size) / 1e6:.1f} M parameters", "size")]
    lines = ([name(technique), *(cell for size in sizes for cell in cells(rows.get((technique, size))))]
             for technique in dict.fromkeys(technique for technique, _ in rows))
    return table(["`nas compress`", *header], lines) + source("compression", rows.values())


def ranking() -> str:
    rows = latest("ranking", "ranked_by", "group")
    names = {"supernet loss": "loss of the supernet", "params": "parameters",
             "params without embeddings": "parameters without embeddings",
             "perfect predictor": "perfect predictor, given the seed noise"}
    lines = ([names.get(by, by), *(spread(rows[by, group], "tau", "low", "high", 2) for group in ("all", "equal MACs"))]
             for by in dict.fromkeys(by for by, _ in rows))
    return table(["ranked by", "all 32", "16 of nearly equal MACs"], lines) + source("ranking", rows.values())


def efficiency() -> str:
    rows = latest("search_efficiency", "sampler", "evaluations")
    text = grid("sampler, by evaluations", rows, as_fixed("hypervolume", 3))
    return text + source("search_efficiency", rows.values())


def overhead() -> str:
    rows = latest("search_overhead", "sampler", "trials")
    return grid("sampler, by trials", rows, as_fixed("ms_per_trial", 0)) + source("search_overhead", rows.values())


def samplers() -> str:
    rows = latest("sampler_comparison", "problem", "sampler", "version", "seed").values()
    columns = {"`predictor`": ("predictor", "after"), "`predictor`, older": ("predictor", "before"),
               "`tpe`": ("tpe", "optuna"), "`nsga2`": ("nsga2", "optuna"), "`random`": ("random", "optuna")}
    lines = []
    for problem in dict.fromkeys(row["problem"] for row in rows):
        of = [row for row in rows if row["problem"] == problem]
        means = (statistics.mean(float(row["value"]) for row in of if (row["sampler"], row["version"]) == column)
                 for column in columns.values())
        lines.append([f"`{problem}`", of[0]["trials"], str(len({row["seed"] for row in of})),
                      *(f"{mean:.4g}" for mean in means)])
    return table(["problem", "trials", "seeds", *columns], lines) + source("sampler_comparison", rows)


def tasks() -> str:
    rows = latest("tasks", "run", "architecture", "metric")

    def metrics(architecture: str) -> Callable[[Row], str]:
        return lambda first: ", ".join(f"{row['metric']} {row['value']}" for row in rows.values()
                                       if (row["run"], row["architecture"]) == (first["run"], architecture))

    return listed({run: row for (run, *_), row in rows.items()}.values(), {
        "data": lambda row: row["data"], "space": as_code("space"),
        "steps": lambda row: f"{int(row['steps']):,} of {row['batch']}", "smallest": metrics("smallest"),
        "largest": metrics("largest")}) + source("tasks", rows.values())


SHARES = {"51/100": "half", "1/4": "a quarter", "1/8": "an eighth"}
"""Budgets of `shrink_pretrained` in words; three of six layers take slightly more than half."""
PRUNED = ("layers", "uniform", "importance")
"""Methods of `shrink_pretrained` that prune to the same budget without a search."""


def _shrunk_summary() -> str:
    """Accuracy of a shrunken encoder, first seed: the pick of a search, and the best of the pruned models."""
    rows = {(budget, method): row for (budget, method, seed), row in
            latest("shrink_pretrained", "budget", "method", "seed").items() if seed == "0"}
    parts = []
    for budget, share in SHARES.items():
        if (budget, "search") in rows:
            pruned = [rows[budget, method] for method in PRUNED if (budget, method) in rows]
            best = max((row["accuracy"] for row in pruned), key=float, default="")
            parts.append(f"{fixed(rows[budget, 'search']['accuracy'], 3)} at {share} of the latency "
                         f"({f'pruned: {fixed(best, 3)}' if best else 'pruning does not get there'})")
    return ("**Start from a pretrained model.** MiniLM, fine-tuned on SST-2, has an accuracy of "
            f"{fixed(rows['1', 'whole']['accuracy'], 3)}. Searched smaller versions have {', '.join(parts)}.")


def summary() -> str:
    """The list below the table of the README."""
    gaps = latest("measured_subnets", "device")["all",]
    trained = latest("retraining", "architecture").values()
    matches = [int(row["evaluations"]) for row in latest("search_efficiency_match", "sampler", "seed").values()]
    taus = {by: fixed(row["tau"], 2) for (by, group), row in latest("ranking", "ranked_by", "group").items()
            if group == "all"}

    def together(cell: Callable[[Row], str]) -> str:
        *most, last = map(cell, trained)
        return f"{', '.join(most)} and {last}"

    return "".join(f"- {line}\n" for line in (
        _shrunk_summary(),
        f"**Latency of searched models.** In {gaps['n_subnets']} measurements of whole models in three runtimes, the "
        f"prediction is off by {percent(gaps['median_gap'])} in the median and by {percent(gaps['max_gap'])} at most.",
        "**Retraining.** With the supernet as teacher, three models of a WikiText-2 search "
        f"({together(lambda row: fixed(str(float(row['params']) / 1e6), 1))} M parameters) reach perplexities of "
        f"{together(as_fixed('distilled_perplexity', 0))}. From scratch, on the same tokens, they reach "
        f"{together(as_fixed('scratch_perplexity', 0))}.",
        f"**Sample efficiency.** The default sampler needs {min(matches)} to {max(matches)} evaluations to reach the "
        "hypervolume that NSGA-II has after 1,000.",
        f"**Ranking.** The supernet's loss ranks architectures with a Kendall's tau of {taus['supernet loss']}, the "
        f"number of parameters with {taus['params']}; the seed noise limits any predictor to "
        f"{taus['perfect predictor']}. The gain over parameter count is barely significant (95 % CI); at nearly equal "
        "cost it is not significant."))


REGIONS: dict[str, Callable[[], str]] = {
    "latency": latency, "latency-summary": latency_summary, "budgets": budgets, "routes": routes, "hat": hat,
    "inherited": inherited, "curve": curve, "prefixes": prefixes, "shrunk": shrunk, "retraining": retraining,
    "measured": measured, "int8": int8, "sizes": sizes, "decoders": decoders, "decoding": decoding,
    "compression": compression, "ranking": ranking, "efficiency": efficiency, "overhead": overhead,
    "samplers": samplers, "tasks": tasks, "summary": summary}


def filled(text: str) -> str:
    """A page with every marked region generated again."""
    return REGION.sub(lambda match: f"{match[1]}\n{REGIONS[match[2]]()}\n{match[3]}", text)


def main() -> None:
    shown = set()
    for page in PAGES:
        path = ROOT / page
        path.write_text(filled(path.read_text("utf-8")), encoding="utf-8")
        shown |= {match[2] for match in REGION.finditer(path.read_text("utf-8"))}
    if unused := REGIONS.keys() - shown:
        sys.exit(f"no page has a region for: {', '.join(sorted(unused))}")


if __name__ == "__main__":
    main()
