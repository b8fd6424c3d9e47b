extends Node
class_name GreenroomRoom
# A room in real time: messages, events, actions and the room's state, over connections that may be lost.
# A lost connection is opened again by itself, and what was missed comes then.
# GreenroomPlayer.connect_room makes one, as its own child. Free it to leave the channel.

# A connection is open: the first, or another one after one was lost.
signal connected
# The connection is lost, and is being opened again; or `closed` follows.
signal connection_lost(code, reason)
# The channel is over: `kind` is one of the constants below. `hint` may say what to do.
signal closed(kind, reason)
# A message has come. `sender` has game_player_id, player_name, is_host, and is_server: true if the
# room's behaviour says this. No member can send such a message. `sender.is_fast` is true for a message
# that came over UDP, whose player_name is "".
signal message_received(command, data, sender)
# Something has happened in the room, such as "member_joined".
signal event_received(event, data)
# The room's state has changed.
signal state_changed(state)
# The server has taken a message of ours, for so many members.
signal message_sent(command, target_count)
# The server has not taken a message of ours. With `retry_after` above 0, try again after so many seconds.
signal complained(text, retry_after)

const Call = preload("../calls/call.gd")
const FastFrames = preload("../fast_lane/fast_frames.gd")
const Frames = preload("frames.gd")
const PendingActions = preload("pending_actions.gd")
const Platform = preload("../platform/platform.gd")
const Result = preload("../calls/result.gd")
const Shape = preload("../calls/shape.gd")
const ResumeCursor = preload("resume_cursor.gd")
const RoomState = preload("room_state.gd")
const Lane = preload("../fast_lane/lane.gd")
const Link = preload("link.gd")

# The channel was closed by this client.
const CLOSED = "Closed"
# A new token is not good: the seat is gone, or this is another server.
const TOKEN_REFUSED = "TokenRefused"
# The same player has connected from elsewhere.
const REPLACED = "Replaced"
# The room is over.
const ROOM_ENDED = "RoomEnded"
# The player has left the room, or was kicked or banned.
const SEAT_LOST = "SeatLost"
# A message of ours was larger than the server takes.
const MESSAGE_TOO_BIG = "MessageTooBig"
# The connection was cut, and could not be opened again in the time allowed.
const CHANNEL_LOST = "ChannelLost"

const UNSENT_MAX = 256
const ACTION_SECONDS_MAX = 30.0

# The room's id.
var room_id = ""
# The state that the room's behaviour shows: `shared`, `private`, `version`.
var state = RoomState.new()
# Once the channel is over: what a developer can do about it; "" where the server has not said that.
var hint = ""
# How often the channel was connected.
var connections = 0
# Seconds for which a lost connection is tried again.
var reconnect_seconds_max = 60.0

var _link = Link.new()
var _actions = PendingActions.new()
var _cursor = ResumeCursor.new()
var _unsent = []
var _is_asking = false
var _lane = null
var _wants_lane = false
var _sequences = {}


# For the add-on itself: prepare for a room; `player` gives the tokens. Its connection is opened once it
# is in the tree.
func setup(player, its_room_id):
	room_id = its_room_id
	_link.setup(player, its_room_id, _cursor)


# Return whether there is a connection.
func is_open():
	return _link.is_open()


# Return whether the channel is over.
func is_over():
	return _link.is_over


# Send a message. While there is no connection, it waits for the next one. It is lost if the connection is
# lost on the way: only `message_sent` says that the server has taken it.
#
# `target` is "all", "host", "others", or "specific" with the ids of members.
# Returns false if too much waits, or the channel is over: nothing was sent then.
func send(command, data = {}, target = "all", target_ids = []):
	if _link.is_over:
		return false
	var frame = Frames.send(command, data, target, target_ids)
	if _link.is_open():
		return _link.put(frame)
	if _unsent.size() >= UNSENT_MAX:
		return false
	_unsent.append(frame)
	return true


# Ask a member for something; 0 is the host. Only the host may ask another member. It happens once at most,
# over lost connections, too. If 1,024 wait already, it is refused. The `completed` of what is returned gives a result, with `data.response_data`.
func ask(action_type, request_data = {}, target_id = 0, seconds_max = ACTION_SECONDS_MAX):
	if _actions.is_full():
		var refused = Call.new()
		var result = Result.new().fail(Result.ACTION_REFUSED, "Too many actions wait for their results: wait, too")
		refused.call_deferred("finish", result)
		return refused
	var ends_at = _now() + seconds_max
	var action = _actions.ask(action_type, request_data, target_id, ends_at)
	if _link.is_over:
		_actions.call_deferred("end_all", "The channel is over")
	elif _link.is_open():
		_link.put(_actions.frame_of(action))
	return action.pending


# Ask for the UDP fast lane. It is kept open, and opened again with each connection. If the server refuses
# it, `complained` says why. A game in a browser has no UDP: `send_fast` uses the connection there.
func open_fast_lane():
	if _wants_lane or Platform.is_web():
		return
	_wants_lane = true
	if _link.is_open():
		_link.put(Frames.OPEN_UDP)


# Return whether `send_fast` uses UDP now.
func is_fast_lane_up():
	return _lane != null and _lane.is_up(_now())


# Return the counts of the present fast lane, such as "packets_lost" and "round_trip_seconds"; {} without one.
func fast_lane_statistics():
	return {} if _lane == null else _lane.statistics()


# Send a message that may be lost: over UDP if the fast lane is up, else as `send`. Returns whether it was
# sent over UDP. Keep the data small: the cipher is GDScript.
#
# `stream` is 1 to 65,535: receivers take only messages newer than the last one of this stream and sender.
# With 0, each message is independent. `command` has at most 64 bytes, `target_ids` at most 16 ids.
func send_fast(command, data = {}, stream = 0, target = "all", target_ids = []):
	if is_fast_lane_up():
		if stream != 0:
			_sequences[stream] = (_sequences.get(stream, 0) + 1) & 0xffffffff
		var sequence = _sequences.get(stream, 0)
		var data_json = Platform.stringify(data)
		var frame = FastFrames.write_message(command, data_json, target, target_ids, stream, sequence)
		if frame != null and _lane.put(frame, _now()):
			return true
	send(command, data, target, target_ids)
	return false


# Close the channel. Messages sent before are still sent.
func close():
	_link.close()


func _ready():
	_link.reconnect_seconds_max = reconnect_seconds_max
	_link.start(self, _now())


func _exit_tree():
	_link.close()


func _process(_delta):
	var now = _now()
	_actions.end_late(now)
	_link.poll(now)
	while true:
		var frame = _link.take(now)
		if frame == null:
			break
		_handle(frame)
	if _lane != null:
		for message in _lane.poll(now):
			_handle_fast(message)


static func _now():
	return Platform.milliseconds() / 1000.0


func _handle(frame):
	_cursor.take(frame)
	match frame.type:
		"receive":
			frame.sender.game_player_id = Shape.whole(frame.sender.game_player_id)
			frame.sender.is_server = frame.sender.get("is_server") == true
			frame.sender.is_fast = false
			emit_signal("message_received", frame.command, frame.get("data"), frame.sender)
		"event":
			_handle_event(frame.event, frame.get("data"))
		"action_result":
			_actions.take(frame)
		"sent":
			emit_signal("message_sent", frame.get("command"), Shape.whole(frame.get("target_count")))
		"error":
			if not _actions.refuse(frame):
				var about = frame.data
				emit_signal("complained", Shape.text(about.get("message")), Shape.seconds(about.get("retry_after")))
		"udp":
			_open_lane(frame.get("data"))


func _handle_event(event, data):
	if not event in ["state", "delta"]:
		emit_signal("event_received", event, data)
		return
	var has_changed = state.take(event, data)
	_is_asking = _is_asking and state.is_lost
	if state.is_lost:
		_ask_state()
	if has_changed:
		emit_signal("state_changed", state)


func _handle_fast(message):
	var text = message.data_json
	var data = null if text == null else Platform.parse(text)
	if data == null and text != "null":
		return  # no JSON: it is dropped alone
	var sender = {
		"game_player_id": message.sender_id,
		"player_name": "",
		"is_host": message.is_host,
		"is_server": message.is_server,
		"is_fast": true,
	}
	emit_signal("message_received", message.command, data, sender)


func _open_lane(keys):
	_close_lane()
	_lane = Lane.new()
	if not _lane.setup(keys):
		_lane = null
		emit_signal("complained", "No fast lane: the server's keys make no sense here", 0.0)


func _close_lane():
	if _lane != null:
		_lane.close()
	_lane = null


# Ask for the whole state, unless it has been asked for and not come yet.
func _ask_state():
	if _is_asking or not _link.is_open():
		return
	_is_asking = true
	_link.put(Frames.WANT_STATE)


# The link calls these.


func _on_link_open():
	connections += 1
	_is_asking = false
	if state.is_lost:
		_ask_state()
	if _wants_lane:
		_link.put(Frames.OPEN_UDP)
	for frame in _actions.frames_again():
		_link.put(frame)
	for frame in _unsent:
		_link.put(frame)
	_unsent.clear()
	emit_signal("connected")


func _on_link_lost(code, reason):
	_close_lane()
	emit_signal("connection_lost", code, reason)


func _on_link_over(kind, reason):
	_close_lane()
	hint = _link.hint
	_actions.end_all(reason)
	emit_signal("closed", kind, reason)
