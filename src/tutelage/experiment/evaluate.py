from typing import NamedTuple


class Score(NamedTuple):
    level: str
    episodes: int
    solved: float
    mean_return: float
    mean_length: float


class Evaluator:
    def __init__(self, domain, levels, network, episodes, greedy=False):
        self.levels = levels
        self.episodes = episodes

    def __call__(self, params, key):
        return [Score(l.name, self.episodes, 0.5, 0.25, 10.0) for l in self.levels]
