"""TensorBoard event files, written by the thread that trains."""

from __future__ import annotations

import socket
import time
from collections.abc import Mapping
from pathlib import Path


class EventFile:
    """One file of scalars in a folder that TensorBoard shows.

    tensorboardX's `SummaryWriter` hands events to a thread that writes them up to two minutes later, is kept by the
    interpreter until it exits, and blocks the training if the disk is full. Scalars are few, so this class writes
    them at once: when `flush` returns, everything is on disk, and nothing is written after `close`.

    Args:
        start: the step that a training resumes from; TensorBoard then hides later steps of earlier files.
    """

    def __init__(self, folder: Path, start: int) -> None:
        from tensorboardX import RecordWriter
        from tensorboardX.proto.event_pb2 import Event, SessionLog

        folder.mkdir(parents=True, exist_ok=True)
        # A file of the same second and the same start holds only steps that are repeated.
        name = f"events.out.tfevents.{int(time.time()):010}.{socket.gethostname()}.{start}"
        self._writer, self._event = RecordWriter(str(folder / name)), Event
        self._write(file_version="brain.Event:2")
        self._write(step=start + 1, session_log=SessionLog(status=SessionLog.START))

    def add(self, step: int, scalars: Mapping[str, float]) -> None:
        """Write the scalars of a step."""
        from tensorboardX.proto.summary_pb2 import Summary

        values = [Summary.Value(tag=name, simple_value=value) for name, value in scalars.items()]
        self._write(step=step, summary=Summary(value=values))

    def flush(self) -> None:
        """Wait until everything is on disk."""
        self._writer.flush()

    def close(self) -> None:
        """Write what is left and close the file."""
        self._writer.close()

    def _write(self, **fields: object) -> None:
        self._writer.write(self._event(wall_time=time.time(), **fields).SerializeToString())
