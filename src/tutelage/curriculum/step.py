"""One iteration of a dual curriculum: Algorithms 1 (PLR⊥) and 3 (REPAIRED), and with them the whole family.

    explore:  levels ← generator; students play them; generator learns from their utility;
              students learn only if `train_on_new`; curator scores the levels and inserts them
    exploit:  levels ← each student's own buffer; students play and learn; curator rescores;
              if `edits`: the levels' edited children are played and offered to the curator

    levels[S, B] ─▶ scan T × (policy, env) ─▶ Rollout[S, T, B] ─▶ GAE ─┬▶ PPO ─▶ students
         ▲                                                             ├▶ score[S, B] ─▶ buffers
         └── generator.propose | curator.sample                        └▶ utility[B] ─▶ generator

Students, their buffers and their rollouts carry a leading axis S. What a method does not do is never traced. The step
runs once on every device of a mesh; each has B / devices levels of its own, all else is the same on all of them.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Bool, Float, Float32

from tutelage.curriculum import curator as curation
from tutelage.curriculum import utilities
from tutelage.curriculum.curator import Buffer, Entries
from tutelage.curriculum.methods import Method
from tutelage.curriculum.metrics import (
    buffer_metrics,
    distinct_share,
    level_metrics,
    per_student,
    prefixed,
    solved_threshold,
)
from tutelage.curriculum.parts import Parts
from tutelage.curriculum.scores import Evidence
from tutelage.learning import mesh, returns
from tutelage.learning import ppo as ppo_lib
from tutelage.learning.ppo import Estimate, Learner, Metrics
from tutelage.learning.returns import Episodes
from tutelage.learning.rollout import Rollout, collect_rollout
from tutelage.types import Key, Level


class State(NamedTuple):
    """What one iteration passes to the next. With the iteration's number, this is a checkpoint."""

    students: Learner  # leaves [S, ...]
    generator: Any
    buffers: Any  # a Buffer with leaves [S, ...]; the empty tuple without a curator


class _Experience(NamedTuple):
    """Students on levels; leaves [S, ...], and after that [T, B, ...] or [B, ...] with B this device's own levels."""

    rollout: Rollout
    estimate: Estimate
    episodes: Episodes
    scored: Episodes  # the same, with discounted returns if the method discounts; used for regret and R_max
    reward_scale: Float[Array, " S"]  # the value function predicts returns divided by this


def init(method: Method, parts: Parts, key: Key) -> State:
    """The state before the first iteration."""
    student_key, generator_key = jax.random.split(key)
    domain = parts.domain
    level = jax.eval_shape(domain.design.sample, key)
    obs = jax.eval_shape(lambda level: domain.env.reset(key, domain.env.load(level))[1], level)
    example = jax.tree.map(lambda x: jnp.zeros((1, 1, *x.shape), x.dtype), obs)
    keys = _student_keys(method, student_key)
    buffer = () if method.curator is None else curation.empty(method.curator, level)
    return State(
        # one after the other: batched, the orthogonal initializers' decompositions can starve a CPU of its threads
        students=_each(lambda key: ppo_lib.init(parts.ppo, parts.student, key, example))(keys),
        generator=method.generator.init(parts, generator_key),
        buffers=jax.tree.map(lambda x: jnp.stack([x] * method.students), buffer),
    )


def wants_replay(method: Method, key: Key) -> Bool[Array, ""]:
    """Whether an iteration replays if `can_replay`. One decision for the whole batch and all students."""
    assert method.curator is not None
    return jax.random.uniform(_keys(key).decision) < method.curator.replay_rate


def can_replay(method: Method, state: State) -> Bool[Array, ""]:
    """Whether all buffers are full enough. Buffers never shrink, so this stays true."""
    assert method.curator is not None
    return jax.vmap(partial(curation.ready, method.curator))(state.buffers).all()


def step(method: Method, parts: Parts, state: State, key: Key, replay: bool) -> tuple[State, Metrics]:
    """One iteration, inside `mesh.on_devices`.

    Args:
        method: the method.
        parts: what it is made of.
        state: the state after the iteration before.
        key: of this iteration; `wants_replay` takes the same one.
        replay: whether it replays: static, so that each of the two programs contains only its own work.

    Returns:
        The next state, and metrics.
    """
    if method.curator is not None:
        state = state._replace(buffers=jax.vmap(curation.tick)(state.buffers))
    return (_exploit if replay else _explore)(method, parts, state, _keys(key))


class _Keys(NamedTuple):
    """An iteration's keys, one for each thing that is random in it."""

    decision: Key
    levels: Key
    play: Key
    students: Key
    generator: Key
    edits: Key
    children: Key


def _keys(key: Key) -> _Keys:
    return _Keys(*jax.random.split(key, len(_Keys._fields)))


def _explore(method: Method, parts: Parts, state: State, keys: _Keys) -> tuple[State, Metrics]:
    level_keys = mesh.shard(jax.random.split(keys.levels, parts.num_envs))
    queues, trace = method.generator.propose(parts, state.generator, level_keys)
    queues = jax.tree.map(lambda x: jnp.broadcast_to(x, (method.students, *x.shape)), queues)  # same for all
    levels = jax.tree.map(lambda x: x[:, :, 0], queues)
    students, experience = _collect(method, parts, state.students, queues, keys.play, learns=method.train_on_new)
    metrics = _measure(parts, queues, experience, "new")

    buffers = state.buffers
    generator, learned = method.generator.learn(parts, state.generator, trace, experience.scored, keys.generator)
    metrics |= prefixed("teacher", learned)
    if method.curator is not None:
        regret = jax.vmap(utilities.regret, 1)(experience.scored) if method.students == 2 else None
        buffers = _insert(method, parts, buffers, experience, levels, regret=regret)
    if method.train_on_new:
        students, learned = _train(method, parts, students, experience, keys.students)
        metrics |= learned
    else:
        metrics |= per_student({"finite": _finite(experience)})
    return State(students, generator, buffers), metrics | _buffered(method, buffers)


def _exploit(method: Method, parts: Parts, state: State, keys: _Keys) -> tuple[State, Metrics]:
    assert method.curator is not None
    choose = partial(curation.sample, method.curator, count=parts.num_envs)
    slots = jax.vmap(choose)(state.buffers, _student_keys(method, keys.levels))  # [S, B]
    replayed = jax.vmap(lambda buffer, slots: jax.tree.map(lambda x: x[slots], buffer.entries))(state.buffers, slots)
    levels = jax.vmap(mesh.shard)(replayed.level)
    queues = _queues(levels)
    students, experience = _collect(method, parts, state.students, queues, keys.play, learns=True)
    metrics = _measure(parts, queues, experience, "replayed")

    returns_whole = jax.vmap(mesh.gather)(experience.scored.best_return)
    buffers, best = jax.vmap(curation.update_best_return)(state.buffers, slots, returns_whole)
    scores = _scores(method, parts, experience, levels, jax.vmap(mesh.shard)(best))
    buffers = jax.vmap(curation.rescore)(buffers, slots, jax.vmap(mesh.gather)(scores))
    metrics |= {"replayed/score": mesh.mean(scores[0].mean()), "replayed/distinct": distinct_share(slots[0])}

    students, learned = _train(method, parts, students, experience, keys.students)
    if method.edits:
        children = _edited(method, parts, levels, keys.edits)
        queues = _queues(children)
        _, experience = _collect(method, parts, students, queues, keys.children, learns=False)
        metrics |= _measure(parts, queues, experience, "edited")
        buffers = _insert(method, parts, buffers, experience, children, parents=replayed)
    return State(students, state.generator, buffers), metrics | learned | _buffered(method, buffers)


def _queues(levels: Level) -> Level:
    """Levels [S, B, ...] as queues [S, B, 1, ...], each repeated until the rollout ends."""
    return jax.tree.map(lambda x: x[:, :, None], levels)


def _collect(
    method: Method, parts: Parts, students: Learner, queues: Level, key: Key, *, learns: bool
) -> tuple[Learner, _Experience]:
    """Roll out every student on its queues [S, B, N, ...]. If it `learns`, its return statistics are updated."""
    env, ppo = parts.domain.env, parts.ppo
    solved_above = solved_threshold(parts.domain)

    def one(learner: Learner, queues: Level, key: Key) -> tuple[Learner, _Experience]:
        keys = mesh.shard(jax.random.split(key, parts.num_envs))
        weights = parts.student.pack(learner.params)
        rollout, _ = collect_rollout(
            env,
            parts.student,
            weights,
            keys,
            queues,
            parts.num_steps,
            bootstrap_on_truncation=ppo.bootstrap_on_truncation,
        )
        if learns:
            learner = ppo_lib.update_return_stats(ppo, learner, rollout)
        estimate = ppo_lib.estimate(ppo, learner, rollout)
        episodes = scored = jax.vmap(returns.episodes, (1, 1, None))(rollout.reward, rollout.done, solved_above)
        if method.discounted_returns:
            reward = jax.vmap(returns.discounted, (1, 1, None), 1)(rollout.reward, rollout.first, ppo.gamma)
            scored = jax.vmap(returns.episodes, (1, 1))(reward, rollout.done)._replace(solved=episodes.solved)
        reward_scale = learner.return_stats.std if ppo.normalize_returns else jnp.ones(())
        experience = _Experience(rollout, estimate, episodes, scored, reward_scale)
        # Other readers of these arrays must not change, through fusions, how the students' update is rounded: some
        # methods are tested to be equal bit for bit. One barrier for each leaf, so that unused leaves are not computed.
        return learner, jax.tree.map(lax.optimization_barrier, experience)

    return _each(one)(students, queues, _student_keys(method, key))


def _train(
    method: Method, parts: Parts, students: Learner, experience: _Experience, key: Key
) -> tuple[Learner, Metrics]:
    update = partial(ppo_lib.update, parts.ppo, parts.student)
    students, metrics = _each(update)(students, experience.rollout, experience.estimate, _student_keys(method, key))
    return students, per_student(metrics)


def _finite(experience: _Experience) -> Float32[Array, " S"]:
    """1 if all advantages are finite, and with them all rewards and values; else 0."""
    share = jnp.isfinite(experience.estimate.advantage).mean(axis=(1, 2), dtype=jnp.float32)
    return jnp.floor(mesh.mean(share))


def _edited(method: Method, parts: Parts, levels: Level, key: Key) -> Level:
    """ACCEL's children of levels [S, B, ...]."""

    def edit(level: Level, key: Key) -> Level:
        def once(level: Level, key: Key) -> tuple[Level, None]:
            return parts.domain.design.mutate(key, level), None

        return lax.scan(once, level, jax.random.split(key, method.edits))[0]

    keys = jax.vmap(lambda key: mesh.shard(jax.random.split(key, parts.num_envs)))(_student_keys(method, key))
    return jax.vmap(jax.vmap(edit))(levels, keys)


def _scores(
    method: Method,
    parts: Parts,
    experience: _Experience,
    levels: Level,
    best: Float[Array, "S B"],
    regret: Float[Array, " B"] | None = None,
) -> Float[Array, "S B"]:
    """Each curator's scores of the levels [S, B, ...] that its student just played."""
    assert method.curator is not None
    score, oracle = method.curator.score, parts.domain.optimal_return
    unknown = jnp.full(best.shape, jnp.nan)

    def in_rewards(x: Float[Array, "S T B"]) -> Float[Array, "S B T"]:
        return jnp.swapaxes(x * experience.reward_scale[:, None, None], 1, 2)

    evidence = Evidence(
        first=jnp.swapaxes(experience.rollout.first, 1, 2),
        value=in_rewards(experience.rollout.value),
        advantage=in_rewards(experience.estimate.advantage),
        episodes=experience.episodes,
        best_return=best,
        regret=unknown if regret is None else jnp.broadcast_to(regret, best.shape),
        optimal_return=unknown if oracle is None else jax.vmap(jax.vmap(partial(oracle, parts.domain.env)))(levels),
    )
    return jax.vmap(jax.vmap(score))(evidence)


def _insert(
    method: Method,
    parts: Parts,
    buffers: Buffer,
    experience: _Experience,
    levels: Level,
    *,
    regret: Float[Array, " B"] | None = None,
    parents: Entries | None = None,
) -> Buffer:
    """Score levels [S, B, ...] that the students just played, and offer them to each student's curator."""
    assert method.curator is not None
    slots = jax.vmap(jax.vmap(curation.find, (None, 0)))(buffers, levels)
    known = jax.vmap(jax.vmap(curation.best_known, (None, 0)))(buffers, slots)
    best = jnp.maximum(known, experience.scored.best_return)
    scores = _scores(method, parts, experience, levels, best, regret)
    lineage = () if parents is None else (parents.generation + 1, parents.id)
    arriving = jax.vmap(jax.vmap(curation.entry))(*jax.vmap(mesh.gather)((levels, scores, best)), *lineage)
    return jax.vmap(partial(curation.insert, method.curator))(buffers, arriving)


def _measure(parts: Parts, queues: Level, experience: _Experience, kind: str) -> Metrics:
    """Metrics of levels of a kind, queues [S, B, N, ...], and of each student on them."""
    return prefixed(kind, level_metrics(parts.domain, queues, experience.rollout, experience.episodes))


def _buffered(method: Method, buffers: Any) -> Metrics:
    """Metrics of the protagonist's buffer."""
    if method.curator is None:
        return {}
    protagonists = jax.tree.map(lambda x: x[0], buffers)
    return prefixed("buffer", buffer_metrics(protagonists, edits=method.edits > 0))


def _student_keys(method: Method, key: Key) -> Key:
    """[S]: a student's key does not depend on how many there are."""
    return jax.vmap(lambda i: jax.random.fold_in(key, i))(jnp.arange(method.students))


def _each(f: Callable[..., Any]) -> Callable[..., Any]:
    """`f` for every student, over the leading axis S.

    On a CPU it is written out for one student after the other, since their work is large: looped over with `lax.map`,
    the same iteration took more than twice as long. Accelerators have room for all students at once.
    """
    if jax.default_backend() != "cpu":
        return jax.vmap(f)

    def over_students(*args: Any) -> Any:
        count = jax.tree.leaves(args)[0].shape[0]
        results = [f(*jax.tree.map(lambda x, i=i: x[i], args)) for i in range(count)]
        return jax.tree.map(lambda *xs: jnp.stack(xs), *results)

    return over_students
