extends "generated/admin_calls.gd"
class_name GreenroomAdmin
# The calls of the game's owner, for a studio's own services in Godot. The private key must never be in a
# game that players get: leave this folder out of their export.

const GreenroomPlayerScript = preload("../greenroom/player.gd")


# Say where the server is, and which game this is.
func setup(its_url, api_token, private_token):
	url = its_url.rstrip("/")
	headers = {"X-Api-Token": api_token, "X-Api-Private-Token": private_token}


# Return the calls of a player; those that may carry the admin key do so.
func player(player_token):
	var made = GreenroomPlayerScript.new()
	made.url = url
	made.headers = headers.duplicate()
	made.headers["X-Game-Player-Token"] = player_token
	add_child(made)
	return made
