"""What calls on a cluster ask of it; a stand-in for Ray makes them here."""

import pytest

from nas.core import cluster


class Standin:
    """Makes every call at once, and notes what was sent and asked for."""

    def __init__(self, gpus):
        self.gpus, self.sent, self.asked = gpus, [], None

    def cluster_resources(self):
        return {"CPU": 4, "GPU": self.gpus}

    def put(self, value):
        self.sent.append(value)
        return value

    def remote(self, **asked):
        self.asked = asked
        return lambda function: Remote(function)

    def wait(self, running, timeout):
        return running[:1], running[1:]

    def get(self, reference):
        return reference


class Remote:
    def __init__(self, function):
        self.remote = function

    def options(self, **_):
        return self


@pytest.mark.parametrize(("gpus", "on_gpu", "wanted"), [(0, True, 0), (2, True, 1), (2, False, 0)])
def test_a_gpu_is_taken_only_where_one_is_used_and_data_are_sent_once(monkeypatch, gpus, on_gpu, wanted):
    ray = Standin(gpus)
    monkeypatch.setattr(cluster, "ray", ray)
    calls = [(2, i) for i in range(5)]
    assert list(cluster.in_parallel(pow, calls, 10, 2, on_gpu, lambda: False)) == [1, 2, 4, 8, 6]
    assert (ray.asked["num_gpus"], ray.sent) == (wanted, [10])


def test_nothing_is_called_after_a_stop(monkeypatch):
    monkeypatch.setattr(cluster, "ray", Standin(0))
    assert list(cluster.in_parallel(pow, [(2, 2)], 10, 2, False, lambda: True)) == []
