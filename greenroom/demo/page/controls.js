// What the player wants: keys, a mouse, or two thumbs.

const KEYS = {
  ArrowLeft: [-1, 0], KeyA: [-1, 0],
  ArrowRight: [1, 0], KeyD: [1, 0],
  ArrowUp: [0, -1], KeyW: [0, -1],
  ArrowDown: [0, 1], KeyS: [0, 1],
};
/** Pixels that a thumb moves for full speed. */
const STICK = 50;
const DEAD = 8;
/** Milliseconds after which a mouse that rests no longer aims. */
const MOUSE_MS = 4000;

export class Controls {
  /** @param canvas what is touched */
  constructor(canvas) {
    this.canvas = canvas;
    this.down = new Set();
    this.left = null;
    this.right = null;
    this.mouse = { x: 0, y: 0, at: -Infinity, fire: false };
    this.isTouched = false;
    this.listening = new AbortController();
    this.listen(globalThis, "keydown", (event) => this.key(event, true));
    this.listen(globalThis, "keyup", (event) => this.key(event, false));
    this.listen(globalThis, "blur", () => this.letGo());
    this.listen(canvas, "pointerdown", (event) => this.press(event));
    this.listen(canvas, "pointermove", (event) => this.move(event));
    this.listen(canvas, "pointerup", (event) => this.release(event));
    this.listen(canvas, "pointercancel", (event) => this.release(event));
    this.listen(canvas, "contextmenu", (event) => event.preventDefault());
  }

  listen(target, name, handler) {
    target.addEventListener(name, handler, { signal: this.listening.signal });
  }

  close() {
    this.listening.abort();
  }

  key(event, isDown) {
    if (event.target instanceof HTMLInputElement) return;
    if (!(event.code in KEYS) && event.code !== "Space") return;
    event.preventDefault();
    if (isDown) this.down.add(event.code);
    else this.down.delete(event.code);
  }

  letGo() {
    this.down.clear();
    this.left = this.right = null;
    this.mouse.fire = false;
  }

  press(event) {
    if (event.pointerType === "mouse") {
      this.move(event);
      this.mouse.fire = true;
      return;
    }
    this.isTouched = true;
    this.canvas.setPointerCapture(event.pointerId);
    const [x, y] = [event.clientX, event.clientY];
    const thumb = { id: event.pointerId, fromX: x, fromY: y, x, y };
    if (x < innerWidth / 2 && this.left === null) this.left = thumb;
    else if (this.right === null) this.right = thumb;
  }

  move(event) {
    if (event.pointerType === "mouse") {
      Object.assign(this.mouse, { x: event.clientX, y: event.clientY, at: performance.now() });
      return;
    }
    for (const thumb of [this.left, this.right]) {
      if (thumb?.id === event.pointerId) {
        thumb.x = event.clientX;
        thumb.y = event.clientY;
      }
    }
  }

  release(event) {
    if (event.pointerType === "mouse") this.mouse.fire = false;
    if (this.left?.id === event.pointerId) this.left = null;
    if (this.right?.id === event.pointerId) this.right = null;
  }

  /** Write down what is wanted now; `x` and `y` are where our ship is on the screen. */
  read(wish, x, y) {
    let [dx, dy] = [0, 0];
    for (const code of this.down) {
      dx += KEYS[code]?.[0] ?? 0;
      dy += KEYS[code]?.[1] ?? 0;
    }
    if (this.left !== null) {
      [dx, dy] = [(this.left.x - this.left.fromX) / STICK, (this.left.y - this.left.fromY) / STICK];
      if (Math.hypot(dx, dy) < DEAD / STICK) dx = dy = 0;
    }
    const length = Math.max(1, Math.hypot(dx, dy));
    // two digits are enough for thumbs, and make short messages
    wish.x = Math.round((dx / length) * 100) / 100;
    wish.y = Math.round((dy / length) * 100) / 100;
    wish.fire = this.down.has("Space") || this.mouse.fire || this.right !== null;
    const angle = this.angle(x, y, wish);
    wish.angle = Math.round(angle * 50) / 50;
  }

  angle(x, y, wish) {
    if (this.right !== null) {
      const [dx, dy] = [this.right.x - this.right.fromX, this.right.y - this.right.fromY];
      if (Math.hypot(dx, dy) > DEAD) return Math.atan2(dy, dx);
    }
    if (this.mouse.fire || performance.now() - this.mouse.at < MOUSE_MS) {
      return Math.atan2(this.mouse.y - y, this.mouse.x - x);
    }
    return wish.x || wish.y ? Math.atan2(wish.y, wish.x) : wish.angle;
  }
}
