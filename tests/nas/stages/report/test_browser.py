"""The page in a real browser."""

import os
from pathlib import Path

import pytest

from nas.core.run_dir import RunDir
from nas.stages.report.collect import collect
from nas.stages.report.document import document
from nas.stages.report.page import page
from tests.nas.stages.report.browser import CHROMIUM, browser
from tests.nas.stages.report.full import ODD
from tests.nas.stages.report.test_report import poisoned

pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="no chromium is installed (apt-get install chromium)")


@pytest.fixture(scope="module")
def window(tmp_path_factory):
    with browser(tmp_path_factory.mktemp("browser")) as found:
        yield found


@pytest.fixture(scope="module")
def opened(filled, window, tmp_path_factory):
    """The report of the full run, open in a browser."""
    before = Path.cwd()
    os.chdir(filled)
    try:
        made = document(collect(RunDir.open("a")))
    finally:
        os.chdir(before)
    path = tmp_path_factory.mktemp("page") / "report.html"
    path.write_text(page(made), "utf-8")
    window.size(1280, 900)
    window.open(path)
    return made["search"], [path.as_uri()]


@pytest.fixture
def shown(opened, window):
    """The same as it is at first; nothing may go wrong on it."""
    search, requests = opened
    window.size(1280, 900)
    pick(window, "device", "one")
    yield window, search
    assert window.errors == []
    assert window.requests == requests


def front_of(search, cost):
    return [search["points"][i] for i in search["fronts"][f"loss {cost}"]]


def keys(window):
    return window.run("[...document.querySelectorAll('#front-table .key')].map(each => each.textContent)")


def pick(window, name, value):
    window.run(f"document.querySelector('input[name={name}][value=' + CSS.escape({value!r}) + ']').click()")


def spot(window, key):
    """Where a point of the front is in the window."""
    return window.run(f"""(() => {{
        const chart = document.getElementById("front-chart");
        const trace = chart.data.findIndex(each => each.name === "front");
        const i = chart.data[trace].customdata.indexOf({key!r});
        const box = chart.getBoundingClientRect(), {{xaxis, yaxis}} = chart._fullLayout;
        return [box.left + xaxis._offset + xaxis.d2p(chart.data[trace].x[i]),
                box.top + yaxis._offset + yaxis.d2p(chart.data[trace].y[i])];
    }})()""")


def test_a_point_tells_its_key_and_is_drawn_when_clicked(shown):
    window, search = shown
    window.run("document.getElementById('front-chart').scrollIntoView({block: 'center', behavior: 'instant'})")
    point = front_of(search, "latency:one")[0]
    hover = window.wait(f"""(() => {{
        const said = document.querySelector('#front-chart .hoverlayer').textContent;
        return said.includes({point["key"][:12]!r}) && said;
    }})()""", lambda: window.point_at(*spot(window, point["key"])))
    assert f"{point['metrics']['loss']:.4f}" in hover and "layer" in hover
    window.wait(f"document.querySelector('#panes h3').textContent.startsWith({point['key'][:12]!r})",
                lambda: window.point_at(*spot(window, point["key"]), click=True))
    assert window.run("document.querySelectorAll('#panes svg.arch').length") == 1
    assert window.run("document.querySelector('#first').value") == point["key"]


def test_the_table_follows_the_device_and_the_slider(shown):
    window, search = shown
    assert keys(window) == [point["key"][:12] for point in front_of(search, "latency:one")]
    pick(window, "device", ODD)
    front = front_of(search, f"latency:{ODD}")
    assert len(front) > 1 and keys(window) == [point["key"][:12] for point in front]
    assert window.run("document.getElementById('limit-label').textContent") == "Maximum latency"
    window.run("document.getElementById('limit').focus()")
    for kind in ("keyDown", "keyUp"):  # the least, by keyboard
        window.ask("Input.dispatchKeyEvent", type=kind, key="Home", code="Home", windowsVirtualKeyCode=36)
    assert keys(window) == [front[0]["key"][:12]]
    middle = (front[0]["costs"][f"latency:{ODD}"] + front[-1]["costs"][f"latency:{ODD}"]) / 2
    window.run(f"""(() => {{ const slider = document.getElementById("limit"); slider.value = {middle};
                            slider.dispatchEvent(new Event("input")); }})()""")
    limit = float(window.run("document.getElementById('limit').value"))
    assert keys(window) == [point["key"][:12] for point in front if point["costs"][f"latency:{ODD}"] <= limit]
    pick(window, "device", "any")
    assert keys(window) == [point["key"][:12] for point in front_of(search, "params")]


def test_the_table_is_sorted_and_two_architectures_compare(shown):
    window, search = shown
    window.run("document.querySelectorAll('#front-table thead button')[1].click()")  # the loss
    losses = window.run("[...document.querySelectorAll('#front-table tbody tr')].map(row => row.cells[1].textContent)")
    assert losses == sorted(losses)
    assert window.run("document.querySelectorAll('#front-table th[aria-sort=ascending]').length") == 1
    front = front_of(search, "latency:one")
    window.run(f"""(() => {{ const second = document.getElementById("second"); second.value = {front[-1]['key']!r};
                            second.dispatchEvent(new Event("change")); }})()""")
    assert window.run("document.querySelectorAll('#panes svg.arch').length") == 2
    assert window.run("document.querySelectorAll('#panes .chart .bars').length") >= 2


def test_it_fits_a_phone_and_follows_the_theme(shown):
    window, _ = shown
    window.size(360, 740, dark=True)
    window.wait("document.getElementById('front-chart')._fullLayout.width < 360")
    assert window.run("[document.documentElement.clientWidth, document.documentElement.scrollWidth]") == [360, 360]
    dark = window.run("getComputedStyle(document.body).backgroundColor")
    ink = "document.querySelector('#front-chart .xtick text').style.fill"
    before = window.run(ink)
    window.run("document.getElementById('theme').click()")
    assert window.run("document.documentElement.dataset.theme") == "light"
    assert window.run("getComputedStyle(document.body).backgroundColor") != dark
    window.wait(f"{ink} !== {before!r}")


WIDE = """new Promise(done => requestAnimationFrame(() => requestAnimationFrame(() => done(
    [...document.querySelectorAll('.chart .main-svg')].filter(each => each.getBoundingClientRect().right >
        Math.min(each.closest('.chart').getBoundingClientRect().right, document.documentElement.clientWidth))
        .map(each => each.closest('.chart').id)))))"""
"""The charts that are wider than there is room, after the next picture of the page."""


def test_no_chart_is_wider_than_a_window_that_was_narrowed(shown):
    window, _ = shown
    for width in (850, 390, 1280, 360):
        window.size(width, 844)
        window.wait(f"innerWidth === {width}")
        assert window.run(WIDE) == []
        assert window.run("document.documentElement.scrollWidth") <= width


def test_a_quality_says_what_it_was_judged_on(shown):
    window, _ = shown
    part, whole = "4 examples of the validation split", "the whole validation split"
    says = {name: window.run(f"document.querySelector({name!r}).textContent")
            for name in ("#front-judged", "#panes .facts", "#picked-says", "#front-table thead")}
    assert part in says["#front-judged"] and whole in says["#front-judged"]
    assert part in says["#panes .facts"] and whole in says["#picked-says"]
    assert "loss, 4 examples" in says["#front-table thead"]
    assert "loss retrained, whole split" in says["#front-table thead"]


def test_labels_stand_off_the_line_of_the_front(shown):
    window, search = shown
    said = window.run("document.getElementById('front-named').textContent")
    assert "every dimension at its minimum and maximum" in said
    named = window.run("""(({customdata, textposition}) => customdata.map((key, i) => [key, textposition[i]]))(
        document.getElementById("front-chart").data.find(each => each.name === "named"))""")
    on = {point["key"] for point in front_of(search, "latency:one")}
    assert named and all(place.startswith("bottom" if key in on else "top") for key, place in named)


def test_a_retraining_has_one_entry_beside_a_plot_with_room_on_a_phone(shown):
    window, _ = shown
    names = window.run("[...document.querySelectorAll('#retraining-legend li')].map(each => each.textContent)")
    assert len(names) == 1 and names[0].endswith("-retrained")
    assert window.run("document.getElementById('retraining-chart').data.length") == 2
    window.size(360, 740)
    assert window.run(WIDE) == []
    assert window.run("document.getElementById('retraining-chart')._fullLayout.yaxis._length") > 200


def test_the_key_column_keeps_its_lines_when_a_table_is_scrolled(shown):
    window, _ = shown
    assert window.run("getComputedStyle(document.querySelector('#front-table table')).borderCollapse") == "separate"


def test_latencies_that_were_not_measured_are_marked(shown):
    window, search = shown
    cells = "[...document.querySelectorAll('#front-table tbody tr')].map(row => row.cells[2].textContent)"
    note = "document.getElementById('front-unmeasured')"
    assert not any(cell.startswith("~") for cell in window.run(cells)) and window.run(f"{note}.hidden")
    pick(window, "device", ODD)
    front = front_of(search, f"latency:{ODD}")
    assert len(front) > 1 and all(0 < point["unmeasured"][f"latency:{ODD}"] < 1 for point in front)
    assert all(cell.startswith("~") for cell in window.run(cells)) and not window.run(f"{note}.hidden")
    assert f"{len(front)} of {len(front)} architectures on this front" in window.run(f"{note}.textContent")
    assert "not measured" in window.run("document.querySelector('#front-table thead').textContent")
    assert "hatched" in window.run("document.getElementById('parts-says-0').textContent")
    shapes = window.run("document.getElementById('parts-0').data.flatMap(trace => trace.marker.pattern.shape)")
    assert "/" in shapes and "" in shapes


def test_a_retrained_model_far_off_does_not_squeeze_the_front_and_stands_where_it_was_measured(shown):
    window, search = shown
    star, (low, high) = window.run("""(({data, _fullLayout}) => [
        (({x, y, text, marker, hovertext}) => ({x, y, text, symbol: marker.symbol, hovertext}))(
            data.find(each => each.name === "retrained")), _fullLayout.yaxis.range])(
        document.getElementById("front-chart"))""")
    losses = [point["metrics"]["loss"] for point in search["points"]]
    assert (high - low) < 1.5 * (max(losses) - min(losses)) and low < min(losses) and high > max(losses)
    assert star["x"] == [2.1] and low < star["y"][0] < min(losses)  # measured, not predicted; at the edge
    assert star["text"] == ["1.2500"] and star["symbol"] == ["triangle-down"]
    assert "2.1 ms, measured (predicted" in star["hovertext"][0] and "outside this chart" in star["hovertext"][0]
    assert "Triangles at the edge" in window.run("document.getElementById('front-judged').textContent")


def test_an_axis_has_ticks_however_narrow_its_range(shown):
    window, _ = shown
    for low, high in ((1.17, 1.57), (0.53, 0.93), (9.9, 10.4), (2.1, 4.9), (0.3, 40), (1234, 1240)):
        found = window.run(f"ticks([{low}, {high}])")
        assert 3 <= len(found["tickvals"]) <= 12 and all(low <= value <= high for value in found["tickvals"])
        assert len(set(found["ticktext"])) == len(found["ticktext"])


def test_the_exports_of_a_model_are_seen_with_their_heading(shown):
    window, _ = shown
    cut = window.run("""[...document.querySelectorAll('#subnets details[open] .scroll')].filter(box =>
        [...box.querySelectorAll('th, td')].some(cell => cell.getBoundingClientRect().right >
            box.getBoundingClientRect().right + 1)).map(box => box.textContent)""")
    assert cut == []
    assert window.run("document.querySelector('#subnets thead').textContent").endswith("exports")


def test_choices_that_wrap_are_even(shown):
    window, _ = shown
    window.size(390, 844)
    boxes = window.run("""[...document.querySelectorAll('.choice span')].map(each => {
        const {left, right, top, bottom} = each.getBoundingClientRect(), style = getComputedStyle(each);
        return {left, right, top, bottom, round: [style.borderTopLeftRadius, style.borderBottomRightRadius]}})""")
    assert len(boxes) > 4 and {tuple(box["round"]) for box in boxes} == {("8px", "8px")}
    assert all(a["right"] < b["left"] or b["right"] < a["left"] or a["bottom"] < b["top"] or b["bottom"] < a["top"]
               for i, a in enumerate(boxes) for b in boxes[:i])


def test_every_section_of_a_full_run_is_shown(shown):
    window, _ = shown
    assert window.run("[...document.querySelectorAll('section[hidden]')].map(each => each.id)") == []
    assert window.run("[...document.querySelectorAll('.chart:not([hidden])')].every(each => each.querySelector('svg'))")


def test_nothing_in_the_data_runs(full, window):
    full()
    path = Path("poisoned.html")
    path.write_text(page(poisoned(document(collect(RunDir.open("a"))))), "utf-8")
    window.size(1280, 900)
    window.open(path)
    assert window.run("typeof hacked") == "undefined" and window.errors == []
    assert window.run("document.querySelectorAll('img, main script').length") == 0
    assert "<script>hacked=1" in window.run("document.querySelector('h1').textContent")


def test_a_run_that_was_only_trained_says_what_to_do(here, finished, window):
    finished()
    path = Path("trained.html")
    path.write_text(page(document(collect(RunDir.open("a")))), "utf-8")
    window.open(path)
    assert window.run("[...document.querySelectorAll('section:not([hidden])')].map(each => each.id)") == [
        "training", "files", "missing"]
    assert "nas search a" in window.run("document.getElementById('commands').textContent")
    assert window.errors == []
