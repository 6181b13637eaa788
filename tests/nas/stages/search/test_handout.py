"""Portions: how large, given again when lost, and each architecture told once."""

from types import SimpleNamespace

from nas.stages.search.evaluator import Evaluation
from nas.stages.search.handout import MOST, TRIES, Handout

GOOD = Evaluation({"loss": 1.0})


class Search:
    """Proposes numbers, of which some are known already."""

    def __init__(self, trials, known=lambda number: False):
        self.n_trials, self.done, self.known = trials, 0, known
        self.proposed, self.told = 0, {}

    def propose(self):
        number = self.proposed
        self.proposed += 1
        if self.known(number):
            self.told[number] = "known"
            return None
        return SimpleNamespace(trial=SimpleNamespace(number=number), arch=f"arch {number}", rival=None)

    def accept(self, proposal, found):
        assert proposal.trial.number not in self.told
        self.told[proposal.trial.number] = found.reason


def work(handout, name, workers=2, seconds=0.0):
    portion = handout.give(name, workers)
    handout.take(name, [GOOD] * len(portion), seconds * len(portion))
    return len(portion)


def test_portions_are_some_seconds_of_work_and_leave_something_for_the_others():
    handout = Handout(Search(1000))
    assert work(handout, "a", seconds=0.5) == 1
    assert work(handout, "b", seconds=0.5) == 10
    assert work(handout, "c", workers=100, seconds=0.5) == 9
    assert work(handout, "d", seconds=60.0) == 10
    assert work(handout, "e", seconds=60.0) == 1
    for i in range(20):
        last = work(handout, f"fast {i}", seconds=1e-6)
    assert last == MOST


def test_every_trial_is_told_once_and_no_more_are_proposed_than_asked_for():
    search = Search(50, known=lambda number: number % 3 == 0)
    handout, count = Handout(search), 0
    while not handout.finished:
        count += work(handout, f"{count}")
    assert sorted(search.told) == list(range(50)) and search.proposed == 50
    handout.take("0", [GOOD], 1.0)
    assert not handout.give("more", 2)


def test_what_kills_workers_is_given_out_alone_and_then_given_up():
    search = Search(12)
    handout = Handout(search)
    work(handout, "first")
    lost = [proposal.trial.number for proposal in handout.give("lost", 2)]
    assert len(lost) == 5
    handout.lose("lost", "killed")
    for i in range(1, TRIES):
        for number in lost:
            portion = handout.give(f"{number} {i}", 2)
            assert [proposal.trial.number for proposal in portion] == [number]
            if number == lost[0]:
                handout.lose(f"{number} {i}", "killed")
            else:
                handout.take(f"{number} {i}", [GOOD], 0.1)
        lost = lost[:1]
    assert search.told[lost[0]] == "its worker died 3 times: killed"
    assert sum(bool(reason) for reason in search.told.values()) == 1
    while not handout.finished:
        work(handout, "rest")
    assert sorted(search.told) == list(range(12))


def test_nothing_is_given_up_before_any_worker_came_back():
    search = Search(3)
    handout = Handout(search)
    for i in range(TRIES + 2):
        assert handout.give(f"{i}", 2)
        handout.lose(f"{i}", "broken")
    assert not search.told and handout.lost_in_a_row == TRIES + 2


def test_what_is_out_when_all_ends_is_given_out_again():
    search = Search(2)
    handout = Handout(search)
    handout.give("a", 1)
    handout.recall()
    handout.take("a", [GOOD], 1.0)
    assert not search.told and handout.n_out == 0
    assert work(handout, "b") + work(handout, "c") == 2 and handout.finished


def test_a_stop_ends_proposals_that_need_no_evaluation():
    search, asked = Search(10**6, known=lambda number: True), []
    handout = Handout(search, stop=lambda: asked.append(1) or len(asked) > 5)
    assert not handout.give("a", 1) and search.proposed == 5
