// A WebSocket for Nodes that have none: as much of one as this library needs.

import type * as Crypto from "node:crypto";
import type * as Http from "node:http";
import type * as Https from "node:https";
import type { Duplex } from "node:stream";

/** What this library uses of a WebSocket. */
export interface Socket {
  readonly readyState: number;
  readonly bufferedAmount: number;
  // the platform's handlers take events of its own classes
  onmessage: any;
  onclose: any;
  send(text: string): void;
  close(code?: number): void;
}

/** A class of WebSockets: the platform's, or `NodeSocket`. */
export type SocketClass = new (url: string, protocols: string[]) => Socket;

const CONNECT_SECONDS_MAX = 10;
const CLOSE_SECONDS_MAX = 2;
const MESSAGE_BYTES_MAX = 16 << 20;
const ACCEPT_SUFFIX = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11";
const [CONTINUATION, TEXT, CLOSE, PING, PONG] = [0, 1, 8, 9, 10];
const [CONNECTING, OPEN, CLOSING, CLOSED] = [0, 1, 2, 3];

/** Return a module that is built into Node. Imports would trouble bundlers for browsers. */
function builtIn<Module>(name: string): Module {
  const host = globalThis as { process?: { getBuiltinModule?: (name: string) => unknown } };
  const found = host.process?.getBuiltinModule?.(name);
  if (!found) throw new Error("there is no WebSocket: use Node 20.16 or later, or a browser");
  return found as Module;
}

/** @internal */
export class NodeSocket implements Socket {
  onmessage: ((event: { data: string }) => void) | null = null;
  onclose: ((event: { code: number; reason: string }) => void) | null = null;
  readyState = CONNECTING as number;
  private readonly crypto = builtIn<typeof Crypto>("node:crypto");
  private stream: Duplex | null = null;
  private request: Http.ClientRequest | null = null;
  private chunks: Buffer[] = [];
  private size = 0;
  /** How many bytes there must be before anything more can be read. */
  private needed = 2;
  private parts: Buffer[] = [];
  private partsSize = 0;

  constructor(url: string, protocols: string[]) {
    const address = new URL(url);
    const isSecure = address.protocol === "wss:";
    const module = builtIn<typeof Http | typeof Https>(isSecure ? "node:https" : "node:http");
    const key = this.crypto.randomBytes(16).toString("base64");
    const request = module.request({
      host: address.hostname.replace(/^\[|\]$/g, ""),
      port: address.port || (isSecure ? 443 : 80),
      path: address.pathname + address.search,
      agent: false,
      timeout: CONNECT_SECONDS_MAX * 1000,
      headers: {
        Connection: "Upgrade",
        Upgrade: "websocket",
        "Sec-WebSocket-Version": "13",
        "Sec-WebSocket-Key": key,
        "Sec-WebSocket-Protocol": protocols.join(", "),
      },
    });
    request.on("timeout", () => this.end(1006, "the server has not answered the handshake"));
    request.on("error", (error) => this.end(1006, error.message));
    request.on("response", (answer) => {
      this.end(1006, `the handshake was answered ${answer.statusCode}`);
    });
    request.on("upgrade", (answer, stream, head) => {
      const digest = this.crypto.createHash("sha1").update(key + ACCEPT_SUFFIX).digest("base64");
      this.stream = stream;
      if (answer.headers["sec-websocket-accept"] !== digest || this.readyState !== CONNECTING) {
        this.end(1006, "the handshake was not answered by a WebSocket server");
        return;
      }
      this.listen(stream, head);
    });
    this.request = request;
    request.end();
  }

  get bufferedAmount(): number {
    return this.stream?.writableLength ?? 0;
  }

  send(text: string): void {
    if (this.readyState === OPEN) this.write(TEXT, Buffer.from(text));
  }

  close(code = 1000): void {
    if (this.readyState === CONNECTING) this.end(1006, "closed before it was open");
    if (this.readyState !== OPEN) return;
    this.readyState = CLOSING;
    const body = Buffer.alloc(2);
    body.writeUInt16BE(code);
    this.write(CLOSE, body);
    setTimeout(() => this.end(1006, "the server did not close"), CLOSE_SECONDS_MAX * 1000).unref();
  }

  private listen(stream: Duplex, head: Buffer): void {
    this.readyState = OPEN;
    (stream as Duplex & { setNoDelay?: (on: boolean) => void }).setNoDelay?.(true);
    (stream as Duplex & { setTimeout?: (ms: number) => void }).setTimeout?.(0);
    stream.on("data", (chunk: Buffer) => this.take(chunk));
    stream.on("error", (error) => this.end(1006, error.message));
    stream.on("close", () => this.end(1006, "cut off"));
    if (head.length > 0) this.take(head);
  }

  private take(chunk: Buffer): void {
    this.chunks.push(chunk);
    this.size += chunk.length;
    while (this.size >= this.needed && this.readyState !== CLOSED) {
      const bytes = this.chunks.length === 1 ? this.chunks[0]! : Buffer.concat(this.chunks);
      const used = this.readFrame(bytes);
      const rest = bytes.subarray(used);
      this.chunks = rest.length > 0 ? [rest] : [];
      this.size = rest.length;
    }
  }

  /** Read a frame from the beginning of some bytes; return how many it took. */
  private readFrame(bytes: Buffer): number {
    const short = bytes[1]! & 0x7f;
    const start = short === 126 ? 4 : short === 127 ? 10 : 2;
    if (bytes.length < start) {
      this.needed = start;
      return 0;
    }
    const long = short === 127 ? Number(bytes.readBigUInt64BE(2)) : bytes.readUInt16BE(2 % start);
    const length = short < 126 ? short : long;
    if (length + this.partsSize > MESSAGE_BYTES_MAX || bytes[1]! & 0x80) {
      this.end(1006, "the server has sent what is too large, or no WebSocket frame");
      return bytes.length;
    }
    this.needed = start + length;
    if (bytes.length < this.needed) return 0;
    const end = this.needed;
    this.needed = 2;
    this.takeFrame(bytes[0]! & 0x0f, (bytes[0]! & 0x80) !== 0, bytes.subarray(start, end));
    return end;
  }

  private takeFrame(opcode: number, isFinal: boolean, body: Buffer): void {
    if (opcode === PING) this.write(PONG!, body);
    else if (opcode === CLOSE) this.takeClose(body);
    else if (opcode === TEXT || opcode === CONTINUATION) {
      this.parts.push(Buffer.from(body));
      this.partsSize += body.length;
      if (!isFinal) return;
      const data = Buffer.concat(this.parts).toString();
      this.parts = [];
      this.partsSize = 0;
      this.onmessage?.({ data });
    }
  }

  private takeClose(body: Buffer): void {
    const code = body.length >= 2 ? body.readUInt16BE(0) : 1005;
    if (this.readyState === OPEN) this.write(CLOSE!, body.subarray(0, 2));
    this.end(code, body.subarray(2).toString());
  }

  private write(opcode: number | undefined, body: Buffer): void {
    const length = body.length;
    const size = length < 126 ? 2 : length < 65536 ? 4 : 10;
    const frame = Buffer.alloc(size + 4 + length);
    frame[0] = 0x80 | (opcode ?? 0);
    frame[1] = 0x80 | (size === 2 ? length : size === 4 ? 126 : 127);
    if (size === 4) frame.writeUInt16BE(length, 2);
    if (size === 10) frame.writeBigUInt64BE(BigInt(length), 2);
    const mask = this.crypto.randomBytes(4);
    mask.copy(frame, size);
    const start = size + 4;
    for (let at = 0; at < length; at++) frame[start + at] = body[at]! ^ mask[at & 3]!;
    this.stream?.write(frame);
  }

  /** Be closed, and say so once. */
  private end(code: number, reason: string): void {
    if (this.readyState === CLOSED) return;
    this.readyState = CLOSED;
    this.chunks = this.parts = [];
    if (code === 1006) {
      this.request?.destroy();
      this.stream?.destroy();
    } else {
      this.stream?.end();
    }
    this.onclose?.({ code, reason });
  }
}
