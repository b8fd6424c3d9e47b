extends "generated/game_calls.gd"
class_name GreenroomGame
# The calls that need the game's project key alone. Begin here: add one to the tree, and call `setup`.
# Every call returns at once. Its `completed` gives a result: `await game.register().completed` in Godot 4,
# `yield(game.register(), "completed")` in Godot 3.

const GreenroomPlayerScript = preload("player.gd")


# Say where the server is, and which game this is.
func setup(its_url, api_token):
	url = its_url.rstrip("/")
	headers = {"X-Api-Token": api_token}


# Return the calls of a player, who is known by the token that `register` has answered: a child of this node.
func player(player_token):
	var made = GreenroomPlayerScript.new()
	made.url = url
	made.headers = headers.duplicate()
	made.headers["X-Game-Player-Token"] = player_token
	add_child(made)
	return made
