// A member's view of a room's state, put together from the events `state` and `delta`.

import { isObject } from "./errors.js";

/** @internal What is different in a value; docs/reference/realtime.md of the server explains it. */
export interface Delta {
  v?: unknown;
  s?: Record<string, unknown>;
  c?: Record<string, Delta>;
  d?: string[];
  n?: number;
  a?: unknown[];
}

/**
 * Return a value with a delta applied. The old one is not changed, and what has not changed is in
 * both.
 *
 * @throws TypeError the delta was not made from this value
 *
 * @internal
 */
export function patch(old: unknown, delta: Delta): unknown {
  if ("v" in delta) return delta.v;
  return Array.isArray(old) ? patchArray(old, delta) : patchObject(old, delta);
}

function patchObject(old: unknown, delta: Delta): unknown {
  if (!isObject(old)) throw new TypeError("the delta is for another value");
  const next = { ...old };
  for (const [key, value] of Object.entries(delta.s ?? {})) put(next, key, value);
  for (const [key, inner] of Object.entries(delta.c ?? {})) {
    if (!Object.hasOwn(next, key)) throw new TypeError(`there is no ${key} to change`);
    put(next, key, patch(next[key], inner));
  }
  for (const key of delta.d ?? []) delete next[key];
  return next;
}

/** Set a member; a plain assignment would change what an object inherits for `__proto__`. */
function put(object: Record<string, unknown>, key: string, value: unknown): void {
  const member = { value, writable: true, enumerable: true, configurable: true };
  Object.defineProperty(object, key, member);
}

function patchArray(old: unknown[], delta: Delta): unknown[] {
  const next = [...old];
  for (const [key, value] of Object.entries(delta.s ?? {})) next[positionIn(next, key)] = value;
  for (const [key, inner] of Object.entries(delta.c ?? {})) {
    const position = positionIn(next, key);
    next[position] = patch(next[position], inner);
  }
  if (delta.n !== undefined) next.length = delta.n;
  return delta.a === undefined ? next : next.concat(delta.a);
}

function positionIn(array: unknown[], key: string): number {
  const position = Number(key);
  if (!(position in array)) throw new TypeError(`there is no position ${key} to change`);
  return position;
}

/** @internal The state as one member sees it. */
export class View {
  /** What all see; null before any has come, and for nothing. */
  shared: unknown = null;
  /** What the member sees alone; null for nothing. */
  private: unknown = null;
  /** The server's count; 0 before any has come. */
  version = 0;
  /** Whether a change is missing: ask for the whole. Until that comes, nothing changes. */
  isLost = false;

  /** Apply the data of an event `state` or `delta`; return whether anything has changed. */
  take(event: "state" | "delta", data: unknown): boolean {
    try {
      if (event === "state") return this.replace(data);
      return this.version > 0 && !this.isLost && this.advance(data);
    } catch {
      this.isLost = true;
      return false;
    }
  }

  private replace(data: unknown): boolean {
    if (!isObject(data) || typeof data.version !== "number") throw new TypeError("no state");
    this.version = data.version;
    this.shared = data.shared;
    this.private = data.private;
    this.isLost = false;
    return true;
  }

  private advance(data: unknown): boolean {
    if (!isObject(data) || typeof data.to !== "number") throw new TypeError("no delta");
    if (data.from !== this.version) {
      this.isLost = true;
      return false;
    }
    const [ofShared, ofPrivate] = [data.shared as Delta, data.private as Delta];
    const shared = ofShared ? patch(this.shared, ofShared) : this.shared;
    this.private = ofPrivate ? patch(this.private, ofPrivate) : this.private;
    this.shared = shared;
    this.version = data.to;
    return true;
  }
}
