// The hand-written half against the vectors that the server's own code has written.

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { createServer } from "node:http";
import { test } from "node:test";

import { refusal } from "../dist/errors.js";
import { countsForResume, read } from "../dist/frames.js";
import { Room } from "../dist/room.js";
import { patch, View } from "../dist/view.js";
import * as sdk from "../dist/index.js";

const vectorsOf = (name) =>
  JSON.parse(readFileSync(new URL(`../../vectors/${name}.json`, import.meta.url), "utf8"));

/** A socket that a test speaks through, in place of the network. */
class Wire {
  static opened = [];
  readyState = 1;
  bufferedAmount = 0;
  sent = [];
  constructor(url, protocols) {
    Object.assign(this, { url, protocols });
    Wire.opened.push(this);
  }
  send(text) {
    this.sent.push(JSON.parse(text));
  }
  say(text) {
    this.onmessage?.({ data: typeof text === "string" ? text : JSON.stringify(text) });
  }
  lose(code = 1006, reason = "") {
    this.readyState = 3;
    this.onclose?.({ code, reason });
  }
  close() {
    if (this.readyState === 3) return;
    this.readyState = 3;
    queueMicrotask(() => this.onclose?.({ code: 1000, reason: "" }));
  }
}

const TOKEN = {
  token: "7".repeat(64),
  player_info: { player_id: 17, player_name: "Ada", room_id: "r1", is_host: true },
  realtime_server: { host: "play.example", port: 8081, protocol: "wss", udp_port: 0 },
};
const CONNECTED = { type: "connected", data: { connection_id: "c1" } };

const nextWire = async () => {
  while (Wire.opened.length === 0) await new Promise((resolve) => setTimeout(resolve, 1));
  return Wire.opened.shift();
};

/** Open a room over a wire; return both. */
async function open(options = {}, mint = async () => TOKEN) {
  Wire.opened.length = 0;
  const room = new Room(mint, Wire, options);
  const opening = room.open();
  const wire = await nextWire();
  wire.say(CONNECTED);
  await opening;
  await new Promise((resolve) => setTimeout(resolve, 1));
  return [room, wire];
}

for (const { name, old, delta, new: wanted } of vectorsOf("deltas").deltas) {
  test(`delta: ${name}`, () => {
    const before = JSON.stringify(old);
    assert.deepEqual(delta === null ? old : patch(old, delta), wanted);
    assert.equal(JSON.stringify(old), before, "the old value is as it was");
  });
}

for (const { name, events } of vectorsOf("deltas").states) {
  test(`state: ${name}`, async () => {
    const view = new View();
    const [room, wire] = await open();
    for (const { frame, shared, private: own, version, is_lost } of events) {
      view.take(frame.event, frame.data);
      assert.deepEqual([view.shared, view.private], [shared, own]);
      assert.deepEqual([view.version, view.isLost], [version, is_lost]);
      wire.say(frame);
      assert.deepEqual([room.state, room.privateState], [shared, own]);
    }
    const lost = events.filter((each, at) => each.is_lost && !events[at - 1]?.is_lost).length;
    assert.equal(wire.sent.filter((frame) => frame.type === "state").length, lost);
    await room.close();
  });
}

test("a delta cannot reach what all objects inherit", () => {
  const delta = JSON.parse('{"s":{"__proto__":{"evil":1}},"c":{}}');
  const next = patch({}, delta);
  assert.equal({}.evil, undefined);
  assert.deepEqual(Object.keys(next), ["__proto__"]);
  assert.throws(() => patch({}, { c: { constructor: { s: { evil: 1 } } } }), TypeError);
});

for (const { name, text, counts } of vectorsOf("frames").from_server) {
  test(`frame: ${name}`, () => {
    const frame = read(text);
    const told = JSON.parse(text);
    if (told.type.startsWith("udp")) return assert.equal(frame, null);
    assert.equal(frame.type, told.type);
    assert.equal(countsForResume(frame), counts);
    if (told.type === "receive") {
      assert.deepEqual(frame.data, told.data);
      assert.equal(frame.sender.isServer, told.sender.is_server === true);
      assert.equal(frame.sender.id, told.sender.game_player_id);
      assert.equal(frame.isUnreliable, told.unreliable === true);
    }
    if (told.type === "action_result") {
      const { type, id, ...result } = told;
      assert.deepEqual([frame.id, frame.result], [id, result]);
    }
    if (told.type === "error") assert.equal(frame.retryAfter, told.data.retry_after ?? null);
  });
}

for (const { name, text } of vectorsOf("frames").ignored) {
  test(`ignored: ${name}`, async () => {
    const [room, wire] = await open();
    room.on("message", assert.fail);
    room.on("event", assert.fail);
    wire.say(text);
    assert.equal(room.status, "connected");
    await room.close();
  });
}

test("what is sent is what the server reads", async () => {
  const [room, wire] = await open();
  const known = Object.fromEntries(
    vectorsOf("frames").from_clients.map(({ name, text }) => [name, JSON.parse(text)]),
  );
  const data = known["send to all"].data;
  room.send("chat", data);
  room.send("chat", false, "host");
  room.send("chat", 0, [17, 18]);
  room.send("chat", null, "others");
  room.action("deal", { n: 2 }).catch(() => {});
  room.action("ask", {}, { target: 18 }).catch(() => {});
  const sent = wire.sent.map(({ id, ...frame }) => frame);
  const wanted = [
    known["send to all"],
    known["send to the host"],
    known["send to two members, with an id"],
    known["send with an id"],
    known.action,
    { ...known["action of the host, to a member"], request_data: {} },
  ].map(({ id, ...frame }) => frame);
  assert.deepEqual(sent, wanted);
  assert.equal(new Set(wire.sent.map(({ id }) => id)).size, sent.length);
  await room.close();
});

for (const { name, connections } of vectorsOf("resume").connections) {
  test(`resume: ${name}`, async () => {
    Wire.opened.length = 0;
    const room = new Room(async () => TOKEN, Wire, {});
    const opening = room.open();
    const asked = "?client=json&hints=1";
    for (const { query, frames } of connections) {
      const wire = await nextWire();
      assert.equal(new URL(wire.url).search, query === null ? asked : `${asked}&${query}`);
      assert.deepEqual(wire.protocols, ["greenroom.v1", `token.${TOKEN.token}`]);
      assert.ok(!wire.url.includes(TOKEN.token));
      frames.forEach((frame) => wire.say(frame));
      await opening;
      wire.lose();
    }
    await room.close();
  });
}

test("what comes with the greeting is heard by whoever waits for that", async () => {
  Wire.opened.length = 0;
  const room = new Room(async () => TOKEN, Wire, {});
  const opening = room.open();
  const wire = await nextWire();
  wire.say(CONNECTED);
  wire.say({ type: "event", event: "state", data: { version: 1, shared: 7, private: null } });
  await opening;
  const seen = new Promise((resolve) => room.on("state", resolve));
  assert.equal(await seen, 7);
  await room.close();
});

test("an action is asked for again after a lost connection, and answered once", async () => {
  const [room, wire] = await open();
  const asked = room.action("deal", { n: 1 });
  const { id } = wire.sent.at(-1);
  assert.equal(wire.sent.at(-1).again, undefined);
  wire.lose();
  const waiting = room.action("deal", { n: 2 });
  const next = await nextWire();
  next.say(CONNECTED);
  assert.deepEqual(next.sent.map(({ again }) => again), [true, undefined]);
  assert.equal(next.sent[0].id, id);
  for (const { id } of next.sent) {
    next.say({ type: "action_result", id, action_type: "deal", status: "completed", response_data: 7 });
  }
  assert.deepEqual([(await asked).response_data, (await waiting).response_data], [7, 7]);
  await room.close();
});

test("an action that is refused, has failed or is late is an error of its own", async () => {
  const [room, wire] = await open();
  const refused = room.action("a", {});
  const error = { message: "Too many requests", retry_after: 3 };
  wire.say({ type: "error", id: wire.sent.at(-1).id, data: error });
  await assert.rejects(refused, (found) => found instanceof sdk.ActionRefused && found.retryAfter === 3);
  const failed = room.action("a", {});
  const { id } = wire.sent.at(-1);
  wire.say({ type: "action_result", id, action_type: "a", status: "failed", response_data: "no" });
  await assert.rejects(failed, (found) => found instanceof sdk.ActionFailed && found.result.response_data === "no");
  await assert.rejects(room.action("a", {}, { secondsMax: 0.01 }), sdk.ActionLost);
  const lost = room.action("a", {});
  wire.lose();
  const next = await nextWire();
  next.say(CONNECTED);
  next.say({ type: "error", id: next.sent[0].id, data: { message: "An action with this id is in flight" } });
  await assert.rejects(lost, sdk.ActionLost);
  const open_ = room.action("a", {});
  await room.close();
  await assert.rejects(open_, sdk.ConnectionLost);
  await assert.rejects(room.action("a", {}), sdk.ConnectionLost);
});

test("a message is taken, refused, or lost with its connection", async () => {
  const [room, wire] = await open();
  const taken = room.send("chat", 1);
  wire.say({ type: "sent", command: "chat", target_count: 2, id: wire.sent.at(-1).id });
  assert.equal(await taken, 2);
  const refused = room.send("chat", 1);
  wire.say({ type: "error", id: wire.sent.at(-1).id, data: { message: "No" } });
  await assert.rejects(refused, sdk.MessageRefused);
  const complaints = [];
  room.on("refused", (error) => complaints.push(error.message));
  wire.say({ type: "error", data: { message: "Failed to process message" } });
  assert.deepEqual(complaints, ["Failed to process message"]);
  const lost = room.send("chat", 1);
  wire.lose();
  await assert.rejects(lost, sdk.ConnectionLost);
  const later = room.send("chat", 2);
  const next = await nextWire();
  next.say(CONNECTED);
  assert.equal(next.sent.length, 1);
  next.say({ type: "sent", command: "chat", target_count: 0, id: next.sent[0].id });
  assert.equal(await later, 0);
  await room.close();
});

test("what waits is bounded in number and bytes", async () => {
  const [room, wire] = await open();
  const sends = Array.from({ length: 1025 }, () => room.send("chat", 1));
  await assert.rejects(sends.at(-1), sdk.MessageRefused);
  assert.equal(wire.sent.length, 1024);
  wire.bufferedAmount = 2 << 20;
  await assert.rejects(room.action("a", {}), sdk.ActionRefused);
  await room.close();
});

test("a time without end does not end at once", async () => {
  const endless = { heartbeatSeconds: 0.01, answerSecondsMax: Infinity, reconnectSecondsMax: Infinity };
  const [room, wire] = await open(endless);
  const asked = room.action("deal", {}, { secondsMax: Infinity });
  while (wire.sent.length < 2) await new Promise((resolve) => setTimeout(resolve, 1));
  await new Promise((resolve) => setTimeout(resolve, 5));
  assert.equal(room.status, "connected");
  const { id } = wire.sent[0];
  wire.say({ type: "action_result", id, action_type: "deal", status: "completed", response_data: 7 });
  assert.equal((await asked).response_data, 7);
  await room.close();
  const http = createServer((_, answer) => answer.end('{"success":true,"utc":"now"}'));
  await new Promise((resolve) => http.listen(0, "127.0.0.1", resolve));
  const url = `http://127.0.0.1:${http.address().port}`;
  const game = new sdk.Game(url, "gr_api_x", { answerSecondsMax: Infinity });
  assert.equal((await game.time()).utc, "now");
  http.closeAllConnections();
  http.close();
});

test("a room that is over says why, and connects no more", async () => {
  const ends = [
    ["Connection replaced", sdk.Replaced],
    ["Room cleanup", sdk.RoomEnded],
    ["Player disconnect", sdk.SeatLost],
  ];
  for (const [reason, kind] of ends) {
    const [room, wire] = await open();
    const told = new Promise((resolve) => {
      room.on("connection", (status, error) => status === "closed" && resolve(error));
    });
    wire.lose(1000, reason);
    assert.ok((await told) instanceof kind);
    assert.ok(room.error instanceof kind);
    assert.equal(Wire.opened.length, 0);
  }
});

test("a room gives up once the time is over, and at once where that is 0", async () => {
  const [room, wire] = await open({ reconnectSecondsMax: 0 });
  const told = new Promise((resolve) => room.on("connection", (status) => resolve(status)));
  wire.lose();
  await told;
  await new Promise((resolve) => setTimeout(resolve));
  assert.equal(room.status, "closed");
  assert.ok(room.error instanceof sdk.ConnectionLost);
});

test("a refused token is replaced once, and then the seat is lost", async () => {
  let minted = 0;
  const mint = async () => {
    minted++;
    return TOKEN;
  };
  const [room, wire] = await open({}, mint);
  wire.lose();
  (await nextWire()).lose(1008, "Invalid token");
  const last = await nextWire();
  last.say({ type: "refused", data: { message: "Token invalidated", hint: "Join a room." } });
  last.lose(1008, "Token invalidated");
  while (room.status !== "closed") await new Promise((resolve) => setTimeout(resolve, 1));
  assert.ok(room.error instanceof sdk.TokenRefused);
  assert.equal(room.error.hint, "Join a room.");
  assert.equal(minted, 2);
});

test("a room that is closed while it connects leaves no connection behind", async () => {
  const [room, wire] = await open();
  wire.lose();
  const next = await nextWire();
  await room.close();
  assert.equal(next.readyState, 3);
  next.say(CONNECTED);
  assert.equal(room.status, "closed");
});

test("a server that does not answer heartbeats is left", async () => {
  const [room, wire] = await open({ heartbeatSeconds: 0.01, answerSecondsMax: 0.01 });
  const next = await nextWire();
  assert.deepEqual(wire.sent, [{ type: "heartbeat" }]);
  next.say(CONNECTED);
  assert.equal(room.connections, 2);
  await room.close();
});

test("a listener that throws harms nobody else", async () => {
  const [room, wire] = await open();
  const heard = [];
  const thrown = [];
  const { queueMicrotask } = globalThis;
  globalThis.queueMicrotask = (call) => {
    try {
      call();
    } catch (error) {
      thrown.push(error.message);
    }
  };
  room.on("event", () => {
    throw new Error("a bug of the game's");
  });
  const off = room.on("event", (name) => heard.push(name));
  wire.say({ type: "event", event: "member_joined", data: {} });
  off();
  wire.say({ type: "event", event: "member_left", data: {} });
  globalThis.queueMicrotask = queueMicrotask;
  assert.deepEqual(heard, ["member_joined"]);
  assert.deepEqual(thrown, Array(2).fill("a bug of the game's"));
  await room.close();
});

test("refusals are errors by their status, with what the server says", () => {
  const full = refusal(400, { success: false, error: "Room is full", hint: "Find another" }, null);
  assert.deepEqual([full.constructor, full.code, full.hint], [sdk.ApiError, "room_full", "Find another"]);
  assert.equal(full.message, "400: Room is full (Find another)");
  assert.equal(refusal(401, { error: "Invalid player token" }, null).constructor, sdk.Unauthorized);
  assert.equal(refusal(404, { error: "Room not found" }, null).code, "room_not_found");
  assert.equal(refusal(404, { error: "constructor" }, null).code, null);
  const banned = refusal(403, { error: "You are banned", ban_info: { ban_id: "b" } }, null);
  assert.deepEqual([banned.constructor, banned.banInfo.ban_id], [sdk.Banned, "b"]);
  assert.equal(refusal(429, { error: "Too many requests", retry_after: 7 }, "9").retryAfter, 7);
  assert.equal(refusal(429, undefined, "9").retryAfter, 9);
  assert.equal(refusal(429, undefined, "soon").retryAfter, 1);
  assert.equal(refusal(502, undefined, null).constructor, sdk.ServerError);
  assert.equal(refusal(200, undefined, null).constructor, sdk.UnexpectedAnswer);
  assert.equal(refusal(200, { success: false, error: "No" }, null).constructor, sdk.ApiError);
});
