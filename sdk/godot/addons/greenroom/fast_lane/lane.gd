# One session of the fast lane on a UDP socket. It ends with its control connection. The room calls `poll`
# each frame; times are seconds of a clock that never goes back.

const Cipher = preload("chacha20_poly1305.gd")
const FastFrames = preload("fast_frames.gd")
const LaneEnd = preload("lane_end.gd")
const Shape = preload("../calls/shape.gd")

const OPENING_PING_SECONDS = 0.25
const REOPEN_SECONDS = 1.0
# A frame of the game must not wait for a flood of packets; what is left comes in the next one.
const PACKETS_MAX = 64

var _end = LaneEnd.new()
var _udp = PacketPeerUDP.new()
var _host = ""
var _port = 0
var _ping_seconds = 0.0
var _ping_at = 0.0
var _has_address = false


# Prepare with what the server's frame `udp` holds; return whether that makes sense.
func setup(keys):
	if typeof(keys) != TYPE_DICTIONARY or keys.get("suite") != "chacha20-poly1305":
		return false
	var session = FastFrames.from_hex(str(keys.get("session")))
	var client_key = FastFrames.from_hex(str(keys.get("client_key")))
	var server_key = FastFrames.from_hex(str(keys.get("server_key")))
	if session.size() != LaneEnd.SESSION_BYTES:
		return false
	if client_key.size() != Cipher.KEY_BYTES or server_key.size() != Cipher.KEY_BYTES:
		return false
	_host = str(keys.get("host", "")).lstrip("[").rstrip("]")
	_port = Shape.whole(keys.get("port"))
	_ping_seconds = max(Shape.seconds(keys.get("ping_seconds"), 10.0), OPENING_PING_SECONDS)
	_end.setup(session, client_key, server_key, Shape.seconds(keys.get("silent_seconds_max"), 30.0))
	return true


func is_up(now):
	return _end.is_up(now)


func statistics():
	return _end.statistics


# Send a frame; return false if it cannot go over UDP: not up, or too large.
func put(frame, now):
	if not _end.is_up(now):
		return false
	var packet = _end.pack(frame)
	return packet != null and _udp.put_packet(packet) == OK


# Ping when it is time to, and return the messages that have come.
func poll(now):
	if now >= _ping_at:
		_ping(now)
	var messages = []
	var answers = []
	for _i in range(int(min(_udp.get_available_packet_count(), PACKETS_MAX))):
		messages += _end.receive(_udp.get_packet(), now, answers)
	for answer in answers:
		_udp.put_packet(answer)
	if not _end.is_up(now):
		_ping_at = min(_ping_at, now + REOPEN_SECONDS)
	return messages


func _ping(now):
	if not _has_address:
		_has_address = _udp.set_dest_address(_host, _port) == OK
	if not _has_address:  # no such name: the network may come back
		_ping_at = now + REOPEN_SECONDS
		return
	_udp.put_packet(_end.make_ping(now))
	_ping_at = now + (_ping_seconds if _end.is_up(now) else OPENING_PING_SECONDS)


func close():
	_udp.close()
