// Tic-tac-toe: a room of the behaviour `Noughts`.

import { fill, setText, showBoard } from "./arena.js";

const BOARD_MS = 5000;

export class Table {
  constructor(room, me, game, say) {
    this.room = room;
    this.me = me;
    this.game = game;
    this.say = say;
    this.isOver = false;
    this.cells = [...document.querySelectorAll("#grid button")];
    this.cells.forEach((cell, number) => (cell.onclick = () => this.place(number)));
    room.on("state", (state) => this.show(state));
    if (room.state !== null) this.show(room.state);
    this.asking = setInterval(() => this.drawHud(), BOARD_MS);
    this.drawHud();
  }

  close() {
    this.isOver = true;
    clearInterval(this.asking);
  }

  async place(cell) {
    try {
      await this.room.action("place", { cell });
    } catch (error) {
      const reason = error.result?.response_data?.error ?? error.message;
      if (!this.isOver) this.say(reason);
    }
  }

  show(state) {
    const [first] = state.players;
    state.cells.forEach((owner, number) => {
      const cell = this.cells[number];
      cell.textContent = owner === 0 ? "" : owner === first?.id ? "✕" : "◯";
      cell.className = state.row.includes(number) ? "won" : owner === first?.id ? "x" : "o";
      cell.disabled = owner !== 0 || state.turn !== this.me.id;
    });
    fill("scores", state.players.map((player) => ({
      name: `${player.id === first?.id ? "✕" : "◯"} ${player.name}`,
      value: player.wins,
      isMe: player.id === this.me.id,
    })));
    setText("turn", this.tell(state));
  }

  tell(state) {
    const other = state.players.find((player) => player.id !== this.me.id);
    if (state.turn === this.me.id) return "Your turn";
    if (state.turn !== 0) return `${other?.name ?? "Nobody"} is thinking …`;
    if (state.winner === 0) return "A draw. The next game begins …";
    return state.winner === this.me.id ? "You win!" : `${other?.name ?? "Nobody"} wins.`;
  }

  drawHud() {
    const trip = this.room.roundTripSeconds;
    setText("ping", trip === null ? "–" : `${Math.round(trip * 1000)} ms`);
    setText("loss", "–");
    void showBoard(this.game, "noughts_wins");
  }
}
