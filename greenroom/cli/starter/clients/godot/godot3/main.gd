# Two players: they meet in a room, and guess in turn until one finds its number.
extends Node

const Game = preload("res://addons/greenroom/game.gd")

export var server = "http://127.0.0.1:8080"
export var project_key = ""

var players = []
var rooms = []
var names = {}
var winner = null


func _ready():
	for argument in OS.get_cmdline_args():
		if argument.begins_with("--server="):
			server = argument.trim_prefix("--server=")
		elif argument.begins_with("--key="):
			project_key = argument.trim_prefix("--key=")
	var trouble = yield(play(), "completed")
	if trouble != "":
		printerr(trouble)
	get_tree().quit(0 if trouble == "" else 1)


# Play one round. Returns what went wrong; "" if nothing did.
func play():
	var game = Game.new()
	add_child(game)
	game.setup(server, project_key)
	for player_name in ["Ann", "Bob"]:
		var account = yield(game.register({"player_name": player_name}), "completed")
		if not account.is_ok:
			return account.error
		names[int(account.data.player_id)] = player_name
		players.append(game.player(account.data.private_key))  # keep the key: it is the player's token
	var made = yield(players[0].create_room({"realtime": true}), "completed")
	if not made.is_ok:
		return made.error
	var joined = yield(players[1].join_room(made.data.room_id), "completed")
	if not joined.is_ok:
		return joined.error
	for player in players:
		var room = player.connect_room(made.data.room_id)
		rooms.append(room)
		yield(room, "connected")
	rooms[0].connect("message_received", self, "_on_message")
	return yield(guess(), "completed")


func guess():
	var low = 1
	var high = 100
	var turn = 0
	while low <= high:
		var number = (low + high) / 2
		var asked = yield(rooms[turn].ask("guess", {"number": number}), "completed")
		if not asked.is_ok:
			return asked.error
		var answer = asked.data.response_data.it_is
		print(["Ann", "Bob"][turn], " guesses ", number, ": ", answer)
		if answer == "right":
			while winner == null:
				yield(get_tree(), "idle_frame")
			return ""
		if answer == "higher":
			low = number + 1
		else:
			high = number - 1
		turn = 1 - turn
	return "The number was not found"


func _on_message(command, data, sender):
	if command == "won" and sender.is_server:  # nobody else can say this
		winner = names[int(data.by)]
		print(winner, " has won with ", int(data.number))
