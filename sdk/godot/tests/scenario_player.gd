# Plays in the scenario that all SDKs run in one room: it does what the driver says over TCP, a line of JSON
# at a time. Run by tests/engines:
#     godot3-server --path PROJECT --script scenario_player.gd --driver=127.0.0.1:PORT
extends SceneTree

const Call = preload("res://addons/greenroom/calls/call.gd")
const Game = preload("res://addons/greenroom/game.gd")

var driver = StreamPeerTCP.new()
var received = ""
var queue = []
var is_busy = false
var game = Game.new()
var player = null
var room = null
var messages = []
var events = []
var end = ""


func _initialize():
	root.add_child(game)
	for argument in OS.get_cmdline_args():
		if argument.begins_with("--driver="):
			var address = argument.trim_prefix("--driver=").split(":")
			driver.connect_to_host(address[0], int(address[1]))
	say({"sdk": "godot"})


func say(value):
	driver.put_data((to_json(value) + "\n").to_utf8())


func _idle(_delta):
	var count = driver.get_available_bytes()
	if count > 0:
		received += driver.get_utf8_string(count)
		while "\n" in received:
			var end = received.find("\n")
			queue.append(parse_json(received.substr(0, end)))
			received = received.substr(end + 1)
	if not is_busy and queue.size() > 0:
		obey(queue.pop_front())


func obey(order):
	is_busy = true
	var done = call("do_" + order.do, order)
	if done is GDScriptFunctionState:
		done = yield(done, "completed")
	say(done)
	is_busy = false
	if order.do == "quit":
		quit()


func answer(result, names = []):
	if not result.is_ok:
		return {"error": {
			"kind": result.kind, "status": result.status, "text": result.error, "retry_after": result.retry_after,
			"hint": result.hint,
		}}
	var found = {}
	for name in names:
		found[name] = result.data[name]
	return {"ok": found}


func do_register(order):
	game.setup(order.url, order.api_token)
	var made = yield(game.register({"player_name": order.name}), "completed")
	if made.is_ok:
		player = game.player(made.data.private_key)
	return answer(made, ["player_id"])


func do_create_lobby(order):
	var options = {"realtime_room": true, "rules": order.rules}
	var made = yield(player.create_lobby(int(order.max_players), options), "completed")
	return {"ok": {"lobby_id": made.data.matchmaking_id}} if made.is_ok else answer(made)


func do_join_lobby(order):
	return answer(yield(player.join_lobby(order.lobby_id), "completed"))


func do_start_lobby(_order):
	return answer(yield(player.start_lobby(), "completed"), ["room_id"])


func do_current(_order):
	var found = yield(player.room_current(), "completed")
	return {"ok": {"room_id": found.data.room.room_id}} if found.is_ok else answer(found)


func do_join_room(order):
	return answer(yield(player.join_room(order.room_id), "completed"))


func do_connect(order):
	room = player.connect_room(order.room_id)
	room.connect("message_received", self, "_on_message")
	room.connect("event_received", self, "_on_event")
	var begun = Call.new()
	room.connect("connected", begun, "finish", [{"ok": {}}])
	room.connect("closed", self, "_on_closed", [begun])
	return yield(begun, "completed")


func _on_closed(kind, reason, begun):
	end = kind
	begun.finish({"error": {"kind": kind, "status": 0, "text": reason, "retry_after": 0.0, "hint": room.hint}})


func _on_message(command, data, sender):
	messages.append({
		"command": command,
		"data": data,
		"sender_id": sender.game_player_id,
		"is_server": sender.is_server,
		"is_fast": sender.is_fast,
	})


func _on_event(event, _data):
	events.append(event)


func do_send(order):
	room.send(order.command, order.data, order.target)
	return {"ok": {}}


func do_messages(_order):
	var found = messages
	messages = []
	return {"ok": {"messages": found}}


func do_events(_order):
	var found = events
	events = []
	return {"ok": {"events": found}}


func do_connections(_order):
	return {"ok": {"count": room.connections}}


func do_action(order):
	var result = yield(room.ask(order.action_type, order.request_data), "completed")
	return answer(result, ["response_data"])


func do_closed(_order):
	return {"ok": {"kind": end}}


func do_flood(order):
	for _each in range(order.count):
		room.ask("flood", {"text": "x".repeat(order.bytes)})
	return {"ok": {}}


func do_state(_order):
	return {"ok": {"shared": room.state.shared}}


func do_open_fast(_order):
	room.open_fast_lane()
	return {"ok": {}}


func do_fast_up(_order):
	return {"ok": {"up": room.is_fast_lane_up()}}


func do_send_fast(order):
	return {"ok": {"over_udp": room.send_fast(order.command, order.data, 1)}}


func do_save(order):
	return answer(yield(player.set_player(order.document), "completed"))


func do_leaderboard(order):
	var found = yield(game.leaderboard(order.sort_by), "completed")
	if not found.is_ok:
		return answer(found)
	var entries = []
	for entry in found.data.leaderboard:
		entries.append({"player_id": entry.player_id, "rank": entry.rank})
	return {"ok": {"entries": entries}}


func do_quit(_order):
	if room != null:
		room.close()
	return {"ok": {}}
