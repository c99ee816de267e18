"""The fast teacher is the plain flax module: same parameters, outputs and gradients, whatever happens to the grids."""

from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from probes import SOON

from tutelage.domains.maze.design import MazeEditor
from tutelage.learning import mesh, ppo
from tutelage.learning.network import Network
from tutelage.learning.rollout import collect_rollout
from tutelage.networks import projection
from tutelage.networks.maze_teacher import SEQUENCE, MazeTeacher, maze_teacher, plain_maze_teacher
from tutelage.types import InputError

EDITOR = MazeEditor(size=5, blocks=6)  # nine cells: walls fall onto walls, goal and agent onto either
TINY = MazeTeacher(actions=9, steps=EDITOR.horizon, filters=6, embedding=3, hidden=8, head=(12, 16))
SMALL = MazeTeacher(actions=25, steps=14, filters=8, hidden=12, head=(16,))


class Masked(NamedTuple):
    """An editor's observation in which some actions are forbidden."""

    grid: jax.Array
    time: jax.Array
    noise: jax.Array
    mask: jax.Array


def example(editor: MazeEditor) -> Any:
    obs = editor.reset(jax.random.key(0))[1]
    return jax.tree.map(lambda x: x[None, None], obs)


def weights(module: MazeTeacher, obs: Any, seed: int = 0) -> Any:
    """Random parameters, no bias zero."""
    random = np.random.default_rng(seed)
    shapes = jax.eval_shape(plain_maze_teacher(module).init, jax.random.key(0), obs)

    def draw(like: jax.ShapeDtypeStruct) -> jax.Array:
        inputs = like.shape[0] if len(like.shape) > 1 else 16
        return jnp.asarray(random.normal(0, inputs**-0.5, like.shape), like.dtype)

    return jax.tree.map(draw, shapes)


def edited(editor: MazeEditor, module: MazeTeacher, batch: int, length: int | None = None) -> tuple[Any, Any]:
    """Parameters, and a rollout of the fast network that has them."""
    network, params = maze_teacher(module), weights(module, example(editor))
    keys = jax.random.split(jax.random.key(1), batch)

    def record(params: Any) -> Any:
        return collect_rollout(editor, network, network.pack(params), keys, (), length or editor.horizon)[0]

    return params, jax.jit(record, compiler_options=SOON)(params)


def differentiate(network: Network, params: Any, carry: Any, obs: Any, first: jax.Array) -> tuple[Any, Any]:
    """What comes out, and the parameters' gradients of a loss that reads all of it."""

    def loss(params: Any) -> tuple[jax.Array, Any]:
        _, head = network.apply(network.pack(params), carry, obs, first)
        out = head.value, jnp.where(jnp.isfinite(head.policy.logits), head.policy.logits, 0)
        # weights of either sign and no symmetry, so that no error can cancel
        leaves = [x * jnp.cos(jnp.arange(x.size, dtype=jnp.float32)).reshape(x.shape) for x in out]
        return sum(x.sum() for x in leaves), head

    grads, head = jax.grad(loss, has_aux=True)(params)
    return head, grads


def worst_error(ours: Any, theirs: Any) -> float:
    """The largest relative error of a leaf, each taken as one vector; infinite numbers have to be the same."""

    def error(ours: jax.Array, theirs: jax.Array) -> float:
        finite = np.isfinite(theirs)
        np.testing.assert_array_equal(np.asarray(ours)[~finite], np.asarray(theirs)[~finite])
        a, b = np.asarray(ours)[finite], np.asarray(theirs)[finite]
        return float(np.linalg.norm(a - b) / np.linalg.norm(b))

    return max(jax.tree.leaves(jax.tree.map(error, ours, theirs)))


def compare(module: MazeTeacher, params: Any, obs: Any, first: jax.Array, **options: Any) -> None:
    """Assert that outputs and gradients equal the plain ones, from a cleared carry on."""
    results = []
    for network in (maze_teacher(module), plain_maze_teacher(module)):
        carry = network.initial_carry(first.shape[1])
        results.append(jax.jit(partial(differentiate, network), **options)(params, carry, obs, first))
    (ours, our_grads), (theirs, their_grads) = results
    assert worst_error(ours, theirs) < 1e-5
    assert worst_error(our_grads, their_grads) < 1e-5


@pytest.mark.slow
@pytest.mark.parametrize(
    ("editor", "module", "batch"),
    [(EDITOR, TINY, 1), (EDITOR, TINY, 5), (MazeEditor(7, 12), SMALL, 40)],
    ids=["one env", "few", "several blocks of changes at a position"],
)
def test_fast_equals_plain_on_editing_episodes(editor, module, batch):
    params, rollout = edited(editor, module, batch)
    repeated = (rollout.obs.grid[1:] == rollout.obs.grid[:-1]).all((-3, -2, -1))
    assert repeated.any(), "no wall fell onto a wall: choose another seed"
    compare(module, params, rollout.obs, rollout.first, compiler_options=SOON)


@pytest.mark.slow
def test_fast_equals_plain_where_episodes_follow_one_another():
    params, rollout = edited(EDITOR, TINY, 3, length=2 * EDITOR.horizon + 3)
    assert rollout.first.sum() == 9
    compare(TINY, params, rollout.obs, rollout.first, compiler_options=SOON)


def test_fast_equals_plain_on_grids_that_have_nothing_in_common():
    random = np.random.default_rng(0)
    obs = example(EDITOR)._replace(
        grid=jnp.asarray(random.integers(0, 11, (7, 3, 5, 5, 3)), jnp.uint8),
        time=jnp.asarray(random.integers(0, EDITOR.horizon + 1, (7, 3)), jnp.int32),
        noise=jnp.asarray(random.random((7, 3, 50)), jnp.float32),
    )
    first = jnp.asarray(random.random((7, 3)) < 0.3)
    compare(TINY, weights(TINY, obs), obs, first, compiler_options=SOON)


@pytest.mark.slow
@pytest.mark.parametrize("hidden", [None, 8])
def test_a_mask_forbids_actions(hidden):
    module = TINY.copy(hidden=hidden)
    _, rollout = edited(EDITOR, TINY, 3)
    mask = jax.random.bernoulli(jax.random.key(3), 0.5, (*rollout.first.shape, 9)).at[..., 0].set(True)
    obs = Masked(*rollout.obs, mask)
    compare(module, weights(module, obs), obs, rollout.first, compiler_options=SOON)
    network = maze_teacher(module)
    _, head = network.apply(network.pack(weights(module, obs)), network.initial_carry(3), obs, rollout.first)
    assert ((head.policy.logits == -jnp.inf) == ~mask).all()


@pytest.mark.slow
@pytest.mark.parametrize("order", ["sequences", "row", "shuffled row"])
def test_fast_equals_plain_without_recurrence(order):
    """As rollouts have them, as PPO lines them up, and as its minibatches shuffle them."""
    module = TINY.copy(hidden=None)
    _, rollout = edited(EDITOR, TINY, SEQUENCE // EDITOR.horizon)
    obs, first = rollout.obs, rollout.first
    if order != "sequences":
        obs, first = jax.tree.map(lambda x: jnp.swapaxes(x, 0, 1).reshape(1, -1, *x.shape[2:]), (obs, first))
    if order == "shuffled row":
        shuffle = jax.random.permutation(jax.random.key(0), first.size)
        obs, first = jax.tree.map(lambda x: x[:, shuffle], (obs, first))
    compare(module, weights(module, obs), obs, first, compiler_options=SOON)


@pytest.mark.slow
def test_heads_may_have_more_than_ten_layers():
    """Whose names are not in the order of the alphabet."""
    module = TINY.copy(hidden=None, head=(4,) * 11)
    _, rollout = edited(EDITOR, TINY, 2)
    params = weights(module, rollout.obs)
    heads = [
        jax.jit(network.apply, compiler_options=SOON)(network.pack(params), (), rollout.obs, rollout.first)[1]
        for network in (maze_teacher(module), plain_maze_teacher(module))
    ]
    assert worst_error(*heads) < 1e-5


def test_acting_step_by_step_equals_learning_from_the_sequence():
    params, rollout = edited(EDITOR, TINY, 3, length=EDITOR.horizon + 4)
    network = maze_teacher(TINY)
    head = jax.jit(network.apply)(network.pack(params), network.initial_carry(3), rollout.obs, rollout.first)[1]
    assert worst_error(rollout.value, head.value) < 1e-5
    assert worst_error(rollout.log_prob, head.policy.log_prob(rollout.action)) < 1e-5


@pytest.mark.slow
def test_a_sequence_may_be_cut_anywhere():
    params, rollout = edited(EDITOR, TINY, 3)
    network = maze_teacher(TINY)
    packed, apply = network.pack(params), jax.jit(network.apply, compiler_options=SOON)
    end, whole = apply(packed, network.initial_carry(3), rollout.obs, rollout.first)
    carry, parts = network.initial_carry(3), []
    for start, stop in [(0, 3), (3, 4), (4, 5), (5, 8)]:
        obs, first = jax.tree.map(lambda x, cut=slice(start, stop): x[cut], (rollout.obs, rollout.first))
        carry, part = apply(packed, carry, obs, first)
        parts.append(part)
    together = jax.tree.map(lambda *x: jnp.concatenate(x), *parts)
    assert worst_error((carry.lstm, carry.projection.total, together), (end.lstm, end.projection.total, whole)) < 1e-5


@pytest.mark.slow
@pytest.mark.parametrize("first", [False, True])
def test_gradients_of_one_step_in_mid_episode_equal_plain(first):
    params, rollout = edited(EDITOR, TINY, 3)
    ours, theirs = maze_teacher(TINY), plain_maze_teacher(TINY)
    before, here = (jax.tree.map(lambda x, cut=cut: x[cut], rollout.obs) for cut in (slice(0, 4), slice(4, 5)))
    carry, _ = jax.jit(ours.apply, compiler_options=SOON)(
        ours.pack(params), ours.initial_carry(3), before, rollout.first[:4]
    )
    begins = jnp.array([[first, False, False]])
    our_head, our_grads = jax.jit(partial(differentiate, ours), compiler_options=SOON)(params, carry, here, begins)
    their_head, their_grads = jax.jit(partial(differentiate, theirs), compiler_options=SOON)(
        params, carry.lstm, here, begins
    )
    assert worst_error(our_head, their_head) < 1e-5
    assert worst_error(our_grads, their_grads) < 1e-5


@pytest.mark.slow
def test_learning_on_two_devices_equals_plain_on_one():
    # with so large an ε Adam's step is proportional to the gradient: it neither hides nor blows up small errors
    config = ppo.PPO(epochs=2, learning_rate=1.0, adam_eps=1.0)
    params, rollout = edited(EDITOR, TINY, 4)
    rollout = rollout._replace(reward=jax.random.normal(jax.random.key(4), rollout.reward.shape))

    def learn(network: Network, params: Any, rollout: Any) -> Any:
        def own(x: jax.Array) -> jax.Array:
            return jnp.swapaxes(mesh.shard(jnp.swapaxes(x, 0, 1)), 0, 1)

        learner = ppo.init(config, network, jax.random.key(0), rollout.obs)._replace(params=params)
        last_value = mesh.shard(rollout.last_value)
        rollout = jax.tree.map(own, rollout._replace(last_value=rollout.value))._replace(last_value=last_value)
        learner, metrics = ppo.update(
            config, network, learner, rollout, ppo.estimate(config, learner, rollout), jax.random.key(5)
        )
        return jax.tree.map(jnp.subtract, learner.params, params), metrics["grad_norm"]

    results = []
    for network, devices in [(maze_teacher(TINY), 2), (plain_maze_teacher(TINY), 1)]:
        run = mesh.on_devices(partial(learn, network), mesh.make_mesh(4, devices))
        results.append(jax.jit(run, compiler_options=SOON)(params, rollout))
    (ours, our_norm), (theirs, their_norm) = results
    assert worst_error(our_norm, their_norm) < 1e-5
    assert worst_error(ours, theirs) < 1e-4


@pytest.mark.slow
def test_parameters_are_the_plain_ones():
    obs = example(EDITOR)
    ours, theirs = (make(TINY).init(jax.random.key(2), obs) for make in (maze_teacher, plain_maze_teacher))
    assert jax.tree.all(jax.tree.map(lambda a, b: (a == b).all(), ours, theirs))


def test_patches_are_what_a_convolution_reads():
    grid = jax.random.normal(jax.random.key(0), (2, 6, 5, 3))
    kernel = jax.random.normal(jax.random.key(1), (3, 3, 3, 4))
    convolved = jax.lax.conv_general_dilated(grid, kernel, (1, 1), "VALID", dimension_numbers=("NHWC", "HWIO", "NHWC"))
    ours = projection.patches(grid) @ kernel.reshape(-1, 4)
    assert jnp.allclose(ours, convolved.reshape(2, -1, 4), atol=1e-5)


def test_a_grid_that_does_not_fit_the_actions_is_refused():
    network = maze_teacher(TINY)
    obs = example(MazeEditor(7, 6))
    packed = network.pack(weights(TINY, obs))
    with pytest.raises(InputError, match="one inner cell for each of its 9 actions"):
        network.apply(packed, network.initial_carry(1), obs, jnp.ones((1, 1), bool))


@pytest.mark.parametrize("wrong", [{"hidden": 0}, {"hidden": -4}, {"head": (8, 0)}, {"filters": -1}])
def test_sizes_that_make_no_sense_are_refused_in_words(wrong):
    with pytest.raises(InputError, match="MazeTeacher needs layers with at least one unit"):
        maze_teacher(MazeTeacher(**wrong))


@pytest.mark.nightly
def test_fast_equals_plain_at_the_papers_size_as_training_compiles_it():
    module = MazeTeacher(hidden=256)
    params, rollout = edited(MazeEditor(15, 25), module, 2)
    compare(module, params, rollout.obs, rollout.first)
