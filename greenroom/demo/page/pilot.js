// Our own ship, at once: it flies as the server will have it fly, and the server corrects it.

import { fly, TICK_MS } from "./flight.js";
import { HEALTH, NUMBER, VX, VY, X, Y } from "./replay.js";

const KEPT = 256;
/** Beyond this the ship is put where the server has it: it was shot down, or we were away. */
const SNAP = 10;
/** The share of an error that one tick corrects. */
const MEND = 0.15;
const SEND_MS_MIN = TICK_MS;
/** How often an input is sent that says nothing new: by its answer the delay is measured. */
const SEND_MS_MAX = 400;

export class Pilot {
  constructor() {
    this.ship = { x: 0, y: 0, vx: 0, vy: 0, angle: 0, health: 0, shield: false };
    /** What the player wants. */
    this.wish = { x: 0, y: 0, angle: 0, fire: false };
    /** Milliseconds from an input to the tick that shows what it did. */
    this.delay = 150;
    this.times = new Float64Array(KEPT);
    this.xs = new Float64Array(KEPT);
    this.ys = new Float64Array(KEPT);
    this.sentAt = new Float64Array(KEPT);
    this.restart();
  }

  restart() {
    this.count = 0;
    this.number = 0;
    this.seen = 0;
    this.lastSent = -Infinity;
    this.sent = { x: 0, y: 0, angle: 0, fire: false };
    this.isPlaced = false;
  }

  /** Fly on until `now`. */
  advance(now, milliseconds) {
    const { ship, wish } = this;
    if (ship.health > 0) fly(ship, wish.x, wish.y, Math.min(milliseconds, 250) / 1000);
    ship.angle = wish.angle;
    const at = this.count++ % KEPT;
    this.times[at] = now;
    this.xs[at] = ship.x;
    this.ys[at] = ship.y;
  }

  /** Return the message to send, or null while there is nothing to say. */
  say(now) {
    const { wish, sent } = this;
    const waited = now - this.lastSent;
    const isNew =
      wish.x !== sent.x || wish.y !== sent.y || wish.fire !== sent.fire || wish.angle !== sent.angle;
    if (waited < SEND_MS_MIN || (!isNew && waited < SEND_MS_MAX)) return null;
    this.lastSent = now;
    this.number++;
    this.sentAt[this.number % KEPT] = now;
    Object.assign(sent, wish);
    return { ...wish, number: this.number };
  }

  /** Take our row of a tick that has come at `now`. */
  correct(row, now) {
    const { ship } = this;
    const wasDown = ship.health === 0;
    ship.health = row[HEALTH];
    ship.shield = row[7];
    this.number = Math.max(this.number, row[NUMBER]); // after a reload it goes on from there
    if (row[NUMBER] > this.seen) {
      const sentAt = this.sentAt[row[NUMBER] % KEPT];
      if (this.seen > 0 && sentAt > 0) this.delay += (now - sentAt - this.delay) / 8;
      this.seen = row[NUMBER];
    }
    const at = this.find(now - this.delay + TICK_MS);
    const [offX, offY] = at < 0 ? [0, 0] : [row[X] - this.xs[at], row[Y] - this.ys[at]];
    const isFar = Math.abs(offX) > SNAP || Math.abs(offY) > SNAP;
    if (at < 0 || !this.isPlaced || wasDown || ship.health === 0 || isFar) {
      this.isPlaced = true;
      this.put(row);
    } else {
      this.shift(offX * MEND, offY * MEND);
    }
  }

  put(row) {
    const { ship } = this;
    [ship.x, ship.y, ship.vx, ship.vy] = [row[X], row[Y], row[VX], row[VY]];
    this.xs.fill(ship.x);
    this.ys.fill(ship.y);
  }

  /** Move the ship and where it was, so that an error is not corrected twice. */
  shift(x, y) {
    this.ship.x += x;
    this.ship.y += y;
    for (let at = 0; at < KEPT; at++) {
      this.xs[at] += x;
      this.ys[at] += y;
    }
  }

  /** Return the position of the last frame before a time; -1 without one. */
  find(time) {
    const first = Math.max(0, this.count - KEPT);
    for (let number = this.count - 1; number >= first; number--) {
      if (this.times[number % KEPT] <= time) return number % KEPT;
    }
    return this.count > 0 ? first % KEPT : -1;
  }
}
