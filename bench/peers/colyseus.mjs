// A relay on Colyseus: what a member of a room says goes to the other members as it is.
//
//     node bench/peers/colyseus.mjs    serves until interrupted; prints one line of JSON first

import { createServer } from "node:http";

// The seats of a measurement are taken before it begins.
process.env.COLYSEUS_SEAT_RESERVATION_TIME = "600";
const { Room, Server } = await import("@colyseus/core");
const { WebSocketTransport } = await import("@colyseus/ws-transport");

const SAID = 1; // the type of the messages

class Relay extends Room {
  onCreate({ members }) {
    this.maxClients = members;
    this.onMessage(SAID, (client, message) => {
      this.broadcast(SAID, message, { except: client });
    });
  }
}

const http = createServer();
const server = new Server({ transport: new WebSocketTransport({ server: http }), greet: false });
server.define("relay", Relay);
await server.listen(0, "127.0.0.1");
const { port } = http.address();
console.log(
  JSON.stringify({ url: `http://127.0.0.1:${port}`, realtime: `ws://127.0.0.1:${port}/` }),
);
