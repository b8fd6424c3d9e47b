// The others, a little late: between two ticks of the server, where both are known.
//
// Ticks are 50 ms apart on the server's clock, and arrive as the network likes. A playhead runs
// behind the newest tick, as far as the arrivals vary; so a tick is nearly always there before it
// is drawn. Where none is, ships go on as they flew, for a short while.

import { BOLT_SPEED, TICK_MS } from "./flight.js";

const KEPT = 64;
const BEHIND_MS_MIN = 60;
const BEHIND_MS_MAX = 250;
/** How long ships go on without news. */
const ONWARD_MS_MAX = 250;
/** A ship that is this far away after one tick has not flown there. */
const JUMP = 8;
/** Ticks over which losses are counted: five seconds. */
const LOSS_TICKS = 100;

/** Members of a ship in `places`. */
export const [ID, X, Y, VX, VY, ANGLE, HEALTH, SHIELD, NUMBER] = [0, 1, 2, 3, 4, 5, 6, 7, 8];

export class Replay {
  constructor() {
    /** What is drawn, by id; the objects stay the same from frame to frame. */
    this.ships = new Map();
    this.bolts = new Map();
    this.restart();
  }

  /** Forget everything: the server has gone back, or we were away. */
  restart() {
    this.kept = new Array(KEPT).fill(null);
    this.newest = -1;
    this.oldest = -1;
    this.playhead = 0;
    this.base = 0;
    this.late = 0;
    this.spread = 10;
    this.lost = 0;
  }

  /** The share of ticks that never came, or too late to be drawn. */
  get loss() {
    return this.lost;
  }

  /** How far the playhead is to be behind the server, in milliseconds. */
  get behind() {
    const wanted = TICK_MS + this.late + 2 * this.spread;
    return Math.min(Math.max(wanted, BEHIND_MS_MIN), BEHIND_MS_MAX);
  }

  /** Take a tick that has come at `now`; return whether it is newer than all others. */
  take(places, now) {
    const tick = places.tick;
    if (this.newest >= 0 && (tick < this.newest - KEPT || tick > this.newest + KEPT)) this.restart();
    if (this.newest >= 0 && tick <= this.newest) return false;
    const time = tick * TICK_MS;
    if (this.newest < 0) {
      this.base = now - time;
      this.oldest = tick;
      this.playhead = time - this.behind;
    }
    for (let gap = this.newest + 1; this.newest >= 0 && gap < tick; gap++) {
      this.kept[gap % KEPT] = null;
      this.count(1);
    }
    this.count(time < this.playhead ? 1 : 0);
    // the earliest arrivals tell how far the clocks are apart; clocks drift, so forget slowly
    this.base = Math.min(this.base + 0.2, now - time);
    const late = now - time - this.base;
    this.spread += (Math.abs(late - this.late) - this.spread) / 16;
    this.late += (late - this.late) / 16;
    this.kept[tick % KEPT] = places;
    this.newest = tick;
    return true;
  }

  count(lost) {
    this.lost += (lost - this.lost) / LOSS_TICKS;
  }

  /** Move the playhead to `now`, and everything with it. */
  advance(now, milliseconds) {
    if (this.newest < 0) return;
    const wanted = now - this.base - this.behind;
    this.playhead += milliseconds;
    const off = wanted - this.playhead;
    if (Math.abs(off) > 500) this.playhead = wanted;
    else this.playhead += off * Math.min(1, milliseconds / 200);
    const [before, after] = this.around();
    if (after === null) return;
    const time = this.playhead - before.tick * TICK_MS;
    if (before === after) this.goOn(before, Math.min(Math.max(time, 0), ONWARD_MS_MAX) / 1000);
    else this.blend(before, after, time / ((after.tick - before.tick) * TICK_MS));
    this.prune(after);
  }

  /** Return the ticks on both sides of the playhead; twice the newest where there is none after. */
  around() {
    let tick = Math.floor(this.playhead / TICK_MS) + 1;
    let after = null;
    for (tick = Math.max(tick, this.newest - KEPT + 1); tick <= this.newest; tick++) {
      const found = this.kept[tick % KEPT];
      if (found !== null && found.tick === tick) {
        after = found;
        break;
      }
    }
    if (after === null) after = this.kept[this.newest % KEPT];
    for (tick = after.tick - 1; tick > this.newest - KEPT; tick--) {
      const found = this.kept[((tick % KEPT) + KEPT) % KEPT];
      if (found !== null && found.tick === tick) {
        return this.playhead > after.tick * TICK_MS ? [after, after] : [found, after];
      }
    }
    return [after, after];
  }

  blend(before, after, share) {
    const at = Math.min(Math.max(share, 0), 1);
    const seconds = ((after.tick - before.tick) * TICK_MS) / 1000;
    for (let i = 0; i < after.ships.length; i++) {
      const to = after.ships[i];
      const ship = this.shipOf(to);
      const from = rowOf(before.ships, i, to[ID]);
      const hasJumped =
        from === null || Math.abs(to[X] - from[X]) > JUMP || Math.abs(to[Y] - from[Y]) > JUMP;
      if (hasJumped) {
        place(ship, to[X], to[Y], to[ANGLE]);
        continue;
      }
      // a curve through both places that has the right speed at both (Hermite)
      const [at2, at3] = [at * at, at * at * at];
      const a = 2 * at3 - 3 * at2 + 1;
      const b = (at3 - 2 * at2 + at) * seconds;
      const c = 3 * at2 - 2 * at3;
      const d = (at3 - at2) * seconds;
      ship.x = a * from[X] + b * from[VX] + c * to[X] + d * to[VX];
      ship.y = a * from[Y] + b * from[VY] + c * to[Y] + d * to[VY];
      ship.angle = from[ANGLE] + turn(from[ANGLE], to[ANGLE]) * at;
    }
    this.flyBolts(before, seconds * at);
  }

  goOn(newest, seconds) {
    for (const row of newest.ships) {
      const ship = this.shipOf(row);
      place(ship, row[X] + row[VX] * seconds, row[Y] + row[VY] * seconds, row[ANGLE]);
    }
    this.flyBolts(newest, seconds);
  }

  flyBolts(places, seconds) {
    for (const [number, x, y, angle, by] of places.bolts) {
      let bolt = this.bolts.get(number);
      if (bolt === undefined) {
        bolt = { number, x, y, angle, by, cos: Math.cos(angle), sin: Math.sin(angle), tick: 0 };
        this.bolts.set(number, bolt);
      }
      bolt.x = x + bolt.cos * BOLT_SPEED * seconds;
      bolt.y = y + bolt.sin * BOLT_SPEED * seconds;
      bolt.tick = places.tick;
    }
    for (const [number, bolt] of this.bolts) {
      if (bolt.tick !== places.tick) this.bolts.delete(number);
    }
  }

  shipOf(row) {
    let ship = this.ships.get(row[ID]);
    if (ship === undefined) {
      ship = { id: row[ID], x: row[X], y: row[Y], angle: row[ANGLE], health: 0, shield: false };
      this.ships.set(row[ID], ship);
    }
    ship.health = row[HEALTH];
    ship.shield = row[SHIELD];
    return ship;
  }

  /** Let go of ships that have left. */
  prune(places) {
    if (this.ships.size === places.ships.length) return;
    for (const id of this.ships.keys()) {
      if (!places.ships.some((row) => row[ID] === id)) this.ships.delete(id);
    }
  }
}

/** Return a ship's row in another tick, which is at the same position nearly always. */
export function rowOf(rows, position, id) {
  if (position < rows.length && rows[position][ID] === id) return rows[position];
  return rows.find((row) => row[ID] === id) ?? null;
}

function place(ship, x, y, angle) {
  ship.x = x;
  ship.y = y;
  ship.angle = angle;
}

/** Return the shorter way from one angle to another. */
function turn(from, to) {
  const way = (to - from) % (2 * Math.PI);
  return way > Math.PI ? way - 2 * Math.PI : way < -Math.PI ? way + 2 * Math.PI : way;
}
