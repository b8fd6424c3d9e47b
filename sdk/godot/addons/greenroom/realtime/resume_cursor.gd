# How much has come on a connection, so that the next one begins where it ended.

const Shape = preload("../calls/shape.gd")

# How many of the frames that count have come.
var sequence = 0
var _connection_id = ""


# Return what to ask for in the query when connecting; "" for the first time.
func query():
	return "resume=%s.%d" % [_connection_id, sequence] if _connection_id else ""


# Note the greeting of a new connection.
func begin(connected):
	_connection_id = connected.connection_id
	sequence = 0


# Count a frame, if it counts: what every member gets anew does not.
func take(frame):
	match frame.get("type"):
		"action_result":
			sequence += 1
		"receive":
			if frame.get("unreliable") != true:
				sequence += 1
		"event":
			if not frame.event in ["state", "delta"]:
				sequence += 1


# Return whether a frame of the server makes sense; others are passed over.
static func is_sensible(frame):
	if typeof(frame) != TYPE_DICTIONARY or typeof(frame.get("type")) != TYPE_STRING:
		return false
	match frame.type:
		"receive":
			var sender = frame.get("sender")
			var is_known = typeof(sender) == TYPE_DICTIONARY and Shape.is_number(sender.get("game_player_id"))
			return is_known and typeof(frame.get("command")) == TYPE_STRING
		"event":
			return typeof(frame.get("event")) == TYPE_STRING
		"action_result":
			return typeof(frame.get("id")) == TYPE_STRING or Shape.is_number(frame.get("id"))
		"connected":
			var about = frame.get("data")
			return typeof(about) == TYPE_DICTIONARY and typeof(about.get("connection_id")) == TYPE_STRING
		"refused", "error":
			return typeof(frame.get("data")) == TYPE_DICTIONARY
	return true
