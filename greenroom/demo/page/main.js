// The demo: who plays, which room they play in, and what the connection does meanwhile.

import { Arena } from "./arena.js";
import { Game, Unauthorized } from "./sdk/index.js";
import { qrcode } from "./qrcode.mjs";
import { Table } from "./table.js";

const KEPT = "greenroom-demo";
const HEARTBEAT = { heartbeatSeconds: 2, answerSecondsMax: 6 };
const GAMES = {
  comets: { title: "Comets", seats: 16 },
  noughts: { title: "Tic-tac-toe", seats: 2 },
};
const BACK_MS = 6000;

/** For those who measure and test. */
const demo = (globalThis.demo = { player: null, room: null, view: null, statuses: [], restarts: 0 });
const $ = (id) => document.getElementById(id);
let about = null;
let game = null;
let hiding = 0;

/** Ask what there is to know about this server. */
async function ask() {
  const answer = await fetch("/demo/about.json", { cache: "no-store" });
  const said = await answer.json();
  if (!answer.ok) throw new Error(said.error);
  return said;
}

// Who plays.

function keep(player) {
  localStorage.setItem(KEPT, JSON.stringify({ key: about.key, token: player.token }));
}

/** Return the player of this browser, as they were before a reload; null without one. */
async function comeBack() {
  const kept = JSON.parse(localStorage.getItem(KEPT) ?? "null");
  if (kept?.key !== about.key) return null; // of another server at this address
  try {
    return await game.signIn(kept.token);
  } catch (error) {
    if (!(error instanceof Unauthorized)) throw error;
    localStorage.removeItem(KEPT);
    return null;
  }
}

/** Return the player, by the name that stands in the form. */
async function become(name) {
  let player = demo.player ?? (await comeBack());
  if (player === null) {
    player = await game.signUp({ player_name: name });
    keep(player); // before anything else: a reload must find the same player
  } else if (player.name !== name) {
    await player.rename({ new_name: name });
  }
  demo.player = player;
  return player;
}

// Which room.

/** Take a seat: in the room of an invitation, in any that has one, or in a new one. */
async function sit(player, kind, invited) {
  const { room } = await player.roomCurrent();
  if (room !== null) {
    if (room.rules?.type === kind && (!invited || invited === room.room_id)) return;
    await player.leaveRoom();
  }
  const { rooms } = await game.listRooms({ limit: 50 });
  const open = rooms.filter((each) => each.rules?.type === kind && each.realtime);
  const wanted = open.filter((each) => each.room_id === invited);
  for (const each of [...wanted, ...open]) {
    try {
      await player.joinRoom(each.room_id);
      return;
    } catch {
      // somebody was faster, or it has just ended: the next one
    }
  }
  const { title, seats } = GAMES[kind];
  const rules = { type: kind, ...(kind === "comets" ? wantedShips() : {}) };
  await player.createRoom({
    room_name: title, realtime: true, host_switch: true, max_players: seats, rules,
  });
}

/** `?ships=16` asks for so many ships, if there is no arena yet. */
function wantedShips() {
  const ships = Number(new URLSearchParams(location.search).get("ships"));
  return ships >= 2 && ships <= 16 ? { ships: Math.round(ships) } : {};
}

async function play(kind, invited = "") {
  const player = demo.player;
  await sit(player, kind, invited);
  await enter(kind);
}

async function enter(kind) {
  demo.view?.close();
  const room = await demo.player.enter(HEARTBEAT);
  demo.room = room;
  demo.statuses = ["connected"];
  room.on("connection", (status, reason) => void follow(status, reason));
  document.body.dataset.view = kind;
  history.replaceState(null, "", `#${kind}/${room.roomId}`);
  $("who").textContent = demo.player.name;
  demo.view =
    kind === "comets"
      ? new Arena(room, demo.player, game)
      : new Table(room, demo.player, game, say);
}

// What the connection does.

async function follow(status, reason) {
  demo.statuses.push(status);
  if (status === "reconnecting") {
    say("The connection is lost. Trying again …", 0);
  } else if (status === "connected") {
    await greet();
  } else if (reason !== null) {
    leave(`The game is over for you: ${reason.message}. Play again?`);
  }
}

/** Say why the connection was lost: the server was started again, or the network was away. */
async function greet() {
  try {
    const now = await ask();
    if (now.start === about.start) {
      say("Connected again.", BACK_MS);
    } else {
      demo.restarts++;
      say("The server was started again. The game goes on.", BACK_MS);
    }
    about = now;
  } catch {
    say("Connected again.", BACK_MS);
  }
}

function say(text, milliseconds = BACK_MS) {
  $("banner").textContent = text;
  $("banner").hidden = false;
  clearTimeout(hiding);
  if (milliseconds > 0) hiding = setTimeout(() => ($("banner").hidden = true), milliseconds);
}

function leave(text = "") {
  demo.view?.close();
  demo.view = demo.room = null;
  document.body.dataset.view = "entrance";
  history.replaceState(null, "", location.pathname + location.search);
  $("banner").hidden = true;
  $("trouble").textContent = text;
}

// The page.

function drawCode() {
  const address = about.phone === null ? null : about.phone + location.hash;
  $("phone").hidden = false;
  $("address").textContent =
    address ?? "Only this machine reaches the demo: start it with --host 0.0.0.0.";
  $("code").hidden = $("scan").hidden = address === null;
  if (address === null) return;
  const code = qrcode(0, "M");
  code.addData(address);
  code.make();
  const [modules, pixels, edge] = [code.getModuleCount(), 6, 4];
  const canvas = $("code");
  canvas.width = canvas.height = (modules + edge * 2) * pixels;
  const context = canvas.getContext("2d");
  context.fillStyle = "#fff";
  context.fillRect(0, 0, canvas.width, canvas.height);
  context.fillStyle = "#0b1026";
  for (let row = 0; row < modules; row++) {
    for (let column = 0; column < modules; column++) {
      if (!code.isDark(row, column)) continue;
      context.fillRect((column + edge) * pixels, (row + edge) * pixels, pixels, pixels);
    }
  }
}

/** Do something that a button asks for, and say what went wrong. */
async function attempt(doing) {
  for (const button of document.querySelectorAll("#entrance button")) button.disabled = true;
  $("trouble").textContent = "";
  try {
    await doing();
  } catch (error) {
    leave(error.text ?? error.message);
  }
  for (const button of document.querySelectorAll("#entrance button")) button.disabled = false;
}

function nameOf() {
  return $("name").value.trim() || $("name").placeholder;
}

/** Return the game and the room that the address names: of an invitation, or before a reload. */
function addressed() {
  const [kind, room] = location.hash.slice(1).split("/");
  return kind in GAMES ? [kind, room ?? ""] : [null, ""];
}

async function begin() {
  about = await ask();
  game = new Game(location.origin, about.key);
  const words = ["Nova", "Orbit", "Pixel", "Quasar", "Rocket", "Sol", "Tango", "Vega"];
  const word = words[Math.floor(Math.random() * words.length)];
  $("name").placeholder = `${word} ${10 + Math.floor(Math.random() * 90)}`;
  const player = await comeBack();
  if (player === null) return;
  demo.player = player;
  $("name").value = player.name;
  const { room } = await player.roomCurrent();
  const [kind, invited] = addressed();
  const isOurs = room !== null && room.rules?.type in GAMES;
  if (isOurs && (kind === null || invited === room.room_id)) await enter(room.rules.type);
}

$("fly").onclick = () => attempt(() => start("comets"));
$("noughts").onclick = () => attempt(() => start("noughts"));
$("share").onclick = drawCode;
$("phone").onclick = () => ($("phone").hidden = true);
$("leave").onclick = () =>
  attempt(async () => {
    const { player, room } = demo;
    leave();
    await room?.close();
    await player.leaveRoom();
  });

async function start(kind) {
  const [wanted, invited] = addressed();
  await become(nameOf());
  await play(kind, wanted === kind ? invited : "");
}

await attempt(begin);
document.body.dataset.ready = "yes";
