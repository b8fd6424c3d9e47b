// The client of tictactoe.html: plain functions over one session and one state of the room.
"use strict";

const find = (id) => document.getElementById(id);
const entrance = find("entrance");
const cells = Array.from({ length: 9 }, (_, cell) => makeCell(cell));

/** Where the page plays and as whom: server, key, name, playerId, token, room. A reload keeps it. */
const session = JSON.parse(sessionStorage.getItem("tictactoe") ?? "{}");
/** What the server shows of the room, and the version of it; see docs/reference/realtime.md. */
let state = null;
let version = 0;
let channel = null;
let attempts = 0;
/** Whether the connection is new, and the state not shown since. */
let isBack = false;
/** How far the server's clock is ahead of ours. */
let serverAheadMs = 0;

// Coming and going.

/** Begin with what stands in the address; an invitation needs no form. */
function begin() {
  const address = new URLSearchParams(`${location.search.slice(1)}&${location.hash.slice(1)}`);
  const given = Object.fromEntries(address);
  entrance.server.value = given.server ?? session.server ?? guessServer();
  entrance.key.value = given.key ?? session.key ?? "";
  entrance.elements.name.value = given.name ?? session.name ?? "";
  if (given.key && given.room) {
    attempt(() => enter(given.room));
  } else {
    entrance.elements.name.focus();
  }
}

/** Return where a server is likely to be: beside this page. */
function guessServer() {
  return `http://${location.hostname || "127.0.0.1"}:8080`;
}

/** Take a seat: the one we have, one in the room that we are invited to, or one in a new room. */
async function enter(invitedTo) {
  const [server, key] = [entrance.server.value.replace(/\/+$/, ""), entrance.key.value.trim()];
  if (session.server !== server || session.key !== key) {
    for (const name of Object.keys(session)) delete session[name];
    Object.assign(session, { server, key });
  }
  if (!session.token) await register(entrance.elements.name.value || "Guest");
  if (!session.room || (invitedTo && session.room !== invitedTo)) {
    if (session.room) await call("POST", "game_room.php/leave").catch(() => {});
    session.room = await takeSeat(invitedTo);
  }
  save();
  showTable();
  connect();
}

/** Become a player. */
async function register(name) {
  const made = await call("POST", "game_players.php/register", { player_name: name });
  Object.assign(session, { name, playerId: Number(made.player_id), token: made.private_key });
  save();
}

/** Join a room, or create one; return its id. */
async function takeSeat(room) {
  if (room) {
    await call("POST", `game_room.php/${encodeURIComponent(room)}/join`);
    return room;
  }
  const wanted = { realtime: true, max_players: 2, rules: { type: "tictactoe" } };
  return (await call("POST", "game_room.php/create", wanted)).room_id;
}

/** Be in no room any more, and say why. */
function goodbye(reason) {
  channel?.close();
  delete session.room;
  save();
  history.replaceState(null, "", location.pathname);
  state = channel = null;
  find("table").hidden = true;
  entrance.hidden = false;
  find("connection").textContent = "";
  find("trouble").textContent = reason;
}

function save() {
  sessionStorage.setItem("tictactoe", JSON.stringify(session));
}

/** Do something that may be refused, and say why. */
async function attempt(action) {
  find("trouble").textContent = "";
  try {
    await action();
  } catch (error) {
    find("trouble").textContent = error.message;
  }
}

// The server.

/** A call that the server has refused; without a status it did not answer. */
class Refusal extends Error {
  constructor(text, status) {
    super(text);
    this.status = status;
  }
}

/** Call the API; a refusal is thrown with its text. */
async function call(method, path, body) {
  const headers = { "X-Api-Token": session.key };
  if (session.token) headers["X-Game-Player-Token"] = session.token;
  if (body) headers["Content-Type"] = "application/json";
  const options = { method, headers, body: body && JSON.stringify(body) };
  options.signal = AbortSignal.timeout(10_000);
  let answer, said;
  try {
    answer = await fetch(`${session.server}/api/${path}`, options);
    said = await answer.json();
  } catch {
    throw new Refusal(`The server ${session.server} does not answer.`);
  }
  if (!said.success) throw new Refusal(said.error, answer.status);
  return said;
}

/** Open the control channel; browsers bring the token as a subprotocol. */
async function connect() {
  let told;
  try {
    told = await call("POST", "realtime.php/token");
  } catch (error) {
    const isFinal = error.status >= 400 && error.status < 500 && error.status !== 429;
    if (isFinal) goodbye(error.message);
    else reconnectSoon();
    return;
  }
  const { protocol, host, port } = told.realtime_server;
  const url = `${protocol}://${host}:${port}/?client=json`;
  const opened = (channel = new WebSocket(url, ["greenroom.v1", `token.${told.token}`]));
  const beat = () => opened.readyState === WebSocket.OPEN && say({ type: "heartbeat" });
  const beats = setInterval(beat, 20_000);
  opened.onopen = beat;
  opened.onmessage = (event) => opened === channel && take(JSON.parse(event.data));
  opened.onclose = (event) => {
    clearInterval(beats);
    if (opened === channel) lose(event.reason);
  };
}

/** Send a message over the control channel. */
function say(message) {
  channel.send(JSON.stringify(message));
}

/**
 * Take a message of the control channel. All that is read is read here, and only what the server
 * itself says: an event, or a `receive` with `sender.is_server`. Any other may come from a member
 * with a modified client, the host included.
 */
function take(message) {
  if (message.type === "connected") {
    attempts = 0;
    isBack = true;
    find("connection").textContent = "Connected";
  } else if (message.type === "heartbeat_ack") {
    serverAheadMs = Date.parse(message.timestamp) - Date.now();
    if (state) drawClock();
  } else if (message.type === "receive" && message.sender.is_server === true) {
    if (message.command === "over") announceEnd(message.data.winner);
  } else if (message.type === "event" && message.event === "state") {
    show(message.data.shared, message.data.version);
    if (isBack && !state.turn && state.players.length > 1) attempt(() => act("again", {}));
    isBack = false;
  } else if (message.type === "event" && message.event === "delta") {
    const { from, to, shared } = message.data;
    if (state === null || from !== version) say({ type: "state" });
    else show(shared ? patch(state, shared) : state, to);
  }
}

/** Return a value with a delta applied. */
function patch(value, delta) {
  if ("v" in delta) return delta.v;
  const next = Array.isArray(value) ? [...value] : { ...value };
  Object.assign(next, delta.s);
  for (const [key, inner] of Object.entries(delta.c ?? {})) next[key] = patch(next[key], inner);
  for (const key of delta.d ?? []) delete next[key];
  if ("n" in delta) next.length = delta.n;
  if (delta.a) next.push(...delta.a);
  return next;
}

/** The connection is gone: come back, unless the server does not want us. */
function lose(reason) {
  if (reason === "Connection replaced") {
    goodbye("You play on in another window.");
  } else if (reason === "Room cleanup" || reason === "Player disconnect") {
    goodbye("The room is closed.");
  } else {
    reconnectSoon();
  }
}

/** Try again, later each time, and at once when the network is back. */
function reconnectSoon() {
  find("connection").textContent = "The connection is lost. Reconnecting …";
  const again = () => {
    clearTimeout(timer);
    removeEventListener("online", again);
    if (session.room) connect();
  };
  const timer = setTimeout(again, Math.min(10_000, 500 * 2 ** attempts++) * (0.5 + Math.random()));
  addEventListener("online", again);
}

/** Move; the room refuses what is against the rules. */
const place = (cell) => act("place", { cell });

/** Send an action to the room. */
async function act(type, data) {
  const action = { target_players: "host", action_type: type, request_data: data };
  const sent = await call("POST", "game_room.php/actions", action);
  const { actions } = await call("GET", "game_room.php/actions/poll");
  const mine = actions.find((action) => sent.action_ids.includes(action.action_id));
  if (mine?.status === "failed") throw new Refusal(mine.response_data.error);
}

/** Have another name. */
async function rename() {
  const name = prompt("Your name", session.name)?.trim();
  if (!name) return;
  await call("PUT", "game_players.php/rename", { new_name: name });
  session.name = name;
  save();
}

// What is seen.

/** Show what the server says that there is. */
function show(shared, ofVersion) {
  [state, version] = [shared, ofVersion];
  find("trouble").textContent = "";
  drawPlayers();
  drawBoard();
  drawClock();
  find("turn").textContent = describe();
  const isAlone = state.players.length < 2;
  find("invitation").hidden = !isAlone;
  find("board").hidden = isAlone && !state.cells.some(Boolean);
}

/** Show the table, and the link to it; the address is the link, too. */
function showTable() {
  entrance.hidden = true;
  find("table").hidden = false;
  const { server, key, room } = session;
  history.replaceState(null, "", `${location.pathname}#${new URLSearchParams({ server, key, room })}`);
  find("link").value = location.href;
  find("reach").hidden = !["", "localhost", "127.0.0.1", "[::1]"].includes(location.hostname);
  find("connection").textContent = "Connecting …";
}

/** Return what is going on, in a sentence. */
function describe() {
  const other = state.players.find((player) => player.id !== session.playerId);
  if (!other) return "Waiting for somebody to play with.";
  if (state.turn === session.playerId) return "It is your turn.";
  if (state.turn) return `It is ${other.name}'s turn.`;
  if (!state.winner) return "A draw.";
  return state.winner === session.playerId ? "You won." : "You lost.";
}

/** Return the mark of a player; who began has the crosses. */
function markOf(playerId) {
  if (!playerId) return "";
  return playerId === state.first ? "✕" : "◯";
}

/** Tell those who listen how the game has ended. */
function announceEnd(winnerId) {
  const winner = state?.players.find((player) => player.id === winnerId);
  const how = winner ? `${winner.name} has won.` : "nobody has won.";
  find("news").textContent = `The game is over: ${how}`;
}

function drawPlayers() {
  const cards = state.players.map((player) => {
    const card = document.createElement("li");
    if (player.id === state.turn) card.ariaCurrent = "true";
    const notes = [player.id === session.playerId && "you", player.is_away && "away"];
    if (state.players.length > 1 && state.first) notes.unshift(markOf(player.id));
    addText(card, "name", player.name);
    addText(card, "note", notes.filter(Boolean).join(" · "));
    const wins = addText(card, "wins", player.wins);
    wins.role = "img";
    wins.ariaLabel = `${player.wins} won`;
    return card;
  });
  find("players").replaceChildren(...cards);
}

function addText(parent, className, text) {
  const element = parent.appendChild(document.createElement("span"));
  element.className = className;
  element.textContent = text;
  return element;
}

function drawBoard() {
  for (const [cell, button] of cells.entries()) {
    const owner = state.players.find((player) => player.id === state.cells[cell]);
    const mark = markOf(state.cells[cell]);
    if (mark && mark !== button.textContent) {
      find("news").textContent = `${owner?.name ?? mark} takes ${nameOf(cell)}.`;
    }
    button.textContent = button.dataset.mark = mark;
    button.className = state.line.includes(cell) ? "won" : "";
    button.ariaLabel = `${nameOf(cell)}: ${mark ? `${mark} ${owner?.name ?? ""}` : "empty"}`;
  }
}

/** Let the bar shrink to nothing by the time that the move must have come. */
function drawClock() {
  const bar = find("clock").firstElementChild;
  const left = state.turn ? state.move_ends * 1000 - Date.now() - serverAheadMs : 0;
  const part = Math.max(0, Math.min(1, left / (state.move_seconds * 1000)));
  bar.getAnimations().forEach((animation) => animation.cancel());
  const frames = [{ width: `${part * 100}%` }, { width: "0" }];
  if (part > 0) bar.animate(frames, { duration: left });
}

function nameOf(cell) {
  return `row ${Math.floor(cell / 3) + 1}, column ${(cell % 3) + 1}`;
}

function makeCell(cell) {
  const button = find("board").appendChild(document.createElement("button"));
  button.type = "button";
  button.ariaLabel = `${nameOf(cell)}: empty`;
  button.onclick = () => attempt(() => place(cell));
  return button;
}

// What the player does.

const STEPS = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] };

find("board").onkeydown = (event) => {
  const step = STEPS[event.key];
  const cell = cells.indexOf(event.target);
  if (!step || cell < 0) return;
  event.preventDefault();
  const [column, row] = [(cell % 3) + step[0], Math.floor(cell / 3) + step[1]];
  cells[((row + 3) % 3) * 3 + ((column + 3) % 3)].focus();
};
entrance.onsubmit = (event) => {
  event.preventDefault();
  attempt(() => enter());
};
find("invitation").onsubmit = async (event) => {
  event.preventDefault();
  find("link").select();
  if (navigator.clipboard) await navigator.clipboard.writeText(find("link").value);
  else document.execCommand("copy"); // pages of http from another machine have no clipboard
  event.target.querySelector("button").textContent = "Copied";
};
find("rename").onclick = () => attempt(rename);
find("leave").onclick = () =>
  attempt(async () => {
    await call("POST", "game_room.php/leave");
    goodbye("");
  });
addEventListener("hashchange", () => location.reload());

begin();
