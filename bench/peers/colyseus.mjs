// Rooms on Colyseus. `relay`: what a member says goes to the other members as it is. `arena`: what
// bench/realtime/sea.py does; members steer, at 20 Hz their ships move and all get what has changed.
//
//     node bench/peers/colyseus.mjs    serves until interrupted; prints one line of JSON first

import { createServer } from "node:http";
import { schema, t } from "@colyseus/schema";

// The seats of a measurement are taken before it begins.
process.env.COLYSEUS_SEAT_RESERVATION_TIME = "600";
const { Room, Server } = await import("@colyseus/core");
const { WebSocketTransport } = await import("@colyseus/ws-transport");

const SAID = 1; // the type of the messages
const TICK_MS = 50;
const NEVER_MS = 2 ** 31 - 1;

class Relay extends Room {
  onCreate({ members }) {
    this.maxClients = members;
    this.onMessage(SAID, (client, message) => {
      this.broadcast(SAID, message, { except: client });
    });
  }
}

const Ship = schema(
  {
    x: t.float32().default(0),
    y: t.float32().default(0),
    health: t.uint8().default(100),
    score: t.uint32().default(0),
    note: t.string().default(""),
  },
  "Ship",
);
const Fleet = schema({ ships: t.map(Ship) }, "Fleet");

class Arena extends Room {
  // The tick sends patches: by a clock of their own they would tell of the one before. (Without a
  // rate a room without members would run a clock at 60 Hz instead; so it rests, as Greenroom's do.)
  patchRate = NEVER_MS;
  state = new Fleet();
  steered = new Set();

  onCreate({ members }) {
    this.maxClients = members;
    this.onMessage(SAID, (client, note) => {
      const ship = this.state.ships.get(client.sessionId);
      ship.note = note;
      this.steered.add(ship);
    });
  }

  onJoin(client) {
    this.state.ships.set(client.sessionId, new Ship());
    if (this.clients.length === 1) {
      this.setTimestep((ms) => this.tick(ms / 1000), TICK_MS);
    }
  }

  onLeave(client) {
    this.state.ships.delete(client.sessionId);
  }

  tick(seconds) {
    for (const ship of this.steered) {
      ship.x = (ship.x + 10 * seconds) % 100;
      ship.y = (ship.y + 5 * seconds) % 100;
    }
    this.steered.clear();
    this.broadcastPatch();
  }
}

const http = createServer();
const server = new Server({ transport: new WebSocketTransport({ server: http }), greet: false });
server.define("relay", Relay);
server.define("arena", Arena);
await server.listen(0, "127.0.0.1");
const { port } = http.address();
console.log(
  JSON.stringify({ url: `http://127.0.0.1:${port}`, realtime: `ws://127.0.0.1:${port}/` }),
);
