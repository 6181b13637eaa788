"""TensorBoard event files are complete when a training ends, and nothing writes to them afterwards."""

import math
import struct
import threading
from pathlib import Path

import pytest
from tensorboardX.proto.event_pb2 import Event

from nas.core.event_file import EventFile
from nas.core.metrics import Files
from supernet.train.step import StepReport


def events(path: Path) -> list[Event]:
    """The events of a file: length, checksum, content, checksum."""
    data, found = path.read_bytes(), []
    while data:
        size = struct.unpack("<Q", data[:8])[0]
        found.append(Event.FromString(data[12:12 + size]))
        data = data[16 + size:]
    return found


def scalars(folder: Path) -> dict[tuple[int, str], float]:
    return {(event.step, value.tag): value.simple_value for path in sorted(folder.glob("events.out.tfevents.*"))
            for event in events(path) for value in event.summary.value}


def test_what_was_flushed_is_on_disk(tmp_path):
    file = EventFile(tmp_path, 0)
    for step in range(1, 51):
        file.add(step, {"a": step, "b": -step})
    file.flush()
    assert scalars(tmp_path) == {(abs(value), "a" if value > 0 else "b"): value for value in range(-50, 51) if value}
    file.close()


def test_a_resumed_training_hides_the_steps_it_repeats(tmp_path):
    EventFile(tmp_path, 7).close()
    version, start = events(next(tmp_path.iterdir()))
    assert version.file_version == "brain.Event:2"
    assert (start.step, start.session_log.status) == (8, start.session_log.START)


def test_resuming_within_a_second_keeps_the_earlier_events(tmp_path, monkeypatch):
    monkeypatch.setattr("nas.core.event_file.time.time", lambda: 1.7e9)
    for start in (0, 2):
        file = EventFile(tmp_path, start)
        file.add(start + 1, {"a": 1.0})
        file.close()
    assert set(scalars(tmp_path)) == {(1, "a"), (3, "a")}


@pytest.mark.parametrize("error", [None, KeyboardInterrupt, RuntimeError])
def test_a_training_leaves_no_writer_behind(tmp_path, error):
    before = threading.enumerate()

    def train() -> None:
        with Files(tmp_path, 0, log_every=1) as files:
            files.on_step(StepReport(0, (2.0, math.nan), ("largest", "smallest"), 1.0, 0.1, tokens=9, skipped=False))
            if error:
                raise error

    if error:
        pytest.raises(error, train)
    else:
        train()
    assert threading.enumerate() == before
    found = scalars(tmp_path / "tensorboard")
    assert found[1, "train/loss_largest"] == 2.0
    assert (1, "train/loss_smallest") not in found, "TensorBoard cannot draw NaN"
