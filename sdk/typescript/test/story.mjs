// Two players in one program, as a test leads them: in Node, and on a page of a browser.

/** Open a lobby with one player, join it with the other, start it, and connect both. */
export async function begin(sdk, { server, key, options = {} }) {
  const game = new sdk.Game(server, key);
  const players = [];
  for (const name of ["Ada", "Ben"]) players.push(await game.signUp({ player_name: name }));
  const [ada, ben] = players;
  const opened = await ada.createLobby({
    matchmaking_name: "Tally for two",
    max_players: 2,
    realtime_room: true,
    can_leave_room: true,
    rules: { type: "tally" },
  });
  const { lobbies } = await game.listLobbies({ search: "tally" });
  const [found] = lobbies.filter((lobby) => lobby.matchmaking_id === opened.matchmaking_id);
  await ben.joinLobby(found.matchmaking_id, { player_data: { colour: "blue" } });
  const started = await ada.startLobby();
  const { matchmaking } = await ben.lobbyCurrent();
  if (matchmaking.room_id !== started.room_id) throw new Error("the room of the lobby differs");
  const rooms = [];
  for (const player of players) rooms.push(await player.enter(options));
  return new Story(game, players, rooms);
}

class Story {
  /** How many actions were answered. */
  done = 0;
  /** What went wrong, in words. */
  troubles = [];
  isOver = false;

  constructor(game, players, rooms) {
    Object.assign(this, { game, players, rooms });
    this.heard = rooms.map(() => []);
    this.events = rooms.map(() => []);
    this.statuses = rooms.map(() => []);
    /** The numbers that each has said, and the server has taken. */
    this.said = rooms.map(() => []);
    rooms.forEach((room, at) => {
      room.on("message", (message) => this.heard[at].push(message));
      room.on("event", (name) => this.events[at].push(name));
      room.on("connection", (status) => this.statuses[at].push(status));
    });
  }

  get totals() {
    return this.rooms.map((room) => room.state?.total ?? null);
  }

  /** Act and speak with both, one thing after the other, until `stop`. */
  go() {
    this.running = Promise.all(this.rooms.map((room, at) => this.play(room, at)));
    return 0;
  }

  async play(room, at) {
    for (let number = 1; !this.isOver; number++) {
      try {
        await room.action("add", { count: 1 }, { secondsMax: 100 });
        this.done++;
      } catch (error) {
        this.troubles.push(`${error}`);
      }
      const taken = (others) => others === 1 && this.said[at].push(number);
      await room.send("number", number).then(taken, () => {});
    }
  }

  async stop() {
    this.isOver = true;
    await this.running;
    return this.troubles;
  }

  /** Return the numbers that a room has heard from the other member. */
  numbers(at) {
    return this.heard[at].filter(({ command }) => command === "number").map(({ data }) => data);
  }

  async end() {
    for (const room of this.rooms) await room.close();
    return this.rooms.map((room) => room.status);
  }
}
