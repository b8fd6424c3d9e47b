# A player who answers: opens a room, tells its id, and greets back everybody who says hello over
# the realtime channel, until somebody says bye. For Godot 3.2 to 3.6.
#
#     godot3-server --script answering.gd --server=http://127.0.0.1:8080 --key=API_TOKEN --name=Ann
extends SceneTree

const HEARTBEAT_SECONDS = 20.0

var arguments = {"server": "http://127.0.0.1:8080", "key": "", "name": "Ann"}
var player_token = ""
var channel = WebSocketClient.new()


func _initialize():
	for argument in OS.get_cmdline_args():
		var parts = argument.trim_prefix("--").split("=", true, 1)
		if parts.size() == 2 and arguments.has(parts[0]):
			arguments[parts[0]] = parts[1]
	play()


func _idle(_delta):
	channel.poll()


func play():
	var me = yield(call_api("game_players.php/register", {"player_name": arguments.name}), "completed")
	if not me:
		return
	player_token = me.private_key
	var made = yield(call_api("game_room.php/create", {"realtime": true}), "completed")
	if not made:
		return
	var minted = yield(call_api("realtime.php/token"), "completed")
	if not minted:
		return
	channel.connect("data_received", self, "_on_data")
	channel.connect("server_close_request", self, "_on_close")
	channel.connect("connection_error", self, "fail", ["the realtime port cannot be reached"])
	var at = minted.realtime_server
	var url = "%s://%s:%d/?client=json" % [at.protocol, at.host, int(at.port)]
	var headers = PoolStringArray(["X-Realtime-Token: " + minted.token])
	channel.connect_to_url(url, PoolStringArray(), false, headers)
	yield(channel, "connection_established")
	channel.get_peer(1).set_write_mode(WebSocketPeer.WRITE_MODE_TEXT)
	print("room ", made.room_id)
	while true:
		yield(create_timer(HEARTBEAT_SECONDS), "timeout")
		send({"type": "heartbeat"})


# Call an operation of the API; a refusal ends the program, and null is returned.
func call_api(path, body = {}):
	var request = HTTPRequest.new()
	root.add_child(request)
	var headers = ["Content-Type: application/json", "X-Api-Token: " + arguments.key]
	if player_token:
		headers.append("X-Game-Player-Token: " + player_token)
	var url = "%s/api/%s" % [arguments.server, path]
	request.request(url, headers, true, HTTPClient.METHOD_POST, to_json(body))
	var answer = yield(request, "request_completed")
	request.queue_free()
	if answer[0] != HTTPRequest.RESULT_SUCCESS:
		return fail("%s cannot be reached" % url)
	var said = parse_json(answer[3].get_string_from_utf8())
	return said if said.success else fail(said.error)


func send(message):
	channel.get_peer(1).put_packet(to_json(message).to_utf8())


func _on_data():
	var message = parse_json(channel.get_peer(1).get_packet().get_string_from_utf8())
	if message.type != "receive":
		return
	if message.command == "hello":
		var is_server = message.sender.get("is_server", false)
		var name = "The server" if is_server else message.sender.player_name
		print(name, " says ", to_json(message.data))
		send({
			"type": "send",
			"command": "hello_back",
			"data": {"heard": message.data},
			"target": "specific",
			"target_ids": [message.sender.game_player_id],
		})
	elif message.command == "bye":
		yield(call_api("game_room.php/leave"), "completed")
		quit()


func _on_close(code, reason):
	if code != 1000:
		fail("closed with %d %s" % [code, reason])


func fail(text):
	printerr(text)
	quit(1)
