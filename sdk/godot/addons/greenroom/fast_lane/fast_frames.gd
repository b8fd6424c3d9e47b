# The frames inside packets of the fast lane, as docs/reference/realtime-protocol.md defines them.

const ByteReader = preload("byte_reader.gd")
const Platform = preload("../platform/platform.gd")

const PADDING = 0
const PING = 1
const PONG = 2
const CHALLENGE = 3
const RESPONSE = 4
const MESSAGE = 5
const TOKEN_BYTES = 8
const COMMAND_BYTES_MAX = 64
const DATA_BYTES_MAX = 65535
const PLAYER_IDS_MAX = 16
const HEX_DIGITS = "0123456789abcdef"
const TARGETS = ["all", "host", "others", "specific"]


# Return the bytes that hex digits stand for; none if there are other letters.
static func from_hex(text):
	var bytes = Platform.no_bytes()
	for i in range(0, text.length() - 1, 2):
		var high = HEX_DIGITS.find(text[i])
		var low = HEX_DIGITS.find(text[i + 1])
		if high < 0 or low < 0:
			return Platform.no_bytes()
		bytes.append(16 * high + low)
	return bytes


# Return bytes with a number at their end, the highest byte first.
static func put(bytes, value, count):
	for i in range(count):
		bytes.append((int(value) >> (8 * (count - 1 - i))) & 255)
	return bytes


static func write_stamp(kind, stamp):
	return put(put(Platform.no_bytes(), kind, 1), stamp, 4)


static func write_token(kind, token):
	var bytes = put(Platform.no_bytes(), kind, 1)
	bytes.append_array(token)
	return bytes


# Return the bytes of a message; null if it is none for the fast lane.
static func write_message(command, data_json, target, player_ids, stream, sequence):
	var name = Platform.utf8(command)
	var data = Platform.utf8(data_json)
	var ids = player_ids if target == "specific" else []
	if name.size() < 1 or name.size() > COMMAND_BYTES_MAX or data.size() > DATA_BYTES_MAX:
		return null
	if ids.size() > PLAYER_IDS_MAX or not target in TARGETS:
		return null
	var bytes = put(put(Platform.no_bytes(), MESSAGE, 1), TARGETS.find(target), 1)
	bytes = put(put(put(bytes, stream, 2), sequence, 4), ids.size(), 1)
	for id in ids:
		bytes = put(bytes, id, 8)
	bytes = put(bytes, name.size(), 1)
	bytes.append_array(name)
	bytes = put(bytes, data.size(), 2)
	bytes.append_array(data)
	return bytes


# Return the frames of a server's packet; null if they make no sense.
static func read(body):
	var bytes = ByteReader.new().setup(body)
	var found = []
	while bytes.left() > 0:
		var kind = bytes.take(1)
		if kind == PADDING:
			break
		var frame = _read_frame(kind, bytes)
		if frame == null or bytes.is_cut:
			return null
		found.append(frame)
	return found


static func _read_frame(kind, bytes):
	match kind:
		PING, PONG:
			return {"kind": kind, "stamp": bytes.take(4)}
		CHALLENGE, RESPONSE:
			return {"kind": kind, "token": bytes.take_bytes(TOKEN_BYTES)}
		MESSAGE:
			return _read_message(bytes)
	return null


static func _read_message(bytes):
	var flags = bytes.take(1)
	var frame = {
		"kind": MESSAGE,
		"is_host": (flags & 1) != 0,
		"is_server": (flags & 2) != 0,
		"stream": bytes.take(2),
		"sequence": bytes.take(4),
		"sender_id": bytes.take(8),
	}
	var length = bytes.take(1)
	if length < 1 or length > COMMAND_BYTES_MAX:
		return null
	frame.command = bytes.take_text(length)
	if frame.command == null:
		return null
	frame.data_json = bytes.take_text(bytes.take(2))  # null drops this message alone
	if frame.data_json == "":
		frame.data_json = "{}"
	return frame
