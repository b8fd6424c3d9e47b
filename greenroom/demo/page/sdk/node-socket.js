const CONNECT_SECONDS_MAX = 10;
const CLOSE_SECONDS_MAX = 2;
const MESSAGE_BYTES_MAX = 16 << 20;
const ACCEPT_SUFFIX = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11";
const [CONTINUATION, TEXT, CLOSE, PING, PONG] = [0, 1, 8, 9, 10];
const [CONNECTING, OPEN, CLOSING, CLOSED] = [0, 1, 2, 3];
function builtIn(name) {
    const host = globalThis;
    const found = host.process?.getBuiltinModule?.(name);
    if (!found)
        throw new Error("there is no WebSocket: use Node 20.16 or later, or a browser");
    return found;
}
export class NodeSocket {
    onmessage = null;
    onclose = null;
    readyState = CONNECTING;
    crypto = builtIn("node:crypto");
    stream = null;
    request = null;
    chunks = [];
    size = 0;
    needed = 2;
    parts = [];
    partsSize = 0;
    constructor(url, protocols) {
        const address = new URL(url);
        const isSecure = address.protocol === "wss:";
        const module = builtIn(isSecure ? "node:https" : "node:http");
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
    get bufferedAmount() {
        return this.stream?.writableLength ?? 0;
    }
    send(text) {
        if (this.readyState === OPEN)
            this.write(TEXT, Buffer.from(text));
    }
    close(code = 1000) {
        if (this.readyState === CONNECTING)
            this.end(1006, "closed before it was open");
        if (this.readyState !== OPEN)
            return;
        this.readyState = CLOSING;
        const body = Buffer.alloc(2);
        body.writeUInt16BE(code);
        this.write(CLOSE, body);
        setTimeout(() => this.end(1006, "the server did not close"), CLOSE_SECONDS_MAX * 1000).unref();
    }
    listen(stream, head) {
        this.readyState = OPEN;
        stream.setNoDelay?.(true);
        stream.setTimeout?.(0);
        stream.on("data", (chunk) => this.take(chunk));
        stream.on("error", (error) => this.end(1006, error.message));
        stream.on("close", () => this.end(1006, "cut off"));
        if (head.length > 0)
            this.take(head);
    }
    take(chunk) {
        this.chunks.push(chunk);
        this.size += chunk.length;
        while (this.size >= this.needed && this.readyState !== CLOSED) {
            const bytes = this.chunks.length === 1 ? this.chunks[0] : Buffer.concat(this.chunks);
            const used = this.readFrame(bytes);
            const rest = bytes.subarray(used);
            this.chunks = rest.length > 0 ? [rest] : [];
            this.size = rest.length;
        }
    }
    readFrame(bytes) {
        const short = bytes[1] & 0x7f;
        const start = short === 126 ? 4 : short === 127 ? 10 : 2;
        if (bytes.length < start) {
            this.needed = start;
            return 0;
        }
        const long = short === 127 ? Number(bytes.readBigUInt64BE(2)) : bytes.readUInt16BE(2 % start);
        const length = short < 126 ? short : long;
        if (length + this.partsSize > MESSAGE_BYTES_MAX || bytes[1] & 0x80) {
            this.end(1006, "the server has sent what is too large, or no WebSocket frame");
            return bytes.length;
        }
        this.needed = start + length;
        if (bytes.length < this.needed)
            return 0;
        const end = this.needed;
        this.needed = 2;
        this.takeFrame(bytes[0] & 0x0f, (bytes[0] & 0x80) !== 0, bytes.subarray(start, end));
        return end;
    }
    takeFrame(opcode, isFinal, body) {
        if (opcode === PING)
            this.write(PONG, body);
        else if (opcode === CLOSE)
            this.takeClose(body);
        else if (opcode === TEXT || opcode === CONTINUATION) {
            this.parts.push(Buffer.from(body));
            this.partsSize += body.length;
            if (!isFinal)
                return;
            const data = Buffer.concat(this.parts).toString();
            this.parts = [];
            this.partsSize = 0;
            this.onmessage?.({ data });
        }
    }
    takeClose(body) {
        const code = body.length >= 2 ? body.readUInt16BE(0) : 1005;
        if (this.readyState === OPEN)
            this.write(CLOSE, body.subarray(0, 2));
        this.end(code, body.subarray(2).toString());
    }
    write(opcode, body) {
        const length = body.length;
        const size = length < 126 ? 2 : length < 65536 ? 4 : 10;
        const frame = Buffer.alloc(size + 4 + length);
        frame[0] = 0x80 | (opcode ?? 0);
        frame[1] = 0x80 | (size === 2 ? length : size === 4 ? 126 : 127);
        if (size === 4)
            frame.writeUInt16BE(length, 2);
        if (size === 10)
            frame.writeBigUInt64BE(BigInt(length), 2);
        const mask = this.crypto.randomBytes(4);
        mask.copy(frame, size);
        const start = size + 4;
        for (let at = 0; at < length; at++)
            frame[start + at] = body[at] ^ mask[at & 3];
        this.stream?.write(frame);
    }
    end(code, reason) {
        if (this.readyState === CLOSED)
            return;
        this.readyState = CLOSED;
        this.chunks = this.parts = [];
        if (code === 1006) {
            this.request?.destroy();
            this.stream?.destroy();
        }
        else {
            this.stream?.end();
        }
        this.onclose?.({ code, reason });
    }
}
