// How ships and bolts move: the same arithmetic as in flight.py, which has the last word.

export const SIZE = 120;
export const RADIUS = 2.5;
export const SPEED = 18;
export const DRAG = 5;
export const BOLT_SPEED = 50;
export const TICK_MS = 50;

/** Move a ship with `x, y, vx, vy` for some seconds towards the direction that its pilot wants. */
export function fly(ship, dx, dy, seconds) {
  const kept = Math.exp(-DRAG * seconds);
  const [wantedX, wantedY] = [dx * SPEED, dy * SPEED];
  ship.x += wantedX * seconds + ((ship.vx - wantedX) * (1 - kept)) / DRAG;
  ship.y += wantedY * seconds + ((ship.vy - wantedY) * (1 - kept)) / DRAG;
  ship.vx = wantedX + (ship.vx - wantedX) * kept;
  ship.vy = wantedY + (ship.vy - wantedY) * kept;
  const end = SIZE - RADIUS;
  if (ship.x < RADIUS || ship.x > end) {
    ship.x = Math.min(Math.max(ship.x, RADIUS), end);
    ship.vx = 0;
  }
  if (ship.y < RADIUS || ship.y > end) {
    ship.y = Math.min(Math.max(ship.y, RADIUS), end);
    ship.vy = 0;
  }
}
