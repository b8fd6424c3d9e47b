# The client's end of the UDP fast lane, without a socket: it opens and checks packets, and seals its own.
# Nothing here knows the time; callers say it in seconds of any clock that never goes back.

const ByteReader = preload("byte_reader.gd")
const Cipher = preload("chacha20_poly1305.gd")
const FastFrames = preload("fast_frames.gd")
const Platform = preload("../platform/platform.gd")
const ReplayWindow = preload("replay_window.gd")

const PACKET_BYTES_MAX = 1200
const VERSION = 0x47
const SESSION_BYTES = 8
const NUMBER_AT = 9
const HEADER_BYTES = 17
const BODY_BYTES_MAX = PACKET_BYTES_MAX - HEADER_BYTES - Cipher.TAG_BYTES
# A PING is padded, so that the server may answer it with a CHALLENGE.
const PING_BYTES = 9
const STREAMS_MAX = 256

# Counts of this end. Lost are packets that the server sent and that have not come, dropped those that were
# not genuine, had come before, or made no sense. Outdated messages came after a newer one of their stream.
var statistics = {
	"packets_sent": 0,
	"packets_received": 0,
	"packets_lost": 0,
	"packets_dropped": 0,
	"messages_outdated": 0,
	"round_trip_seconds": null,
}
var _session = null
var _outgoing = Cipher.new()
var _incoming = Cipher.new()
var _silent_seconds_max = 0.0
var _window = ReplayWindow.new()
var _latest = {}
var _number = 0
var _pinged_at = 0.0
var _heard_at = 0.0
var _is_confirmed = false


func setup(session, client_key, server_key, silent_seconds_max):
	_session = session
	_outgoing.setup(client_key)
	_incoming.setup(server_key)
	_silent_seconds_max = silent_seconds_max
	return self


# Return whether messages can go this way: the server has confirmed our address.
func is_up(now):
	return _is_confirmed and now - _heard_at < _silent_seconds_max


# Return a packet with a PING: it opens the way, keeps it open, and measures it.
func make_ping(now):
	_pinged_at = now
	var body = FastFrames.write_stamp(FastFrames.PING, _stamp(now))
	return _seal(FastFrames.put(body, 0, PING_BYTES - body.size()))


# Return a packet with one frame; null if it does not fit.
func pack(frame):
	return _seal(frame) if frame.size() <= BODY_BYTES_MAX else null


func _seal(body):
	_number += 1
	statistics.packets_sent += 1
	return seal(_session, _number, body, _outgoing)


static func seal(session, number, body, cipher):
	var header = FastFrames.put(Platform.no_bytes(), VERSION, 1)
	header.append_array(session)
	return cipher.seal(FastFrames.put(header, number, 8), body)


# Take a packet in; return its messages, and put what must be sent into `answers`.
func receive(packet, now, answers):
	var messages = []
	var frames = _open_fresh(packet)
	if frames == null:
		statistics.packets_dropped += 1
		return messages
	_heard_at = now
	var is_answered = false
	for frame in frames:
		_is_confirmed = frame.kind != FastFrames.CHALLENGE
		match frame.kind:
			FastFrames.CHALLENGE:
				answers.append(_respond(frame.token, now))
				is_answered = true
			FastFrames.PING:
				if not is_answered:
					answers.append(_seal(FastFrames.write_stamp(FastFrames.PONG, frame.stamp)))
				is_answered = true
			FastFrames.PONG:
				if frame.stamp == _stamp(_pinged_at):
					statistics.round_trip_seconds = now - _pinged_at
			FastFrames.MESSAGE:
				if is_latest(frame):
					messages.append(frame)
	return messages


# Return the frames of a packet; null for one to be dropped.
func _open_fresh(packet):
	if not _is_ours(packet):
		return null
	var number = ByteReader.new().setup(Platform.slice(packet, NUMBER_AT, HEADER_BYTES)).take(8)
	var body = _incoming.open(packet, HEADER_BYTES) if _window.is_fresh(number) else null
	if body == null:
		return null
	_window.take(number)
	statistics.packets_received += 1
	statistics.packets_lost = _window.lost()
	return FastFrames.read(body)


func _is_ours(packet):
	if packet.size() <= HEADER_BYTES + Cipher.TAG_BYTES or packet.size() > PACKET_BYTES_MAX:
		return false
	return packet[0] == VERSION and Platform.slice(packet, 1, NUMBER_AT) == _session


func _respond(token, now):
	_pinged_at = now
	var body = FastFrames.write_token(FastFrames.RESPONSE, token)
	body.append_array(FastFrames.write_stamp(FastFrames.PING, _stamp(now)))
	return _seal(body)


# Return whether a message is to be taken; if so, older ones of its stream are not.
func is_latest(message):
	if message.stream == 0:
		return true
	var stream = "%d/%d" % [message.sender_id, message.stream]
	if _latest.has(stream):
		var ahead = (int(message.sequence) - _latest[stream]) & 0xffffffff
		if ahead == 0 or ahead >= 0x80000000:
			statistics.messages_outdated += 1
			return false
	elif _latest.size() >= STREAMS_MAX:
		_latest.erase(_latest.keys()[0])
	_latest[stream] = int(message.sequence)
	return true


static func _stamp(now):
	return int(now * 1000.0) & 0xffffffff
