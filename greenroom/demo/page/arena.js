// The arena: a room of the behaviour `Comets`, drawn and steered.

import { Controls } from "./controls.js";
import { Drawing } from "./drawing.js";
import { Pilot } from "./pilot.js";
import { ID, Replay } from "./replay.js";
import { COLORS } from "./sprites.js";

const HUD_MS = 400;
const BOARD_MS = 5000;

export class Arena {
  /**
   * @param room the realtime room
   * @param me the player
   * @param game for the leaderboard
   */
  constructor(room, me, game) {
    this.room = room;
    this.me = me;
    this.game = game;
    this.replay = new Replay();
    this.pilot = new Pilot();
    this.canvas = document.getElementById("field");
    this.drawing = new Drawing(this.canvas);
    this.controls = new Controls(this.canvas);
    this.scene = {
      own: this.pilot.ship, ownId: me.id, known: {}, stars: [],
      ships: this.replay.ships, bolts: this.replay.bolts,
    };
    /** Frames that were drawn, and ticks that came: for those who measure. */
    this.frames = 0;
    this.ticks = 0;
    this.onTick = null;
    this.onFrame = null;
    this.isOver = false;
    this.isNews = false;
    this.last = performance.now();
    this.hudAt = this.boardAt = 0;
    this.quiet = () => {};
    room.on("message", (message) => this.hear(message));
    room.on("state", (state) => this.see(state));
    room.on("connection", (status) => {
      if (status === "connected") this.replay.restart();
    });
    if (room.state !== null) this.see(room.state);
    const frame = (now) => {
      if (this.isOver) return;
      this.draw(now);
      requestAnimationFrame(frame);
    };
    requestAnimationFrame(frame);
  }

  /** Stop drawing; the seat stays as it is. */
  close() {
    this.isOver = true;
    this.drawing.close();
    this.controls.close();
  }

  see(state) {
    this.scene.known = state.ships;
    this.scene.stars = Object.values(state.stars);
    this.isNews = true;
  }

  hear({ command, data, sender }) {
    if (!sender.isServer) return; // believe nobody else
    const now = performance.now();
    if (command === "places") {
      if (!this.replay.take(data, now)) return;
      this.ticks++;
      const row = data.ships.find((ship) => ship[ID] === this.me.id);
      if (row !== undefined) this.pilot.correct(row, now);
      this.onTick?.(data);
    } else if (command === "boom") {
      const color = this.scene.known[data.ship]?.color ?? 0;
      this.drawing.burst(data.x, data.y, color, data.is_last ? 40 : 8, data.is_last ? 22 : 12);
    } else if (command === "star") {
      this.drawing.burst(data.x, data.y, 2, 10, 8);
    }
  }

  draw(now) {
    const milliseconds = Math.min(Math.max(now - this.last, 0), 1000);
    this.last = now;
    const { drawing, pilot } = this;
    const { ship } = pilot;
    const x = drawing.onCanvasX(ship.x) / drawing.ratio;
    const y = drawing.onCanvasY(ship.y) / drawing.ratio;
    this.controls.read(pilot.wish, x, y);
    const isConnected = this.room.status === "connected";
    if (isConnected && pilot.isPlaced) this.send(now);
    if (isConnected) pilot.advance(now, milliseconds);
    this.replay.advance(now, milliseconds);
    drawing.draw(this.scene, milliseconds / 1000);
    if (this.controls.isTouched) drawing.drawThumbs(this.controls.left, this.controls.right);
    this.frames++;
    if (now - this.hudAt > HUD_MS) this.drawHud(now);
    this.onFrame?.(now);
  }

  send(now) {
    const wish = this.pilot.say(now);
    if (wish !== null) this.room.send("fly", wish).catch(this.quiet); // the next one says it anew
  }

  // What stands around the canvas: seldom changed, for each change lays the page out.

  drawHud(now) {
    this.hudAt = now;
    const trip = this.room.roundTripSeconds;
    const away = this.room.status !== "connected";
    setText("ping", away || trip === null ? "–" : `${Math.round(trip * 1000)} ms`);
    setText("loss", away ? "–" : `${Math.round(this.replay.loss * 100)} %`);
    if (this.isNews) this.drawScores();
    if (now - this.boardAt > BOARD_MS && !away) {
      this.boardAt = now;
      void showBoard(this.game, "comets_points");
    }
  }

  drawScores() {
    this.isNews = false;
    const ships = Object.entries(this.scene.known);
    ships.sort(([, one], [, other]) => other.points - one.points);
    const rows = ships.slice(0, 8).map(([id, ship]) => {
      const name = ship.is_bot ? `${ship.name} ⚙` : ship.name;
      return { name, value: ship.points, color: COLORS[ship.color], isMe: Number(id) === this.me.id };
    });
    fill("scores", rows);
  }
}

export function setText(id, text) {
  const element = document.getElementById(id);
  if (element.textContent !== text) element.textContent = text;
}

/** Show rows with a name and a value. */
export function fill(id, rows) {
  const list = document.getElementById(id);
  list.replaceChildren(
    ...rows.map(({ name, value, color, isMe }) => {
      const item = document.createElement("li");
      const [left, right] = [document.createElement("span"), document.createElement("b")];
      left.textContent = name;
      right.textContent = String(value);
      if (color) left.style.color = color;
      if (isMe) item.className = "me";
      item.append(left, right);
      return item;
    }),
  );
}

/** Show who leads, by a stat that only the server writes. */
export async function showBoard(game, stat) {
  let board;
  try {
    board = await game.leaderboard({ sort_by: [stat], limit: 5 });
  } catch {
    return; // the connection's banner tells it; the board is asked for again
  }
  const ranked = board.leaderboard.filter((entry) => entry.stats?.[stat] !== undefined);
  fill("board", ranked.map((entry) => ({
    name: `${entry.rank}. ${entry.player_name}`, value: entry.stats[stat],
  })));
}
