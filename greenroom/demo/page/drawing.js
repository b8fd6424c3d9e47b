// The arena on a canvas. A frame copies pictures and makes no objects.

import { RADIUS, SIZE } from "./flight.js";
import * as sprites from "./sprites.js";

/** How much of the arena the shorter side of the window shows. */
const SPAN = 62;
const PIXEL_RATIO_MAX = 2;
/** Pixels that are drawn at most: beyond it the canvas is coarser than the screen. */
const PIXELS_MAX = 1_600_000;
const SPARKS = 240;
/** How far the sky moves for each unit that the ship does: it is far away. */
const PARALLAX = 1.2;

export class Drawing {
  constructor(canvas) {
    this.canvas = canvas;
    this.context = canvas.getContext("2d", { alpha: false });
    this.labels = new Map();
    this.sparks = {
      x: new Float32Array(SPARKS), y: new Float32Array(SPARKS),
      vx: new Float32Array(SPARKS), vy: new Float32Array(SPARKS),
      life: new Float32Array(SPARKS), color: new Uint8Array(SPARKS), next: 0,
    };
    this.cameraX = this.cameraY = SIZE / 2;
    this.fit = () => this.resize();
    addEventListener("resize", this.fit);
    this.resize();
  }

  close() {
    removeEventListener("resize", this.fit);
  }

  resize() {
    const wanted = Math.min(devicePixelRatio || 1, PIXEL_RATIO_MAX);
    const [width, height] = [innerWidth, innerHeight];
    this.ratio = Math.min(wanted, Math.sqrt(PIXELS_MAX / Math.max(1, width * height)));
    this.canvas.width = Math.round(width * this.ratio);
    this.canvas.height = Math.round(height * this.ratio);
    this.scale = Math.min(this.canvas.width, this.canvas.height) / SPAN;
    this.labels.clear();
    const radius = RADIUS * this.scale;
    this.ships = sprites.COLORS.map((color) => sprites.ship(color, radius * 1.15));
    this.bolts = sprites.COLORS.map((color) => sprites.glow(color, this.scale * 1.1));
    this.dots = sprites.COLORS.map((color) => sprites.glow(color, Math.max(2, this.scale * 0.5)));
    this.shield = sprites.ring("#e0f2fe", radius * 1.5);
    this.own = sprites.ring("#ffffff55", radius * 1.9);
    this.star = sprites.star(this.scale * 1.2);
    const margin = SIZE * PARALLAX;
    this.sky = sprites.sky(this.canvas.width + margin, this.canvas.height + margin, 20);
  }

  /** Return where a place of the arena is on the canvas. */
  onCanvasX(x) {
    return (x - this.cameraX) * this.scale + this.canvas.width / 2;
  }

  onCanvasY(y) {
    return (y - this.cameraY) * this.scale + this.canvas.height / 2;
  }

  /** Let something fly apart. */
  burst(x, y, color, count, speed) {
    const { sparks } = this;
    for (let made = 0; made < count; made++) {
      const at = sparks.next++ % SPARKS;
      const [angle, fast] = [Math.random() * 2 * Math.PI, (0.3 + Math.random()) * speed];
      sparks.x[at] = x;
      sparks.y[at] = y;
      sparks.vx[at] = Math.cos(angle) * fast;
      sparks.vy[at] = Math.sin(angle) * fast;
      sparks.life[at] = 0.4 + Math.random() * 0.5;
      sparks.color[at] = color;
    }
  }

  /**
   * Draw a frame.
   *
   * @param scene `own` and `ownId`, `ships`, `bolts`, `stars`, and `known`: names and colors
   */
  draw(scene, seconds) {
    const { context, canvas } = this;
    this.follow(scene.own, seconds);
    context.setTransform(1, 0, 0, 1, 0, 0);
    const skyX = (this.cameraX * PARALLAX) | 0;
    const skyY = (this.cameraY * PARALLAX) | 0;
    context.drawImage(
      this.sky, skyX, skyY, canvas.width, canvas.height, 0, 0, canvas.width, canvas.height,
    );
    this.drawWalls();
    for (const star of scene.stars) this.copy(this.star, star[0], star[1]);
    for (const bolt of scene.bolts.values()) {
      this.copy(this.bolts[colorOf(scene, bolt.by)], bolt.x, bolt.y);
    }
    for (const ship of scene.ships.values()) {
      if (ship.id !== scene.ownId) this.drawShip(scene, ship.id, ship);
    }
    this.drawShip(scene, scene.ownId, scene.own);
    this.drawSparks(seconds);
  }

  follow(ship, seconds) {
    const halfX = this.canvas.width / this.scale / 2;
    const halfY = this.canvas.height / this.scale / 2;
    const share = 1 - Math.exp(-8 * seconds);
    this.cameraX += (within(ship.x, halfX) - this.cameraX) * share;
    this.cameraY += (within(ship.y, halfY) - this.cameraY) * share;
  }

  drawWalls() {
    const { context } = this;
    context.strokeStyle = "#38bdf8";
    context.lineWidth = Math.max(1.5, this.scale * 0.25);
    const side = SIZE * this.scale;
    context.strokeRect(this.onCanvasX(0), this.onCanvasY(0), side, side);
  }

  copy(picture, x, y) {
    const atX = this.onCanvasX(x) - picture.width / 2;
    const atY = this.onCanvasY(y) - picture.height / 2;
    if (atX > this.canvas.width || atY > this.canvas.height) return;
    if (atX + picture.width < 0 || atY + picture.height < 0) return;
    this.context.drawImage(picture, atX | 0, atY | 0);
  }

  drawShip(scene, id, ship) {
    if (ship.health === 0) return;
    const [x, y] = [this.onCanvasX(ship.x), this.onCanvasY(ship.y)];
    const [width, height] = [this.canvas.width, this.canvas.height];
    const picture = this.ships[colorOf(scene, id)];
    const half = picture.width;
    if (x < -half || y < -half || x > width + half || y > height + half) return;
    const { context } = this;
    if (id === scene.ownId) this.copy(this.own, ship.x, ship.y);
    const [cos, sin] = [Math.cos(ship.angle), Math.sin(ship.angle)];
    context.setTransform(cos, sin, -sin, cos, x, y);
    context.drawImage(picture, -picture.width / 2, -picture.height / 2);
    context.setTransform(1, 0, 0, 1, 0, 0);
    if (ship.shield) this.copy(this.shield, ship.x, ship.y);
    this.drawLabel(scene, id, ship, x, y);
  }

  drawLabel(scene, id, ship, x, y) {
    const known = scene.known[id];
    if (known === undefined) return;
    const key = `${known.name}${ship.health}${known.is_away}`;
    let found = this.labels.get(id);
    if (found === undefined || found.key !== key) {
      const hearts = "●".repeat(ship.health);
      const text = known.is_away ? `${known.name} (away)` : `${known.name} ${hearts}`;
      const picture = sprites.label(text, sprites.COLORS[known.color], 11 * this.ratio + 1);
      found = { key, picture };
      this.labels.set(id, found);
    }
    const { picture } = found;
    const below = y + RADIUS * this.scale * 1.5;
    this.context.drawImage(picture, (x - picture.width / 2) | 0, below | 0);
  }

  drawSparks(seconds) {
    const { sparks } = this;
    for (let at = 0; at < SPARKS; at++) {
      if (sparks.life[at] <= 0) continue;
      sparks.life[at] -= seconds;
      sparks.x[at] += sparks.vx[at] * seconds;
      sparks.y[at] += sparks.vy[at] * seconds;
      this.copy(this.dots[sparks.color[at]], sparks.x[at], sparks.y[at]);
    }
  }

  /** Draw where the thumbs are. */
  drawThumbs(...thumbs) {
    const { context, ratio } = this;
    context.strokeStyle = "#ffffff66";
    context.lineWidth = 2 * ratio;
    for (const thumb of thumbs) {
      if (thumb === null) continue;
      context.beginPath();
      context.arc(thumb.fromX * ratio, thumb.fromY * ratio, 50 * ratio, 0, 2 * Math.PI);
      context.stroke();
      context.beginPath();
      context.arc(thumb.x * ratio, thumb.y * ratio, 18 * ratio, 0, 2 * Math.PI);
      context.stroke();
    }
  }
}

function colorOf(scene, id) {
  return scene.known[id]?.color ?? 0;
}

/** Return where the camera is for a ship: not so near to a wall that much of nothing is seen. */
function within(place, half) {
  const margin = 4;
  if (half * 2 >= SIZE + margin * 2) return SIZE / 2;
  return Math.min(Math.max(place, half - margin), SIZE + margin - half);
}
