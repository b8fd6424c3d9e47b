// Two players of PROJECT: they meet in a room, and guess in turn until one finds its number.
import { Game } from "./greenroom-client/dist/index.js";

/**
 * Play one round.
 *
 * @param {string} url the server's address, such as http://127.0.0.1:8080
 * @param {string} key the game's project key
 * @param {(line: string) => void} say called with each line of the story
 */
export async function play(url, key, say) {
  const game = new Game(url, key);
  const players = [await game.signUp({ player_name: "Ann" }), await game.signUp({ player_name: "Bob" })];
  const { room_id } = await players[0].createRoom({ realtime: true });
  await players[1].joinRoom(room_id);
  const rooms = [await players[0].enter(), await players[1].enter()];
  rooms[0].on("connection", (status) => say(`Ann is ${status}`));
  const won = new Promise((resolve) => {
    rooms[0].on("message", ({ command, data, sender }) => {
      if (command === "won" && sender.isServer) resolve(data); // nobody else can say this
    });
  });
  await guess(players, rooms, say);
  const { by, number } = await won;
  say(`${players.find((player) => player.id === by).name} has won with ${number}`);
  await Promise.all(rooms.map((room) => room.close()));
}

async function guess(players, rooms, say) {
  let [low, high] = [1, 100];
  for (let turn = 0; low <= high; turn = 1 - turn) {
    const number = Math.floor((low + high) / 2);
    const { response_data } = await rooms[turn].action("guess", { number });
    say(`${players[turn].name} guesses ${number}: ${response_data.it_is}`);
    if (response_data.it_is === "right") return;
    if (response_data.it_is === "higher") low = number + 1;
    else high = number - 1;
  }
}
