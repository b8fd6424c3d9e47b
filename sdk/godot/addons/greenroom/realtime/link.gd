# Keeps a room's connection open: gets tokens, connects, sends heartbeats, and comes back after a loss.
# The room calls `poll` and `take` each frame; times are seconds of a clock that never goes back.

const Backoff = preload("../calls/backoff.gd")
const Frames = preload("frames.gd")
const Platform = preload("../platform/platform.gd")
const Result = preload("../calls/result.gd")
const ResumeCursor = preload("resume_cursor.gd")
const Shape = preload("../calls/shape.gd")
const Socket = preload("../platform/socket.gd")

const ABNORMAL = 1006
const CONNECT_SECONDS_MAX = 15.0
const TOKEN_SECONDS_MAX = 240.0
const HEARTBEAT_SECONDS = 20.0
const ANSWER_SECONDS_MAX = 15.0
const BACKOFF_SECONDS = 0.2
const BACKOFF_SECONDS_MAX = 5.0

# What it does: waits for `_next_at`, waits for a token, connects, or is open.
const WAITING = 0
const MINTING = 1
const CONNECTING = 2
const OPEN = 3

var is_over = false
# What the server has said that a developer can do, as it refused; "" where it has not.
var hint = ""
var reconnect_seconds_max = 60.0
var _player = null
var _room_id = ""
var _cursor = null
var _room = null
var _state = WAITING
var _socket = null
var _token = null
var _minted_at = 0.0
var _is_new_token = false
var _next_at = 0.0
var _lost_at = 0.0
var _deadline = 0.0
var _beat_at = 0.0
var _failures = 0


func setup(player, room_id, cursor):
	_player = player
	_room_id = room_id
	_cursor = cursor


# Begin; `room` is told what happens.
func start(room, now):
	_room = weakref(room)
	_lost_at = now
	_next_at = now


func is_open():
	return _state == OPEN


# Send a frame; return whether there was room for it.
func put(frame):
	return _socket.put(Platform.stringify(frame))


func close():
	if is_over:
		return
	if _socket != null:
		_socket.close()
		_socket.poll()
	_end("Closed", "closed by this client")


func poll(now):
	if is_over:
		return
	if _state == WAITING and now >= _next_at:
		_connect(now)
	elif _state == CONNECTING or _state == OPEN:
		_socket.poll()
		_check(now)


# Return the next frame for the room; null if there is none.
func take(now):
	while not is_over and _socket != null and (_state == CONNECTING or _state == OPEN):
		var text = _socket.take()
		if text == null:
			if _socket.is_over():
				_lose(now, _socket.close_code, _socket.close_reason)
			return null
		var frame = Platform.parse(text)
		if not ResumeCursor.is_sensible(frame):
			continue
		if frame.type == "connected":
			_greet(now, frame.data)
		elif frame.type == "refused":
			hint = Shape.text(frame.data.get("hint"))
		elif frame.type == "heartbeat_ack":
			_deadline = 0.0
		elif _state == OPEN:
			return frame
	return null


func _connect(now):
	hint = ""
	if _token != null and now < _minted_at + TOKEN_SECONDS_MAX:
		_is_new_token = false
		_open(now)
		return
	_state = MINTING
	var minting = _player.mint_token()
	Platform.link(minting, "completed", self, "_on_token")


func _on_token(result):
	if is_over:
		return
	var now = Platform.milliseconds() / 1000.0
	if not result.is_ok:
		if result.kind in [Result.CONNECTION_FAILED, Result.RATE_LIMITED, Result.SERVER_FAILED]:
			_lose(now, ABNORMAL, result.error, result.retry_after)
		else:
			hint = result.hint
			_end(result.kind, result.error)
	elif not _is_token(result.data):
		_end(Result.UNEXPECTED, "The token that the server has sent makes no sense: check the address")
	elif result.data.player_info.room_id != _room_id:
		_end("SeatLost", "the player has a seat in another room")
	else:
		_token = result.data
		_minted_at = now
		_is_new_token = true
		_open(now)


static func _is_token(found):
	var who = found.get("player_info")
	var server = found.get("realtime_server")
	if typeof(found.get("token")) != TYPE_STRING or typeof(who) != TYPE_DICTIONARY:
		return false
	if typeof(who.get("room_id")) != TYPE_STRING or typeof(server) != TYPE_DICTIONARY:
		return false
	var is_text = typeof(server.get("host")) == TYPE_STRING and typeof(server.get("protocol")) == TYPE_STRING
	return is_text and Shape.whole(server.get("port")) > 0


func _open(now):
	var server = _token.realtime_server
	var host = server.host
	if ":" in host and not host.begins_with("["):
		host = "[%s]" % host
	var url = "%s://%s:%d/?client=json&hints=1" % [server.protocol, host, server.port]
	if _cursor.query():
		url += "&" + _cursor.query()
	_socket = Socket.new()
	_state = CONNECTING
	_deadline = now + CONNECT_SECONDS_MAX
	if not _socket.open(url, _token.token, Platform.is_web()):
		_lose(now, ABNORMAL, "the realtime port cannot be reached")


func _greet(now, about):
	_cursor.begin(about)
	_state = OPEN
	_failures = 0
	_deadline = 0.0
	_beat_at = now + HEARTBEAT_SECONDS
	_tell("_on_link_open", [])


# Send heartbeats, and give up a connection that does not answer.
func _check(now):
	if _deadline > 0.0 and now >= _deadline:
		_lose(now, ABNORMAL, "the server does not answer")
	elif _state == OPEN and now >= _beat_at:
		_beat_at = now + HEARTBEAT_SECONDS + ANSWER_SECONDS_MAX
		_deadline = now + ANSWER_SECONDS_MAX
		put(Frames.HEARTBEAT)


func _lose(now, code, reason, retry_after = 0.0):
	var was_open = _state == OPEN
	if _socket != null:
		_socket.cut()
	_socket = null
	_state = WAITING
	if was_open:
		_lost_at = now
		_tell("_on_link_lost", [code, reason])
	if is_over:
		return
	var kind = _kind_of(code, reason)
	if kind == "TokenRefused" and not _is_new_token:
		_token = null
		kind = ""
	elif kind == "":
		if not was_open:
			_token = null  # a server that was started again may listen elsewhere
	if kind:
		_end(kind, reason)
		return
	_failures += 1
	_next_at = now + retry_after + Backoff.pause(_failures, BACKOFF_SECONDS, BACKOFF_SECONDS_MAX)
	if _next_at > _lost_at + reconnect_seconds_max:
		_end("ChannelLost", "not connected again in time: %s" % reason)


# Return why a close frame ends the channel; "" if one may connect again.
static func _kind_of(code, reason):
	if code == 1008:
		return "TokenRefused"
	if code == 1009:
		return "MessageTooBig"
	var kinds = {
		"Connection replaced": "Replaced",
		"Room cleanup": "RoomEnded",
		"Player disconnect": "SeatLost",
	}
	return kinds.get(reason, "")


func _end(kind, reason):
	is_over = true
	_socket = null
	_state = WAITING
	_tell("_on_link_over", [kind, reason])


func _tell(method, arguments):
	var room = _room.get_ref() if _room != null else null
	if room != null:
		room.callv(method, arguments)
