// A bare relay on `ws`: what a member of a room says goes to the other members as it is.
//
//     node bench/peers/ws_relay.js    serves until interrupted; prints one line of JSON first

"use strict";

const { WebSocket, WebSocketServer } = require("ws");

const rooms = new Map();
const server = new WebSocketServer({ host: "127.0.0.1", port: 0 }, () => {
  const { port } = server.address();
  console.log(JSON.stringify({ realtime: `ws://127.0.0.1:${port}/` }));
});

server.on("connection", (socket, request) => {
  const room = rooms.get(request.url) ?? new Set();
  rooms.set(request.url, room.add(socket));
  socket.on("message", (data, isBinary) => {
    for (const member of room) {
      if (member !== socket && member.readyState === WebSocket.OPEN) {
        member.send(data, { binary: isBinary });
      }
    }
  });
  socket.on("close", () => room.delete(socket));
});
