// What the compiler lets a game write, and what it does not. Nothing here is run.

import { Admin } from "../../dist/admin.js";
import { ActionFailed, Game, type Message, RateLimited, type Room } from "../../dist/index.js";

interface TicTacToe {
  state: { cells: number[]; turn: number };
  privateState: { hand: string[] };
  messages: { over: { winner: number }; wave: null };
  actions: { place: { request: { cell: number }; response: { won: boolean } } };
}

declare const game: Game;

export async function play(): Promise<void> {
  const player = await game.signUp({ player_name: "Ada", player_data: { level: 1 } });
  const made = await player.createRoom({ realtime: true, rules: { type: "tictactoe" } });
  const roomId: string = made.room_id;
  await player.joinRoom(roomId);
  // @ts-expect-error the room's id is a string
  await player.joinRoom(17);
  // @ts-expect-error there is no such field
  await player.createRoom({ realtme: true });
  // @ts-expect-error a ban says how long
  await new Admin("", "", "").ban({ player_id: 1 });
  // @ts-expect-error game clients have no admin operations
  await player.ban({ player_id: 1, ban_duration: "hour" });

  const room: Room<TicTacToe> = await player.enter<TicTacToe>();
  const turn: number | undefined = room.state?.turn;
  // @ts-expect-error the state has no such field
  room.state?.trun;
  room.on("state", (state, own) => [state.cells.length, own.hand.length]);
  room.on("message", (message: Message<TicTacToe>) => {
    if (message.command === "over") return message.data.winner;
    const nothing: null = message.data;
    return nothing;
  });
  const { response_data } = await room.action("place", { cell: 4 });
  const won: boolean = response_data.won;
  // @ts-expect-error the cell is a number
  await room.action("place", { cell: "4" });
  // @ts-expect-error there is no such action
  await room.action("plaice", { cell: 4 });
  await room.send("wave", null, [17]);
  // @ts-expect-error a wave carries nothing
  await room.send("wave", 1);

  const any = await player.enter();
  await any.action("whatever", { a: 1 });
  await any.send("whatever", { a: 1 }, "host");
  any.on("message", ({ command, data }) => [command.length, data.x]);
  interface Profile {
    level: number;
  }
  const profile: Profile = { level: 2 };
  await player.setPlayer(profile);
}

export function explain(error: unknown): string {
  if (error instanceof RateLimited) return `again in ${error.retryAfter ?? 0} s`;
  if (error instanceof ActionFailed) return error.result.status;
  return error instanceof Error ? error.message : "";
}
