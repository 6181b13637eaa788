"""A device without a connection: one file is carried there, and one file back."""

from __future__ import annotations

import os
import zipfile
from pathlib import Path

from pydantic import Field

from hardware_profiles import transports
from hardware_profiles.transports._base import Base, Job, Sink, Stop, TransportSettings, Waiting, safe_name
from hardware_profiles.transports._rounds import check_rounds, parse_lines
from search_spaces.errors import InputError
from search_spaces.files.reading import complete_lines, read_bytes, text_of

README = """\
Timing of {n} models for {device}

Needed: Python 3.9 or newer with NumPy and the package of the runtime ({runtime}), such as onnxruntime:

    python3 -m pip install numpy onnxruntime

Then, in this folder, with nothing else running on the device:

    python3 measure.py .

It takes about {minutes} minutes and writes {results} after every round. You can interrupt it; run it again to
resume after the last finished round. Copy {results} back when it has finished.
"""


class BundleSettings(TransportSettings):
    """Locations of the two files."""

    file: str | None = Field(None, min_length=1, description="the zip file to carry to the device; default: the "
                                                             "device's name with .zip")
    results: str | None = Field(None, min_length=1, description="folder of the returned results; default: the folder "
                                                                "of the file")


def missing(settings: BundleSettings) -> str | None:
    """Nothing is needed."""
    return None


class BundleTransport(Base):
    """Writes the file to carry, and reads the results file; each job has its own."""

    MEMORY = False
    settings: BundleSettings

    @property
    def file(self) -> Path:
        """The file to carry to the device."""
        return Path(self.settings.file or f"{safe_name(self.device_name)}.zip")

    def results(self, job: Job) -> Path:
        """The path of the results file."""
        folder = Path(self.settings.results) if self.settings.results else self.file.parent
        return folder / f"{safe_name(self.device_name)}-{job.key[:8]}.results.jsonl"

    def check(self, runtime: str | None = None) -> None:
        """The device cannot be checked from here; only the folder of the file is."""
        if not self.file.parent.is_dir():
            raise InputError(str(self.file.parent), "no such folder; set transport.file")

    def run(self, job: Job, sink: Sink, stop: Stop = lambda: False) -> None:
        """See `Base.run`. Raises Waiting where the results are not there yet."""
        results = self.results(job)
        if job.memory_of:
            raise transports.refuse_memory(self.device_name, "bundle")
        if not results.exists():
            if job.done:
                return
            self._write(job)
            folder = safe_name(self.device_name)
            raise Waiting(self.device_name,
                          f"carry {self.file} to the device, unpack it (`python3 -m zipfile -e {self.file.name} .`), "
                          f"run `python3 measure.py .` in its folder {folder}, copy its {results.name} to "
                          f"{results}, and run the same command again")
        for line in self._lines(job):
            if stop():
                return
            sink(line)

    def _lines(self, job: Job) -> list[dict[str, object]]:
        """The lines of the results file, without rounds that are already known."""
        path = self.results(job)
        where = str(path)
        remedy = "copy it from the device again"
        text = text_of(complete_lines(read_bytes(path, remedy)), where, remedy)
        lines = list(parse_lines(text.splitlines(), where))
        jobs = {str(line.get("job")) for line in lines if "versions" in line}
        if jobs != {job.key}:
            keys = ", ".join(key[:12] for key in sorted(jobs)) or "none"
            raise InputError(where, f"contains the results of another job ({keys}; this one is {job.key[:12]}); move "
                                    "it "
                                    "away")
        known = {model.name for model in job.models}
        for line in lines:
            strange = sorted({name for name, _ in line.get("seconds", ())} - known)
            if strange:
                raise InputError(where, f"round {line['round']} has a time of {strange[0]!r}, which is not part of "
                                        "this job")
        if not any("seconds" in line for line in lines):
            raise InputError(where, "contains no finished round; run `python3 measure.py .` on the device until it "
                                    "ends")
        check_rounds(lines, job.reference, where)
        return [line for line in lines if "seconds" not in line or line["round"] >= len(job.before)]

    def _write(self, job: Job) -> None:
        """Write the file to carry, atomically."""
        if self.file.exists() and not _is_bundle(self.file):
            raise InputError(str(self.file), "exists and is not a bundle; move it away, or set transport.file")
        results = self.results(job).name
        job.write(results)
        folder, part = safe_name(self.device_name), self.file.with_name(f".{self.file.name}.part")
        readme = README.format(n=len(job.models), device=self.device_name, runtime=job.runtime, results=results,
                               minutes=max(round(job.protocol.budget_s / 60), 1))
        try:
            with zipfile.ZipFile(part, "w", zipfile.ZIP_DEFLATED, strict_timestamps=False) as bundle:
                bundle.writestr(f"{folder}/README.txt", readme)
                for name in job.files():
                    bundle.write(job.folder / name, f"{folder}/{name}")
            os.replace(part, self.file)
        except OSError as error:
            raise InputError(str(self.file), f"cannot be written ({error.strerror}); set transport.file") from None
        finally:
            part.unlink(missing_ok=True)


def _is_bundle(path: Path) -> bool:
    try:
        with zipfile.ZipFile(path) as bundle:
            return any(name.endswith("/job.json") for name in bundle.namelist())
    except (OSError, zipfile.BadZipFile):
        return False


HELP, TOOL = "a device without a connection: you copy files to it and back", None
SETTINGS, TRANSPORT = BundleSettings, BundleTransport
