"""Data-parallel training: several processes take the steps of one."""

import pytest
import torch
import torch.distributed as dist
import torch.multiprocessing as mp

from supernet.train.parallel import Workers
from supernet.train.step import Trainer
from tests.supernet.toys import Rows, supernet_trainer

SETTINGS = {"data": Rows(ragged=True), "dtype": torch.float64, "batch_size": 5, "accumulate": 2, "layerdrop": 0.3,
            "ema": 0.9}


def _worker(rank, folder):
    dist.init_process_group("gloo", init_method=f"file://{folder}/rendezvous", rank=rank, world_size=2)
    workers = Workers(rank, 2)
    alone = supernet_trainer(**SETTINGS)
    trainer = Trainer(alone.model, alone.strategy, alone.recipe, alone.data, workers)
    reports = [trainer.step() for _ in range(3)]
    found = {"tensors": trainer.tensors(), "losses": [report.losses for report in reports],
             "tokens": trainer.progress.tokens, "told": workers.broadcast(float(rank) + 0.5),
             "agree": (workers.agree(rank == 1), workers.agree(False))}
    torch.save(found, f"{folder}/{rank}.pt")
    dist.destroy_process_group()


@pytest.fixture(scope="module")
def together(tmp_path_factory):
    folder = tmp_path_factory.mktemp("workers")
    supernet_trainer(**SETTINGS).step()  # the workers inherit what a first step loads
    mp.start_processes(_worker, args=(str(folder),), nprocs=2, start_method="fork")
    return [torch.load(folder / f"{rank}.pt", weights_only=True) for rank in range(2)]


def test_two_workers_take_the_steps_of_one(together):
    alone = supernet_trainer(**SETTINGS)
    reports = [alone.step() for _ in range(3)]
    for rank, found in enumerate(together):
        assert found["tokens"] == alone.progress.tokens
        for report, losses in zip(reports, found["losses"]):
            assert losses == pytest.approx(report.losses, rel=1e-10), rank
        for name, tensor in alone.tensors().items():
            assert torch.allclose(tensor, found["tensors"][name], rtol=1e-7, atol=1e-8), name


def test_workers_stay_alike_bit_by_bit(together):
    one, other = (found["tensors"] for found in together)
    assert all(torch.equal(one[name], other[name]) for name in one)


def test_one_asks_for_all_and_the_first_tells_all(together):
    assert [found["agree"] for found in together] == [(True, False)] * 2
    assert [found["told"] for found in together] == [0.5, 0.5]


def test_one_alone_needs_no_group():
    workers, losses = Workers(), torch.ones(2)
    assert workers.reduce(torch.nn.Linear(1, 1).parameters(), losses) is losses
    assert (workers.agree(True), workers.agree(False), workers.broadcast(1.5)) == (True, False, 1.5)
