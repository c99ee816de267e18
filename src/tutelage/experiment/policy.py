from tutelage.experiment import checkpoints


class Policy:
    def __init__(self, network, params): ...


def save_policy(path, params, about):
    checkpoints.write(path, params, about)


def load_policy(path, like):
    return checkpoints.fit(checkpoints.read(path).arrays, like, path)
