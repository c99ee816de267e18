"""The car of Gymnasium's CarRacing, one frame of 1/50 s in closed form (paper, appendix on CarRacing).

Five rigid bodies, a hull and four wheels, are held together by revolute joints. Box2D solves for their velocities in
180 iterations. Those of a car whose wheels are free to steer converge within a few, so the limit is written down
directly: the joints' impulses are internal, hence the linear and the angular momentum of the five bodies are conserved,
and two unknowns (the hull's velocity and spin) are left. What does *not* converge is followed step by step: a steering
motor that works against its joint's limit (`_steer`), the clamp on speed, and the few passes of position correction.

Bodies are always in the order hull, front left, front right, rear left, rear right; all units are meters, seconds and
kilograms.
"""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

DT = 1 / 50
SIZE = 0.02  # meters in one unit of the car's drawing
HULL = tuple(
    SIZE * np.array(polygon, np.float64)
    for polygon in (
        [(-60, 130), (60, 130), (60, 110), (-60, 110)],
        [(-15, 120), (15, 120), (20, 20), (-20, 20)],
        [(25, 20), (50, -10), (50, -40), (20, -90), (-20, -90), (-50, -40), (-50, -10), (-25, 20)],
        [(-50, -120), (50, -120), (50, -90), (-50, -90)],
    )
)
"""The hull's four convex polygons, relative to its origin."""
ANCHORS = SIZE * np.array([(-55, 80), (55, 80), (-55, -82), (55, -82)], np.float64)  # [4, 2] from the hull's origin
WHEEL_HALF = (14 * SIZE, 27 * SIZE)  # half width, half length; the latter is also the rolling radius

ENGINE_POWER = 1e8 * SIZE**2
WHEEL_INERTIA = 4000 * SIZE**2  # of rolling; the inertia of steering follows from the wheel's shape
ROAD_GRIP = 1e6 * SIZE**2
GRASS_GRIP = 0.6 * ROAD_GRIP
STIFFNESS = 205000 * SIZE**2  # force for each m/s of slip, below the grip
BRAKE = 15.0
STEER_GAIN, STEER_SPEED, STEER_LIMIT = 50.0, 3.0, 0.4
MOTOR_IMPULSE = DT * 180 * 900 * SIZE**2  # the most that a steering motor gives in a frame, N·m·s

ITERATIONS = 180  # of the velocity solver, as Gymnasium asks for
MAX_TRANSLATION = 2.0  # Box2D: meters a body may move in one step
SLOP, ANGULAR_SLOP, MAX_ANGULAR_CORRECTION = 0.005, np.pi / 90, np.pi * 8 / 180  # Box2D's position solver
HULL_DENSITY, WHEEL_DENSITY = 1.0, 0.1


def _mass(polygons: tuple[np.ndarray, ...], density: float) -> tuple[float, np.ndarray, float]:
    """Mass, center of mass [2] and the moment of inertia about it, of convex polygons that may overlap."""
    mass, first, second = 0.0, np.zeros(2), 0.0
    for polygon in polygons:
        following = np.roll(polygon, -1, 0)
        area = 0.5 * (polygon[:, 0] * following[:, 1] - polygon[:, 1] * following[:, 0])
        area = area * np.sign(area.sum())
        mass += density * area.sum()
        first = first + density * (area[:, None] * (polygon + following)).sum(0) / 3
        square = (polygon**2 + polygon * following + following**2).sum(1)
        second += density * (area * square).sum() / 6
    center = first / mass
    return float(mass), center, float(second - mass * center @ center)


MASS, CENTER, INERTIA = _mass(HULL, HULL_DENSITY)
_WHEEL_BOX = np.array(WHEEL_HALF) * np.array([(-1, 1), (1, 1), (1, -1), (-1, -1)])
WHEEL_MASS, _, STEER_INERTIA = _mass((_WHEEL_BOX,), WHEEL_DENSITY)
ARMS = ANCHORS - CENTER  # [4, 2] from the hull's center of mass to the joints


class Car(NamedTuple):
    """The whole mechanical state."""

    position: jax.Array  # f32[5, 2] centers of mass
    angle: jax.Array  # f32[5]; 0 faces along +y, counter-clockwise is positive
    velocity: jax.Array  # f32[5, 2]
    spin: jax.Array  # f32[5]
    roll: jax.Array  # f32[4] rolling speed of the wheels, rad/s
    phase: jax.Array  # f32[4] how far the wheels have rolled, rad; only for drawing
    gas: jax.Array  # f32[]
    lock: jax.Array  # f32[4] impulse with which each joint's limit held its wheel in the last frame, N·m·s


def rotate(angle: jax.Array, vector: jax.Array) -> jax.Array:
    """Turn vectors [..., 2] counter-clockwise by angles [...]."""
    c, s = jnp.cos(angle), jnp.sin(angle)
    x, y = vector[..., 0], vector[..., 1]
    return jnp.stack([c * x - s * y, s * x + c * y], -1)


def cross(a: jax.Array, b: jax.Array) -> jax.Array:
    """The third component of a × b, for vectors [..., 2]."""
    return a[..., 0] * b[..., 1] - a[..., 1] * b[..., 0]


def _quarter_turn(vector: jax.Array) -> jax.Array:
    return jnp.stack([-vector[..., 1], vector[..., 0]], -1)


def origin(car: Car) -> jax.Array:
    """f32[2]: the hull's origin, which Gymnasium calls the position of the car and the camera follows."""
    return car.position[0] - rotate(car.angle[0], jnp.asarray(CENTER, jnp.float32))


def place(point: jax.Array, angle: jax.Array) -> Car:
    """A car at rest with its origin at `point` [2].

    Gymnasium does not turn the wheels' offsets with the hull. Its first frame pulls them into place and moves the car
    by up to a meter. We do the same, because the first contacts are found before that.
    """
    hull = point + rotate(angle, jnp.asarray(CENTER, jnp.float32))
    return Car(
        position=jnp.concatenate([hull[None], point + jnp.asarray(ANCHORS, jnp.float32)]),
        angle=jnp.full(5, angle),
        velocity=jnp.zeros((5, 2)),
        spin=jnp.zeros(5),
        roll=jnp.zeros(4),
        phase=jnp.zeros(4),
        gas=jnp.zeros(()),
        lock=jnp.zeros(4),
    )


def settle(car: Car) -> Car:
    """Pull the wheels of a car at rest to their joints, in as many passes as Box2D would take."""
    position, angle, _ = jax.lax.while_loop(
        lambda pass_: ~pass_[2],
        lambda pass_: _correct(*pass_[:2], jnp.zeros(4)),
        (car.position, car.angle, jnp.bool_(False)),
    )
    return car._replace(position=position, angle=angle)


def advance(car: Car, action: jax.Array, on_road: jax.Array) -> Car:
    """One frame with an action f32[3]: steering in [-1, 1] (negative is left), gas and brake in [0, 1].

    `on_road` bool[4] says which wheels touch a tile.
    """
    joint = car.angle[1:] - car.angle[0]
    target = jnp.stack([-action[0], -action[0], jnp.zeros(()), jnp.zeros(())])
    motor = jnp.clip(STEER_GAIN * (target - joint), -STEER_SPEED, STEER_SPEED)
    limit = jnp.where(joint >= STEER_LIMIT, 1.0, jnp.where(joint <= -STEER_LIMIT, -1.0, 0.0))
    motor, lock = _steer(car, motor, limit)

    car, force = _tires(car, action[1], action[2], on_road)
    car = _solve_velocity(car, force, motor)

    step = DT * car.velocity
    length = jnp.sqrt((step**2).sum(-1, keepdims=True))
    clamp = MAX_TRANSLATION / jnp.maximum(length, MAX_TRANSLATION)
    velocity = car.velocity * clamp
    position = car.position + DT * velocity
    angle = car.angle + DT * car.spin
    position, angle, solved = _correct(position, angle, limit)
    # Box2D repeats this until errors are within its tolerance, but a third pass changes only rounding errors.
    again = _correct(position, angle, limit)
    position = jnp.where(solved, position, again[0])
    angle = jnp.where(solved, angle, again[1])
    return car._replace(position=position, angle=angle, velocity=velocity, lock=lock)


def _steer(car: Car, motor: jax.Array, limit: jax.Array) -> tuple[jax.Array, jax.Array]:
    """The joints' speeds f32[4] for the motor speeds `motor` f32[4], and their limits' new impulses f32[4].

    `limit` f32[4] is the side (−1, 0, 1) on which a joint is at its limit. There, motor and limit work against each
    other: in each of Box2D's iterations the motor adds its impulse and the limit takes it back, so that the wheel rests
    while both impulses grow, until the motor's is MOTOR_IMPULSE. They are kept for the next frame. When the motor turns
    back, it has to undo them first, by as much in each iteration; only then does it move the wheel.
    """
    inertia = 1 / (1 / INERTIA + 1 / STEER_INERTIA)
    outwards = limit * motor
    # The motor also gives the wheel the hull's spin.
    most = MOTOR_IMPULSE - limit * STEER_INERTIA * (car.spin[0] - car.spin[1:])
    lock = jnp.minimum(jnp.where(limit == 0, 0.0, car.lock) + inertia * outwards, most)
    lock += (ITERATIONS - 1) * inertia * outwards
    released = limit * jnp.clip(lock / inertia, jnp.minimum(outwards, 0), 0)
    return jnp.where(limit == 0, motor, released), jnp.where(limit == 0, 0.0, jnp.clip(lock, 0, most))


def _tires(car: Car, gas: jax.Array, brake: jax.Array, on_road: jax.Array) -> tuple[Car, jax.Array]:
    """Engine, brakes and friction: the car with new rolling speeds, and the forces f32[4, 2] on its wheels."""
    gas = car.gas + jnp.minimum(jnp.clip(gas, 0, 1) - car.gas, 0.1)
    drive = jnp.array([0.0, 0.0, 1.0, 1.0]) * gas
    roll = car.roll + DT * ENGINE_POWER / WHEEL_INERTIA * drive / (jnp.abs(car.roll) + 5.0)
    braked = roll - jnp.sign(roll) * jnp.minimum(BRAKE * brake, jnp.abs(roll))
    # Gymnasium compares in 64 bits, where the 32-bit number nearest to 0.9 is below 0.9.
    roll = jnp.where(brake > np.float32(0.9), 0.0, jnp.where(brake > 0, braked, roll))
    phase = car.phase + DT * roll

    forward = rotate(car.angle[1:], jnp.array([0.0, 1.0]))
    side = rotate(car.angle[1:], jnp.array([1.0, 0.0]))
    velocity = car.velocity[1:]
    radius = WHEEL_HALF[1]
    along = STIFFNESS * (roll * radius - (forward * velocity).sum(-1))
    across = -STIFFNESS * (side * velocity).sum(-1)
    force = jnp.sqrt(along**2 + across**2)
    grip = jnp.where(on_road, ROAD_GRIP, GRASS_GRIP)
    slide = jnp.where(force > grip, grip / jnp.maximum(force, grip), 1.0)
    along, across = slide * along, slide * across
    roll = roll - DT * radius / WHEEL_INERTIA * along
    return car._replace(roll=roll, phase=phase, gas=gas), along[:, None] * forward + across[:, None] * side


def _solve_velocity(car: Car, force: jax.Array, motor: jax.Array) -> Car:
    """The velocities that conserve momentum, keep the joints together and turn the wheels at `motor` f32[4]."""
    arm = rotate(car.angle[0], jnp.asarray(ARMS, jnp.float32))
    pushed = car.velocity[1:] + DT / WHEEL_MASS * force
    total = MASS + 4 * WHEEL_MASS
    momentum = MASS * car.velocity[0] + WHEEL_MASS * pushed.sum(0)
    turning = INERTIA * car.spin[0] + (STEER_INERTIA * (car.spin[1:] - motor) + WHEEL_MASS * cross(arm, pushed)).sum()
    moment = WHEEL_MASS * arm.sum(0)
    inertia = INERTIA + 4 * STEER_INERTIA + WHEEL_MASS * (arm**2).sum() - (moment**2).sum() / total
    spin = (turning - cross(moment, momentum) / total) / inertia
    velocity = (momentum - spin * _quarter_turn(moment)) / total
    return car._replace(
        velocity=jnp.concatenate([velocity[None], velocity + spin * _quarter_turn(arm)]),
        spin=jnp.concatenate([spin[None], spin + motor]),
    )


def _correct(position: jax.Array, angle: jax.Array, limit: jax.Array) -> tuple[jax.Array, jax.Array, jax.Array]:
    """One pass of Box2D's position solver over the four joints, the last made first.

    `limit` f32[4] is the side (−1, 0, 1) on which a joint began the step beyond its limit. Returns the new positions
    [5, 2] and angles [5], and whether all errors *before* the pass were already within Box2D's tolerance.
    """
    inverse_inertia, inverse_steer = 1 / INERTIA, 1 / STEER_INERTIA
    inverse_mass, inverse_total = 1 / MASS, 1 / MASS + 1 / WHEEL_MASS
    hull, heading = position[0], angle[0]
    wheels, turns = ([each[i + 1] for i in range(4)] for each in (position, angle))
    solved = jnp.bool_(True)
    for i in (3, 2, 1, 0):
        beyond = limit[i] * (turns[i] - heading) - STEER_LIMIT
        excess = jnp.clip(beyond - ANGULAR_SLOP, 0, MAX_ANGULAR_CORRECTION)
        impulse = -limit[i] * excess / (inverse_inertia + inverse_steer)
        heading = heading - inverse_inertia * impulse
        turns[i] = turns[i] + inverse_steer * impulse

        arm = rotate(heading, jnp.asarray(ARMS[i], jnp.float32))
        gap = wheels[i] - hull - arm
        xx = inverse_total + inverse_inertia * arm[1] ** 2
        xy = -inverse_inertia * arm[0] * arm[1]
        yy = inverse_total + inverse_inertia * arm[0] ** 2
        push = -jnp.stack([yy * gap[0] - xy * gap[1], xx * gap[1] - xy * gap[0]]) / (xx * yy - xy**2)
        hull = hull - inverse_mass * push
        heading = heading - inverse_inertia * cross(arm, push)
        wheels[i] = wheels[i] + push / WHEEL_MASS
        solved &= ((gap**2).sum() <= SLOP**2) & (beyond <= ANGULAR_SLOP)
    return jnp.stack([hull, *wheels]), jnp.stack([heading, *turns]), solved
