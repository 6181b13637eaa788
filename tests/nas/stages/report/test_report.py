import csv
import hashlib
import json
import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from nas.core.data_index import fitted_space
from nas.core.progress import StageProgress
from nas.core.run_dir import RunDir
from nas.stages.report.collect import collect
from nas.stages.report.document import document
from nas.stages.report.judged import WHOLE, split_size
from nas.stages.report.page import data_text, page
from nas.stages.report.priced import read_devices
from nas.stages.report.request import ReportRequest
from nas.stages.report.run import ReportResult, run
from nas.stages.report.searched import marks
from search_spaces import load_space
from tests.nas.runs import nas, refused
from tests.nas.stages.report.full import ODD


def digests(folder, skip=()):
    return {str(path): hashlib.sha256(path.read_bytes()).hexdigest() for path in sorted(Path(folder).rglob("*"))
            if path.is_file() and not any(part in path.parts for part in skip)}


def report(name: str, out: str | None = None) -> ReportResult:
    return run(ReportRequest(name, Path(out) if out else None), StageProgress())


def rows(path):
    with Path(path).open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def test_a_report_is_the_same_each_time_and_only_reads(full):
    full()
    before = digests("runs")
    Path("runs/a/report").mkdir()
    Path("runs/a/report/front-gone.svg").write_text("", "utf-8")  # of an older report
    first = report("a")
    again = report("a", "elsewhere/page.html")
    assert first.page == Path("runs/a/report.html")
    assert first.page.read_bytes() == again.page.read_bytes()
    assert [path.name for path in first.files] == [path.name for path in again.files]
    assert [path.read_bytes() for path in first.files] == [path.read_bytes() for path in again.files]
    assert digests("runs", skip=("report", "report.html")) == before
    assert not Path("runs/a/report/front-gone.svg").exists()
    names = {path.name for path in first.files}
    assert {"front-one.svg", "front-one.png", "front-b-two-x.svg", "front-b-two-x.png"} <= names
    assert {f"{name}.csv" for name in (
        "evaluated", "fronts", "hypervolume", "importance", "breakdown", "predicted-measured", "profiles", "subnets",
        "curves", "ranking", "architectures")} <= names


def test_the_command_says_where_the_files_are(full, capsys):
    full()
    code, out, err = nas(capsys, "report", "a", "--json", "--out", "x/mine.html")
    found = json.loads(out)
    assert (code, err, found["report"]) == (0, "", "x/mine.html")
    assert "x/mine/evaluated.csv" in found["files"] and all(Path(path).is_file() for path in found["files"])


def test_fronts_are_what_nothing_beats(full):
    full()
    searched = collect(RunDir.open("a")).searched
    allowed = [i for i, point in enumerate(searched.points) if point.allowed and not point.estimated]
    for quality in searched.qualities:
        for cost in searched.costs:
            def values(i, quality=quality, cost=cost):
                return searched.points[i].value(quality), searched.points[i].value(cost)

            front = searched.fronts[quality.name, cost.name]
            for i in allowed:
                better = [j for j in allowed if values(j) != values(i) and
                          all(a <= b for a, b in zip(values(j), values(i)))]
                assert not (i in front and better)
                assert i in front or better or any(values(i) == values(j) for j in front)
            assert front == sorted(front, key=lambda i: values(i)[1])
    assert searched.fronts["loss", "latency:one"] != searched.fronts["loss", f"latency:{ODD}"]


def test_tables_hold_what_the_page_shows(full):
    full()
    report("a")
    shown, folder = document(collect(RunDir.open("a"))), Path("runs/a/report")
    evaluated = {row["key"]: row for row in rows(folder / "evaluated.csv")}
    assert evaluated.keys() == {point["key"] for point in shown["search"]["points"]}
    for point in shown["search"]["points"]:
        row = evaluated[point["key"]]
        assert all(float(row[name]) == value for name, value in {**point["metrics"], **point["costs"]}.items())
    for name, places in shown["search"]["fronts"].items():
        quality, cost = name.split(" ", 1)
        found = [row["key"] for row in rows(folder / "fronts.csv") if (row["quality"], row["cost"]) == (quality, cost)]
        assert found == [shown["search"]["points"][i]["key"] for i in places]
    for name, of in shown["parts"].items():
        for key, parts in of.items():
            total = sum(part[3] for part in parts)
            point = evaluated.get(key)
            assert point is None or total == pytest.approx(float(point[name]), rel=1e-4)


def test_kinds_of_the_front_are_counted(full):
    full()
    report("a")
    searched = collect(RunDir.open("a")).searched
    table = [row for row in rows(Path("runs/a/report/front-kinds.csv"))
             if (row["quality"], row["cost"]) == ("loss", "latency:one")]
    front = [searched.points[i] for i in searched.fronts["loss", "latency:one"]]
    for row in table:
        def has(point, row=row):
            layers = [layer for layers in point.arch.stacks.values() for layer in layers]
            blocks = [("embedding", point.arch.embedding), ("head", point.arch.head),
                      *(part[:2] for layer in layers for part in layer.parts())]
            return any((role, block.kind) == (row["role"], row["kind"]) for role, block in blocks)

        mine = [point.costs["latency:one"] for point in front if has(point)]
        assert (int(row["on_front"]), int(row["evaluated"])) == (len(mine), sum(map(has, searched.points)))
        ends = [float(row[name]) for name in ("least_cost", "most_cost") if row[name]]
        assert ends == pytest.approx([min(mine), max(mine)] if mine else [])
    assert sum(int(row["on_front"]) for row in table if row["role"] == "head") == len(front)


def test_tables_have_the_share_that_was_not_measured(full):
    full()
    report("a")
    evaluated, subnets = rows("runs/a/report/evaluated.csv"), rows("runs/a/report/subnets.csv")
    for found in (evaluated, subnets):
        assert {float(row["unmeasured_share:latency:one"]) for row in found} == {0.0}
        assert all(0 < float(row[f"unmeasured_share:latency:{ODD}"]) < 1 for row in found)
    sources = {row["source"] for row in rows("runs/a/report/breakdown.csv")}
    assert sources == {"measured", "interpolated", ""}
    assert "partly interpolated or estimated" in Path("runs/a/report/front-b-two-x.svg").read_text("utf-8")
    assert "partly interpolated" not in Path("runs/a/report/front-one.svg").read_text("utf-8")
    tiles = document(collect(RunDir.open("a")))["search"]["tiles"]
    assert not any("~" in text for tile in tiles for text in tile)  # of the device `one`


def test_a_machine_that_left_the_cluster_is_in_the_report(full):
    full()
    said = "the machine host-b left the Ray cluster during the search"
    Path("runs/a/events.jsonl").write_text(json.dumps({"kind": "node_left", "says": said}) + "\n", "utf-8")
    report("a")
    assert said in document(collect(RunDir.open("a")))["files"]["events.jsonl"]
    assert said in Path("runs/a/report.html").read_text("utf-8")


def test_a_check_of_an_older_version_gets_todays_verdict(full):
    full()
    path = Path("runs/profiles/one/check-prefill.json")
    old = {**json.loads(path.read_text("utf-8")), "n": 6, "good": False}
    old["predicted"]["tau"] = 0.867
    del old["verdict"]
    path.write_text(json.dumps(old), "utf-8")
    assert [each["verdict"] for each in document(collect(RunDir.open("a")))["checks"]] == ["too few models"]


def test_the_ends_of_the_space_and_the_subnets_are_told(full):
    full()
    found = collect(RunDir.open("a"))
    assert {point.mark for point in found.searched.points} == {"", "smallest", "largest"}
    inherited, retrained = found.picked
    assert [step.stage for step in retrained.steps] == ["extract", "retrain"]
    assert inherited.arch == retrained.arch
    assert {gap.source for gap in found.devices.gaps} == {"", retrained.name}
    assert len(found.devices.checks) == 1
    long = next(curve for curve in found.curves if curve.training and curve.metric.startswith("train"))
    assert len(long.steps) <= 400 and long.steps[-1] == 999
    assert next(curve for curve in found.curves if curve.metric == "valid/loss" and curve.training).values == [None]


def test_it_is_told_what_a_quality_was_judged_on(full):
    full()
    search = Path("runs/a/search.yaml")
    asked = search.read_text("utf-8")
    size = split_size(RunDir.open("a"), fitted_space(RunDir.open("a")))
    for limit, examples in ((4, 4), (size - 1, size - 1), (size, None), ("null", None)):
        search.write_text(asked.replace("limit: 4\n", f"limit: {limit}\n"), "utf-8")
        found = collect(RunDir.open("a"))
        assert found.searched.examples == examples
        told = document(found)["search"]
        assert told["judged"] == (f"{examples} examples of the validation split" if examples else WHOLE)
        assert any("examples" in word for _, _, word in told["tiles"]) == bool(examples)


@pytest.mark.parametrize(("sizes", "size"), [
    ({"valid.stream": 257}, 2), ({"valid.stream": 258}, 3), ({"valid.offsets": 8, "valid.labels": 7}, 7),
    ({"valid.source_offsets": 6, "valid.target_offsets": 6}, 5), ({}, None)])
def test_the_size_of_a_split_is_known_from_its_arrays(tmp_path, sizes, size):
    space = replace(load_space("lm-tiny"), context=128)
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "data.json").write_text(json.dumps({"sizes": sizes, "vocab_size": 9, "labels": []}), "utf-8")
    assert split_size(RunDir(str(tmp_path)), space) == size


def test_a_retraining_is_known_by_its_model_and_shows_the_loss_on_labels(full):
    full()
    folder = next(Path("runs/a/retraining").iterdir())
    subnet = folder.name.rpartition("-")[0]
    report("a")
    assert {row["metric"] for row in rows("runs/a/report/curves.csv") if row["training"] == folder.name} == {
        "train/loss_labels", "train/loss_logits", "valid/loss"}
    shown = [curve for curve in document(collect(RunDir.open("a")))["curves"] if curve["training"]]
    assert [curve["metric"] for curve in shown] == ["train/loss_labels", "valid/loss"]
    assert {curve["model"] for curve in shown} == {f"{subnet}-retrained"}
    assert shown[1]["judged"] == "3 examples of the validation split"
    shutil.copytree(folder, folder.with_name(f"{subnet}-again"))
    names = {curve.model for curve in collect(RunDir.open("a")).curves if curve.training}
    assert names == {f"{subnet}-retrained ({subnet}-again)", f"{subnet}-retrained ({folder.name})"}


GPT = """
{schema_version: 1, name: around-gpt, family: lm, vocab_size: 1000, context: 64, width: [384, 768], placement: post,
 embedding: {lookup: {rank: full}}, head: {tied: {}},
 decoder: {slots: 12, depth: {keep: first, layers: [6, 12]}, layers: {transformer: {
   mixer: {attention: {n_heads: 12}}, ffn: {ffn: {inner: [2x, 4x], activation: gelu}}}}}}
"""


def test_published_architectures_are_known_by_their_names_in_any_vocabulary(tmp_path):
    (tmp_path / "gpt.yaml").write_text(GPT, "utf-8")
    space = load_space(str(tmp_path / "gpt.yaml"))
    assert marks(space)[space.largest().key] == "largest, gpt"
    assert marks(space)[space.smallest().key] == "smallest"


def test_a_run_that_was_only_trained_has_a_report_too(here, finished, capsys):
    finished()
    code, out, err = nas(capsys, "report", "a")
    assert (code, err) == (0, "") and "runs/a/report.html" in out
    shown = document(collect(RunDir.open("a")))
    assert shown["search"] is None and shown["curves"] and not shown["archs"]
    assert [path.name for path in Path("runs/a/report").iterdir()] == ["curves.csv"]


def test_a_device_without_its_profile_is_told_of(full):
    full()
    shutil.rmtree("runs/profiles/one")
    found = collect(RunDir.open("a")).devices
    assert any("one" in note for note in found.notes)
    assert list(found.parts) == [f"latency:{ODD}"]


def test_an_architecture_without_prices_costs_no_other_its_breakdown(full):
    full()
    known, strange = collect(RunDir.open("a")).picked[0].arch, load_space("lm-tiny").largest()
    found = read_devices(["one"], {"known": known, "strange": strange}, [])
    assert list(found.parts["latency:one"]) == ["known"]
    assert len(found.notes) == 1 and "1 of 2 architectures" in found.notes[0]


HOSTILE = "</script><script>hacked=1</script><img src=x onerror=hacked=1>&lt;b&gt;\u2028-->"


KEPT = ("svg", "key", "kind", "measure", "shown", "qualities", "costs", "objectives")
"""What is markup of ours, or leads from one part of a document to another."""


def poisoned(value):
    """A document with something behind its texts that a browser must not run."""
    if isinstance(value, dict):
        return {key: inner if key in KEPT else poisoned(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [poisoned(inner) for inner in value]
    return value + HOSTILE if isinstance(value, str) else value


def test_nothing_in_the_data_is_markup(full):
    full()
    made = poisoned(document(collect(RunDir.open("a"))))
    text = data_text(made)
    assert not set("<>&") & set(text)
    assert json.loads(text) == made
    whole = page(made)
    assert "<script>hacked" not in whole and "<img" not in whole.split('id="data"')[0]


@pytest.mark.parametrize(("path", "content"), [
    ("a/manifest.json", "{"), ("a/config.yaml", "task: ["), ("a/search.yaml", "trials: -"), ("a/data/data.json", "[]"),
    ("a/study.journal", "nonsense\n"), ("a/metrics.csv", "step\n"), ("a/rank/ranking.json", "{}"),
    ("a/rank/ranking.csv", "key,group\nx,y\n"), ("profiles/one/check-prefill.json", "{}"),
    ("profiles/one/check-prefill.csv", "key,measured_ms,predicted_ms\nx,0,1\n"), ("profiles/one/table.csv", "?"),
    ("profiles/one/profile.yaml", "- 1"), ("a/subnets/*-retrained/metrics.json", "{"),
    ("a/subnets/*-retrained/architecture.json", "{}"), ("a/retraining/*/metrics.csv", "\x00"),
    ("a/retraining/*/settings.json", "{}"),
])
def test_a_damaged_file_is_one_sentence(full, capsys, path, content):
    full()
    target = next(Path("runs").glob(path))
    target.write_text(content, "utf-8")
    said = refused(capsys, "report", "a")
    assert target.name.split(".")[0] in said or target.parent.name in said
    assert not Path("runs/a/report.html").exists()


def test_where_a_report_cannot_go(full, capsys):
    full()
    assert "is not a run" in refused(capsys, "report", "b")
    assert "is not a file name" in refused(capsys, "report", "a", "--out", "runs")
    Path("taken").write_text("", "utf-8")
    assert "cannot be written" in refused(capsys, "report", "a", "--out", "taken/page.html")
