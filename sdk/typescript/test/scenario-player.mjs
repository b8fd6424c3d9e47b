// Plays in the scenario that all SDKs run in one room: it does what the driver says over TCP, a
// line of JSON at a time. The driver is the last argument, as HOST:PORT.

import { connect } from "node:net";
import { createInterface } from "node:readline";
import { Game, GreenroomError } from "../dist/index.js";

let game, player, room;
let messages = [];
let events = [];

const verbs = {
  async register({ url, api_token, name }) {
    game = new Game(url, api_token);
    player = await game.signUp({ player_name: name });
    return { player_id: player.id };
  },
  async create_lobby({ max_players, rules }) {
    const made = await player.createLobby({ max_players, rules, realtime_room: true });
    return { lobby_id: made.matchmaking_id };
  },
  async join_lobby({ lobby_id }) {
    await player.joinLobby(lobby_id);
  },
  async start_lobby() {
    return { room_id: (await player.startLobby()).room_id };
  },
  async current() {
    return { room_id: (await player.roomCurrent()).room.room_id };
  },
  async join_room({ room_id }) {
    await player.joinRoom(room_id);
  },
  async connect() {
    room = await player.enter();
    room.on("message", ({ command, data, sender, isUnreliable }) =>
      messages.push({
        command,
        data,
        sender_id: sender.id,
        is_server: sender.isServer,
        is_fast: isUnreliable,
      }),
    );
    room.on("event", (name) => events.push(name));
  },
  closed() {
    return { kind: room.error?.name ?? "" };
  },
  flood({ count, bytes }) {
    for (let each = 0; each < count; each++) {
      room.action("flood", { text: "x".repeat(bytes) }).catch(() => {});
    }
  },
  send({ command, data, target }) {
    room.send(command, data, target).catch(() => {}); // lost on the way, as any message may be
  },
  messages() {
    const found = messages;
    messages = [];
    return { messages: found };
  },
  events() {
    const found = events;
    events = [];
    return { events: found };
  },
  connections() {
    return { count: room.connections };
  },
  async action({ action_type, request_data }) {
    return { response_data: (await room.action(action_type, request_data)).response_data };
  },
  state() {
    return { shared: room.state };
  },
  async save({ document }) {
    await player.setPlayer(document);
  },
  async leaderboard({ sort_by }) {
    const { leaderboard } = await game.leaderboard({ sort_by });
    return { entries: leaderboard.map(({ player_id, rank }) => ({ player_id, rank })) };
  },
  async quit() {
    await room?.close();
  },
};

async function answer(order) {
  try {
    return { ok: (await verbs[order.do](order)) ?? {} };
  } catch (error) {
    if (!(error instanceof GreenroomError)) throw error;
    const kind = error.constructor.name;
    const { status = 0, text = error.message, retryAfter = null, hint = null } = error;
    return { error: { kind, status, text, retry_after: retryAfter, hint } };
  }
}

const [host, port] = process.argv.at(-1).split(":");
const driver = connect(Number(port), host);
driver.write('{"sdk":"typescript"}\n');
for await (const line of createInterface({ input: driver })) {
  const order = JSON.parse(line);
  driver.write(`${JSON.stringify(await answer(order))}\n`);
  if (order.do === "quit") break;
}
driver.end(() => driver.destroy());
