// Messages and actions that wait for the server's answer, across connections that are lost.

import { milliseconds } from "./caller.js";
import type { Connection } from "./connection.js";
import {
  ActionFailed,
  ActionLost,
  ActionRefused,
  ConnectionLost,
  type GreenroomError,
  MessageRefused,
  type RoomClosed,
} from "./errors.js";
import type { ResultEntry } from "./generated/types.js";

/** @internal Messages or actions that may wait for an answer. Beyond it they are refused here. */
export const WAITING_MAX = 1024;
/** @internal Bytes that may wait for the network. Beyond it messages are refused here. */
export const BUFFERED_BYTES_MAX = 1 << 20;
const FULL = "Too many messages wait for the network: send less at once";

interface Waiting<Result> {
  text: string;
  isSent: boolean;
  isSentAgain: boolean;
  resolve: (result: Result) => void;
  reject: (error: GreenroomError) => void;
}

/** @internal Messages, each of which is sent once. */
export class Sends {
  private readonly waiting = new Map<number, Waiting<number>>();
  private count = 0;

  /** Send a message, now or over the next connection; the promise has the number of receivers. */
  put(frame: object, connection: Connection | null): Promise<number> {
    if (isFull(this.waiting, connection)) return refused(new MessageRefused(FULL));
    const id = ++this.count;
    const text = JSON.stringify({ ...frame, id });
    const sent = new Promise<number>((resolve, reject) => {
      const isSent = connection !== null;
      this.waiting.set(id, { text, isSent, isSentAgain: false, resolve, reject });
    });
    connection?.send(text);
    return quiet(sent);
  }

  take(id: unknown, targetCount: number): void {
    pop(this.waiting, id)?.resolve(targetCount);
  }

  /** Return whether an error is about one of them; if so, it ends that. */
  refuse(id: unknown, error: MessageRefused): boolean {
    const found = pop(this.waiting, id);
    found?.reject(error);
    return found !== undefined;
  }

  /** A connection is lost: whatever was sent over it may have arrived or not. */
  lose(error: RoomClosed): void {
    for (const [id, each] of this.waiting) {
      if (!each.isSent) continue;
      this.waiting.delete(id);
      each.reject(new ConnectionLost(error.code, error.reason));
    }
  }

  /** Send what waits for a connection. */
  flush(connection: Connection): void {
    for (const each of this.waiting.values()) {
      if (!each.isSent) connection.send(each.text);
      each.isSent = true;
    }
  }

  end(error: GreenroomError): void {
    endAll(this.waiting, error);
  }
}

/** @internal Actions, each of which is asked for again after a lost connection, and happens once at most. */
export class Actions {
  private readonly waiting = new Map<string, Waiting<ResultEntry>>();
  // no other page or run of the program has these ids
  private readonly prefix = Array.from(crypto.getRandomValues(new Uint8Array(6)), (byte) =>
    byte.toString(16).padStart(2, "0"),
  ).join("");
  private count = 0;

  async ask(
    frame: object,
    connection: Connection | null,
    secondsMax: number,
  ): Promise<ResultEntry> {
    if (isFull(this.waiting, connection)) throw new ActionRefused(FULL);
    const id = `${this.prefix}.${++this.count}`;
    const text = JSON.stringify({ type: "action", id, ...frame });
    const answered = new Promise<ResultEntry>((resolve, reject) => {
      const isSent = connection !== null;
      this.waiting.set(id, { text, isSent, isSentAgain: false, resolve, reject });
    });
    connection?.send(text);
    const late = setTimeout(() => {
      pop(this.waiting, id)?.reject(new ActionLost(`no result has come within ${secondsMax} s`));
    }, milliseconds(secondsMax));
    try {
      return await answered;
    } finally {
      clearTimeout(late);
    }
  }

  take(id: string, result: ResultEntry): void {
    const found = pop(this.waiting, id);
    if (result.status === "failed") found?.reject(new ActionFailed(result));
    else found?.resolve(result);
  }

  /** Return whether an error is about one of them; if so, it ends that. */
  refuse(id: unknown, error: ActionRefused): boolean {
    const found = pop(this.waiting, id);
    // asked for a second time, it may have been taken the first time
    found?.reject(found.isSentAgain ? new ActionLost(error.message) : error);
    return found !== undefined;
  }

  /** Ask for those again whose results have not come, and for those that were never sent. */
  flush(connection: Connection): void {
    for (const each of this.waiting.values()) {
      connection.send(each.isSent ? `${each.text.slice(0, -1)},"again":true}` : each.text);
      each.isSentAgain = each.isSent;
      each.isSent = true;
    }
  }

  end(error: GreenroomError): void {
    endAll(this.waiting, error);
  }
}

function isFull(waiting: Map<unknown, unknown>, connection: Connection | null): boolean {
  const buffered = connection?.bufferedBytes ?? 0;
  return waiting.size >= WAITING_MAX || buffered > BUFFERED_BYTES_MAX;
}

function pop<Key, Found>(waiting: Map<Key, Found>, id: unknown): Found | undefined {
  const found = waiting.get(id as Key);
  waiting.delete(id as Key);
  return found;
}

function endAll(waiting: Map<unknown, Waiting<never>>, error: GreenroomError): void {
  for (const each of waiting.values()) each.reject(error);
  waiting.clear();
}

function refused<Result>(error: GreenroomError): Promise<Result> {
  return quiet(Promise.reject(error));
}

/** Return a promise whose failure may go unheard: most games do not wait for their messages. */
function quiet<Result>(promise: Promise<Result>): Promise<Result> {
  promise.catch(() => {});
  return promise;
}
