"""Devices as YAML: those shipped load, wrong ones say what is wrong."""

from __future__ import annotations

from pathlib import Path

import pytest

from hardware_profiles import load_profile, runtimes, shipped_devices
from hardware_profiles.device import PRECISIONS, parse_device
from search_spaces import InputError

GOOD = "schema_version: 1\nname: mine\nkind: cpu\nruntime: torch-eager\n"


@pytest.mark.parametrize("name", shipped_devices())
def test_shipped_devices_load_under_their_name(name: str) -> None:
    device = load_profile(name)
    assert device.name == name and device.description


def test_what_users_were_promised_is_shipped() -> None:
    assert set(shipped_devices()) >= {"cpu", "cpu-compile", "cpu-onnxruntime", "cpu-onnxruntime-int8", "cpu-xnnpack",
                                      "cuda", "raspberry-pi-4", "jetson-orin", "android"}


def test_a_file_anywhere_loads(tmp_path: Path) -> None:
    path = tmp_path / "my device; $(touch x).yaml"
    path.write_text(GOOD)
    assert load_profile(path).name == "mine"


@pytest.mark.parametrize(("text", "says"), [
    (GOOD.replace("cpu", "toaster"), "kind"),
    (GOOD.replace("torch-eager", "tensorflow"), "'tensorflow' is not allowed; allowed: "),
    (GOOD + "threads: 0\n", "threads: 0 is not allowed: input should be greater than"),
    (GOOD + "threads: many\n", "threads: 'many' is not allowed: input should be a valid integer"),
    (GOOD + "precision: int8\n", "precision 'int8' is not supported by torch-eager; allowed: fp32, bf16"),
    (GOOD + "precision: fp64\n", "'fp64' is not allowed; allowed: fp32, bf16, fp16, int8"),
    (GOOD + "colour: red\n", "colour"),
    (GOOD + "options: {fast: true}\n", "options.fast is not an option of torch-eager"),
    (GOOD + "transport: {kind: pigeon}\n", "kind 'pigeon' is not allowed; allowed: adb, bundle, local, ssh"),
    (GOOD + "transport: {kind: ssh, host: pi}\n", "runs only in this process"),
    (GOOD + "phases: []\n", "must list prefill, decode or both"),
    (GOOD.replace("torch-eager", "roofline"), "a specification is allowed only with the runtime roofline"),
    (GOOD + "name: [", "not valid YAML"),
    ("- a\n", "must be a table"),
    ("schema_version: 2\n", "schema_version"),
])
def test_wrong_files_say_what_is_wrong(text: str, says: str) -> None:
    with pytest.raises(InputError) as error:
        parse_device(text, "here.yaml")
    assert says in str(error.value) and "here.yaml" in str(error.value)


def test_every_precision_of_a_runtime_has_a_size() -> None:
    known = {name: runtimes.get(name).PRECISIONS for name in runtimes.names()}
    assert {precision for each in known.values() for precision in each} <= set(PRECISIONS)


def test_an_unknown_device_names_those_known() -> None:
    with pytest.raises(InputError, match="'fridge' is unknown; allowed: .*cpu"):
        load_profile("fridge")
    with pytest.raises(InputError, match=r"'cpu-xnpack' is unknown; .*; did you mean cpu-xnnpack\?"):
        load_profile("cpu-xnpack")


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"none\.yaml: cannot be read"):
        load_profile(tmp_path / "none.yaml")
