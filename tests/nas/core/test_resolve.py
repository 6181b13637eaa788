"""RUN/KEY wherever an architecture is named."""

import json
import random
from pathlib import Path

import pytest

from nas.core.resolve import resolve
from search_spaces import load_space
from tests.nas.conftest import here  # noqa: F401 - a fixture
from tests.nas.runs import nas, refused


@pytest.fixture
def archs(here):  # noqa: F811
    """The run `first`: one subnet, and a front with another architecture."""
    space = load_space("lm-tiny")
    subnet, other = (space.sample(random.Random(seed)) for seed in (1, 2))
    folder = Path("runs/first/subnets", subnet.key[:12])
    folder.mkdir(parents=True)
    Path("runs/first/config.yaml").touch()
    (folder / "architecture.json").write_text(subnet.to_json(), "utf-8")
    Path("runs/first/pareto.json").write_text(json.dumps({"architectures": [
        {"key": arch.key, "metrics": {}, "costs": {}, "architecture": arch.to_dict()} for arch in (subnet, other)]}))
    return subnet, other


def test_a_subnet_and_an_architecture_on_the_front_are_found_by_the_beginning_of_their_keys(archs):
    for arch in archs:
        for name in (f"first/{arch.key[:5]}", f"runs/first/{arch.key[:12]}", f"first/{arch.key}"[:18]):
            assert resolve(name).arch == arch


def test_show_and_count_take_them(archs, capsys):
    name = f"first/{archs[1].key[:6]}"
    assert archs[1].key[:12] in nas(capsys, "show", name)[1]
    assert json.loads(nas(capsys, "count", name, "--json")[1])["key"] == archs[1].key


def test_what_is_not_there_says_where_keys_are_listed(archs, capsys):
    assert "key that starts with 'zz'; nas pareto first lists keys" in refused(capsys, "show", "first/zz")
    assert "is a run; give RUN/KEY: nas pareto first lists keys" in refused(capsys, "count", "first")
    assert "is a run; give RUN/KEY" in refused(capsys, "show", "first/")
    assert "is not a space, architecture or file" in refused(capsys, "show", "second/7b9f")


def test_a_long_name_stays_whole_in_a_narrow_terminal(archs, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    Path("runs/first").rename("runs/afternoon-language-model-of-tiny-stories")
    name = f"afternoon-language-model-of-tiny-stories/{archs[0].key[:6]}"
    assert name in nas(capsys, "count", name)[1].split()


def test_latency_takes_them(archs, capsys):
    assert nas(capsys, "profile", "raspberry-pi-5-estimated", "--space", "lm-tiny")[0] == 0
    by_key = nas(capsys, "latency", "raspberry-pi-5-estimated", f"first/{archs[0].key[:6]}", "--json")
    Path("arch.json").write_text(archs[0].to_json(), "utf-8")
    by_file = nas(capsys, "latency", "raspberry-pi-5-estimated", "arch.json", "--json")
    assert by_key[0] == by_file[0] == 0 and json.loads(by_key[1])["ms"] == json.loads(by_file[1])["ms"]
