"""Gymnasium's own CarRacing on any of our tracks: what the parity tests and the benchmark compare with.

Needs `gymnasium[box2d]`, so nothing imports this module unless that is asked for.
"""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
import numpy as np
from gymnasium.envs.box2d.car_dynamics import Car as Box2dCar
from gymnasium.envs.box2d.car_racing import CarRacing

from tutelage.domains.racing import track
from tutelage.domains.racing.physics import Car


class Reference(CarRacing):
    """CarRacing with Gymnasium's rules, physics and drawing; `line` replaces its random track.

    One of `draw_every` frames is drawn, and the others return the last; 0 draws none.
    """

    def __init__(self, line: track.CenterLine | None = None, draw_every: int = 1) -> None:
        super().__init__()
        self.line = line
        self.draw_every = draw_every
        self._drawn: Any = None

    def _create_track(self) -> bool:
        if self.line is None:
            return bool(super()._create_track())
        count = int(self.line.n)
        corners = np.asarray(track.tiles(self.line), np.float64)[:count]
        curbs, curb_corners = (np.asarray(value)[:count] for value in track.curbs(self.line))
        self.road = []
        for i in range(count):
            polygon = [tuple(map(float, corner)) for corner in corners[i]]
            self.fd_tile.shape.vertices = polygon
            tile = self.world.CreateStaticBody(fixtures=self.fd_tile)
            tile.userData = tile
            tile.color = self.road_color + 0.01 * (i % 3) * 255
            tile.road_visited = False
            tile.road_friction = 1.0
            tile.idx = i
            tile.fixtures[0].sensor = True
            self.road_poly.append((polygon, tile.color))
            self.road.append(tile)
            if curbs[i]:
                outline = [tuple(map(float, corner)) for corner in curb_corners[i]]
                self.road_poly.append((outline, (255, 255, 255) if i % 2 == 0 else (255, 0, 0)))
        points, heading = np.asarray(self.line.points, np.float64), np.asarray(self.line.heading, np.float64)
        self.track = [(0.0, heading[i], *points[i]) for i in range(count)]
        return True

    def _render(self, mode: str) -> Any:
        frame = round(self.t * 50)
        if self.draw_every and (self._drawn is None or frame % self.draw_every == 1 % self.draw_every):
            self._drawn = super()._render(mode)
        return self._drawn

    def center_line(self, size: int) -> track.CenterLine:
        """The track that is being driven, padded to `size` points."""
        rows = np.array(self.track)
        rows = np.pad(rows, ((0, size - len(rows)), (0, 0)), mode="wrap")
        points, heading = jnp.asarray(rows[:, 2:], jnp.float32), jnp.asarray(rows[:, 1], jnp.float32)
        return track.CenterLine(points, heading, jnp.int32(len(self.track)))

    def mechanics(self) -> Car:
        """The mechanical state as our `Car`."""
        car = self._car
        bodies = [car.hull, *car.wheels]

        def array(values: Any) -> jnp.ndarray:
            return jnp.asarray(np.array(values, np.float32))

        return Car(
            position=array([tuple(body.worldCenter) for body in bodies]),
            angle=array([body.angle for body in bodies]),
            velocity=array([tuple(body.linearVelocity) for body in bodies]),
            spin=array([body.angularVelocity for body in bodies]),
            roll=array([wheel.omega for wheel in car.wheels]),
            phase=array([wheel.phase for wheel in car.wheels]),
            gas=array(car.wheels[2].gas),
            lock=array([abs(wheel.joint.GetReactionTorque(1.0)) for wheel in car.wheels]),
        )

    def wheel_tiles(self) -> np.ndarray:
        """bool[4, count]: the tiles that each wheel touches, as found before the last frame's motion."""
        touching = np.zeros((4, len(self.track)), bool)
        for row, wheel in zip(touching, self._car.wheels, strict=True):
            row[[tile.idx for tile in wheel.tiles]] = True
        return touching

    def hull_tiles(self) -> np.ndarray:
        """bool[count]: the tiles that the hull touches, likewise."""
        touching = np.zeros(len(self.track), bool)
        touching[[edge.other.userData.idx for edge in self._car.hull.contacts if edge.contact.touching]] = True
        return touching

    def visited(self) -> np.ndarray:
        """bool[count]: the tiles that have given their reward."""
        assert self.road is not None
        return np.array([tile.road_visited for tile in self.road])

    def touched(self) -> np.ndarray:
        """bool[count]: the tiles that have lost their shade; where the shade is none, those that were visited."""
        assert self.road is not None
        recolored = np.array([(tile.color == self.road_color).all() for tile in self.road])
        return np.where(np.arange(len(self.road)) % 3 > 0, recolored, self.visited())

    @property
    def _car(self) -> Box2dCar:
        assert self.car is not None, "Call reset first."
        return self.car
