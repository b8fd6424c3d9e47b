// One WebSocket of the control channel: opened, used, always closed.

import { milliseconds } from "./caller.js";
import { ABNORMAL, closing, ConnectionLost, type RoomClosed } from "./errors.js";
import { type Frame, read } from "./frames.js";
import type { Socket, SocketClass } from "./node-socket.js";

const GREETING_SECONDS_MAX = 15;
const HEARTBEAT_SECONDS = 20;
const ACK_SECONDS_MAX = 15;
const CLOSE_SECONDS_MAX = 2;
const OPEN = 1;

/** How soon a connection that has gone silent counts as lost. */
export interface HeartbeatOptions {
  /** Seconds between two heartbeats; 20 if left out, and 50 at most. */
  heartbeatSeconds?: number;
  /** Seconds to wait for the answer to a heartbeat; 15 if left out. */
  answerSecondsMax?: number;
}

/** @internal Whoever is told what comes. */
export interface Listener {
  take(frame: Frame, connection: Connection): void;
}

/** @internal */
export class Connection {
  /** Resolves once the server has said hello; rejects with the reason if it does not. */
  readonly greeted: Promise<void>;
  /** Resolves with the reason, once the connection is over. */
  readonly over: Promise<RoomClosed>;
  /** Seconds that the last heartbeat took; null before the first. */
  roundTripSeconds: number | null = null;

  private readonly socket: Socket;
  private isOver = false;
  private hint: string | null = null;
  /** Frames that came with the greeting: whoever waits for that hears them, too. */
  private held: Frame[] | null = null;
  private greet!: () => void;
  private refuse!: (error: RoomClosed) => void;
  private finish!: (error: RoomClosed) => void;
  private greeting: ReturnType<typeof setTimeout>;
  private beats: ReturnType<typeof setInterval> | null = null;
  private patience: ReturnType<typeof setTimeout> | null = null;
  private beganAt = 0;

  constructor(
    socketClass: SocketClass,
    url: string,
    token: string,
    private readonly options: HeartbeatOptions,
    private readonly listener: Listener,
  ) {
    this.greeted = new Promise((resolve, reject) => {
      this.greet = resolve;
      this.refuse = reject;
    });
    this.over = new Promise((resolve) => (this.finish = resolve));
    this.socket = new socketClass(url, ["greenroom.v1", `token.${token}`]);
    this.socket.onmessage = (event: { data: unknown }) => this.hear(event.data);
    this.socket.onclose = (event: { code: number; reason: string }) => {
      this.end(closing(event.code, event.reason, this.hint));
    };
    const silent = () => this.cut("the server did not say hello");
    this.greeting = setTimeout(silent, GREETING_SECONDS_MAX * 1000);
  }

  get isOpen(): boolean {
    return !this.isOver && this.socket.readyState === OPEN;
  }

  /** The bytes that wait for the network. */
  get bufferedBytes(): number {
    return this.socket.bufferedAmount;
  }

  /** Send a frame; it is lost if the connection is. */
  send(text: string): void {
    if (this.isOpen) this.socket.send(text);
  }

  /** End the connection at once, as if the network had. */
  cut(reason: string): void {
    this.socket.onmessage = this.socket.onclose = null;
    this.end(new ConnectionLost(ABNORMAL, reason));
    this.socket.close();
  }

  /** Close the connection in order, or cut it if that takes too long. */
  async close(): Promise<void> {
    const late = setTimeout(() => this.cut("closed"), CLOSE_SECONDS_MAX * 1000);
    this.socket.close(1000);
    await this.over;
    clearTimeout(late);
  }

  private hear(data: unknown): void {
    const frame = typeof data === "string" ? read(data) : null;
    if (frame === null || this.isOver) return;
    if (frame.type === "refused") {
      this.hint = frame.hint;
      return;
    }
    if (frame.type === "connected") {
      clearTimeout(this.greeting);
      const seconds = Math.min(this.options.heartbeatSeconds ?? HEARTBEAT_SECONDS, 50);
      this.beats ??= setInterval(() => this.beat(), seconds * 1000);
      this.held ??= [];
      setTimeout(() => this.release());
      this.greet();
      this.listener.take(frame, this);
      return;
    }
    if (frame.type === "heartbeat_ack" && this.patience !== null) {
      clearTimeout(this.patience);
      this.patience = null;
      this.roundTripSeconds = (performance.now() - this.beganAt) / 1000;
    }
    if (this.held === null) this.listener.take(frame, this);
    else this.held.push(frame);
  }

  private release(): void {
    const frames = this.held ?? [];
    this.held = null;
    for (const frame of frames) this.listener.take(frame, this);
  }

  private beat(): void {
    if (this.patience !== null) return;
    this.beganAt = performance.now();
    const silent = () => this.cut("the server does not answer");
    const secondsMax = this.options.answerSecondsMax ?? ACK_SECONDS_MAX;
    this.patience = setTimeout(silent, milliseconds(secondsMax));
    this.send('{"type":"heartbeat"}');
  }

  private end(error: RoomClosed): void {
    if (this.isOver) return;
    this.release();
    this.isOver = true;
    clearTimeout(this.greeting);
    if (this.beats !== null) clearInterval(this.beats);
    if (this.patience !== null) clearTimeout(this.patience);
    this.refuse(error);
    this.greeted.catch(() => {}); // whoever waits for it is told; nobody may be waiting any more
    this.finish(error);
  }
}
