"""Several subnets retrained at once on a real Ray cluster of this machine."""

import os
import random
from pathlib import Path

import pytest

from nas.core.cluster import cluster
from nas.core.evaluation import prepare
from nas.core.run_dir import RunDir
from tests.nas.runs import nas, refused
from tests.nas.subnets import write_extracted

pytestmark = pytest.mark.usefixtures("here")


@pytest.fixture(scope="module", autouse=True)
def connected():
    os.environ["RAY_worker_niceness"] = "0"  # noqa: SIM112 - Ray's spelling; else a busy machine starves the workers
    with cluster("local", workers=2):
        yield


def test_two_at_once_become_what_they_become_one_by_one(capsys, finished):
    finished()
    space = prepare(RunDir.open("a")).space
    subnets = [write_extracted("a", arch) for arch in (space.smallest(), space.sample(random.Random(1)))]
    command = ["--set=steps=3", "--set=dropout=0.1"]
    code, out, err = nas(capsys, "retrain", "a", "--top", "2", "--ray", "local", "--concurrency", "2", *command)
    assert (code, err) == (0, "") and "retraining 2 subnets" in out
    for place, subnet in enumerate(subnets):
        alone = f"alone-{place}"
        assert nas(capsys, "retrain", str(subnet.path), "--out", alone, *command)[0] == 0
        one, two = (Path(folder, "model.safetensors").read_bytes() for folder in (f"{subnet.path}-retrained", alone))
        assert one == two
    code, _, _ = nas(capsys, "retrain", "a", "--top", "2", "--ray", "local", *command)
    assert code == 0  # nothing is left to do


def test_more_than_there_is_room_for_is_refused(capsys, finished):
    finished()
    write_extracted("a")
    err = refused(capsys, "retrain", "a", "--top", "2", "--ray", "local", "--concurrency", "500", "--set=steps=1")
    assert "--concurrency: 500 workers need one CPU each" in err
