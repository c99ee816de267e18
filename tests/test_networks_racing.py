"""The fast pixel student is the plain one: same policy, same value, same gradients, for any view."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from numpy.testing import assert_allclose

from tutelage.domains.racing import RacingDesign, RacingEnv, View
from tutelage.learning.network import Network
from tutelage.networks.racing_student import RacingStudent, plain_racing_student, racing_student
from tutelage.networks.racing_teacher import RacingTeacher, racing_teacher
from tutelage.types import Box

BOX = Box((-1.0, 0.0, 0.0), (1.0, 1.0, 1.0))
FEW = (2, 3, 4, 5, 6, 7)


class Case(NamedTuple):
    params: dict
    obs: jax.Array
    first: jax.Array


def make(module: RacingStudent, shape: tuple[int, int, int], length: int = 1, batch: int = 3) -> Case:
    random = np.random.default_rng(0)
    obs = jnp.asarray(random.integers(0, 256, (length, batch, *shape)), jnp.uint8)
    params = jax.jit(plain_racing_student(module).init)(jax.random.key(1), obs)
    # biases that are all alike would hide a mix-up
    params = jax.tree.map(lambda x: x + 0.1 * jnp.asarray(random.normal(size=x.shape), x.dtype), params)
    return Case(params, obs, jnp.zeros((length, batch), bool))


def loss(network: Network, case: Case, params: dict) -> jax.Array:
    head = network.apply(network.pack(params), (), case.obs, case.first)[1]
    action = jnp.full(head.policy.alpha.shape, 0.3)
    return head.policy.log_prob(action).sum() + jnp.square(head.value - 1).sum()


@pytest.mark.parametrize(
    ("module", "shape"),
    [
        (RacingStudent(BOX, channels=FEW), (96, 96, 3)),
        (RacingStudent(BOX, (5, 3, 2), (3, 2, 2), (4, 5, 6)), (40, 33, 2)),
        *(
            pytest.param(module, shape, marks=pytest.mark.slow)
            for module, shape in (
                (RacingStudent(BOX, channels=FEW), (84, 84, 3)),
                (RacingStudent(BOX, (4, 3, 3, 3, 3, 3), channels=FEW, centered=True), (96, 96, 12)),
                (RacingStudent(BOX, (4, 3, 3, 3, 3, 3), channels=FEW), (97, 100, 2)),
                (
                    RacingStudent(BOX, kernels=(2, 2, 3), strides=(2, 2, 1), channels=(4, 5, 6), lean=(0.0, 1.0, -2.0)),
                    (21, 26, 1),
                ),
            )
        ),
    ],
)
def test_fast_is_plain(module, shape):
    case = make(module, shape)
    fast, plain = racing_student(module), plain_racing_student(module)
    heads = [jax.jit(net.apply)(case.params, (), case.obs, case.first)[1] for net in (plain, fast)]
    jax.tree.map(lambda a, b: assert_allclose(b, a, rtol=2e-4, atol=2e-5), *heads)
    grads = [jax.jit(jax.grad(lambda p, net=net: loss(net, case, p)))(case.params) for net in (plain, fast)]
    jax.tree.map(lambda a, b: assert_allclose(b, a, atol=1e-4 * float(jnp.abs(a).max())), *grads)


def test_the_paper_and_the_released_code_end_in_256_features():
    released = RacingStudent(BOX, kernels=(4, 3, 3, 3, 3, 3), head=(100,))
    for module, shape in ((RacingStudent(BOX, head=(100,)), (84, 84, 3)), (released, (96, 96, 12))):
        obs = jax.ShapeDtypeStruct((1, 1, *shape), jnp.uint8)
        params = jax.eval_shape(racing_student(module).init, jax.random.key(0), obs)
        assert params["actor"]["layer0"]["kernel"].shape == (256, 100)
        assert params["critic"]["out"]["kernel"].shape == (100, 1)


@pytest.mark.slow
@pytest.mark.parametrize(("centered", "expected"), [(False, (0, 128 / 255, 1)), (True, (-1, 0, 127 / 128))])
def test_pixels_become_small_numbers(centered, expected):
    """A convolution that passes pixels on, and a value that is their sum."""
    module = RacingStudent(BOX, (1,), (1,), (1,), head=(1,), centered=centered)
    for pixel, value in zip((0, 128, 255), expected, strict=True):
        obs = jnp.full((1, 1, 1, 1, 1), pixel, jnp.uint8)
        for network in (racing_student(module), plain_racing_student(module)):
            params = jax.tree.map(jnp.ones_like, network.init(jax.random.key(0), obs))
            params = jax.tree_util.tree_map_with_path(
                lambda path, x: 0 * x if "bias" in str(path[-1]) and "convs" not in str(path[0]) else x, params
            )
            seen = network.apply(params, (), obs, jnp.zeros((1, 1), bool))[1].value[0, 0]
            assert_allclose(seen, 1 + value, rtol=1e-5, atol=1e-6)  # the convolution's bias is one


@pytest.mark.slow
def test_what_was_seen_before_does_not_matter():
    module = RacingStudent(BOX, channels=FEW)
    case = make(module, (80, 80, 3), length=2, batch=2)
    network = racing_student(module)
    assert not network.recurrent
    whole = network.apply(case.params, (), case.obs, case.first)[1].value
    second = network.apply(case.params, (), case.obs[1:], case.first[1:])[1].value
    assert_allclose(whole[1:], second, rtol=1e-5)


@pytest.mark.slow
def test_a_lean_moves_the_first_policys_mean():
    module = RacingStudent(BOX, channels=FEW, scale=0.01, lean=(0.0, 1.0, -3.0))
    obs = jnp.zeros((1, 1, 80, 80, 3), jnp.uint8)
    network = racing_student(module)
    policy = network.apply(network.init(jax.random.key(0), obs), (), obs, jnp.zeros((1, 1), bool))[1].policy
    steer, gas, brake = np.asarray(policy.mode())[0, 0]
    assert abs(steer) < 0.02
    assert gas > 0.55
    assert brake < 0.25


def test_the_student_takes_what_the_environment_shows():
    env = RacingEnv(view=View(gray=True, stack=2))
    network = racing_student(RacingStudent(env.actions))
    obs = jax.ShapeDtypeStruct((1, 1, *env.view.shape), jnp.uint8)
    jax.eval_shape(network.init, jax.random.key(0), obs)


def test_the_papers_pixels_give_1024_features_and_its_heads_two_layers():
    obs = jax.ShapeDtypeStruct((1, 1, 96, 96, 3), jnp.uint8)
    params = jax.eval_shape(racing_student(RacingStudent(BOX)).init, jax.random.key(0), obs)
    sizes = [params["actor"][name]["kernel"].shape for name in ("layer0", "layer1", "out")]
    assert sizes == [(1024, 256), (256, 256), (256, 6)]


@pytest.mark.parametrize("continuous", [False, True])
def test_the_generator_never_chooses_a_cell_twice(continuous):
    """One that places points anywhere may, but never two in one place."""
    design = RacingDesign(continuous=continuous)
    editor = design.editor
    network = racing_teacher(RacingTeacher(editor.actions))

    @jax.jit
    def build(key):
        state, obs = editor.reset(key, ())
        params = network.init(key, jax.tree.map(lambda x: x[None, None], obs))

        def place(now, step):
            state, obs = now
            seen = jax.tree.map(lambda x: x[None, None], obs)
            head = network.apply(params, (), seen, jnp.zeros((1, 1), bool))[1]
            policy = jax.tree.map(lambda x: x[0, 0], head.policy)
            state, after = editor.step(jax.random.fold_in(key, step), (), state, policy.sample(key))
            return (state, after.obs), None

        (state, obs), _ = jax.lax.scan(place, (state, obs), jnp.arange(editor.horizon))
        level = design.build(key, state)
        return level.points, design.valid(level), obs

    # one key for all draws: only the mask can keep it from choosing the same cell again
    points, valid, obs = build(jax.random.key(0))
    assert valid
    assert len(set(map(tuple, np.asarray(points).tolist()))) == editor.horizon
    assert obs.sketch.sum() == (1 if continuous else editor.horizon)
    assert obs.mask.sum() == (100 if continuous else 88)
