# Compares the realtime half with the vectors that all SDKs share. Run by tests/engines:
#     godot3-server --path PROJECT --script vectors.gd --vectors=…/sdk/vectors
extends SceneTree

const Cipher = preload("res://addons/greenroom/fast_lane/chacha20_poly1305.gd")
const FastFrames = preload("res://addons/greenroom/fast_lane/fast_frames.gd")
const LaneEnd = preload("res://addons/greenroom/fast_lane/lane_end.gd")
const Platform = preload("res://addons/greenroom/platform/platform.gd")
const ReplayWindow = preload("res://addons/greenroom/fast_lane/replay_window.gd")
const Frames = preload("res://addons/greenroom/realtime/frames.gd")
const PendingActions = preload("res://addons/greenroom/realtime/pending_actions.gd")
const ResumeCursor = preload("res://addons/greenroom/realtime/resume_cursor.gd")
const RoomState = preload("res://addons/greenroom/realtime/room_state.gd")

var checks = 0
var faults = 0


func _initialize():
	var folder = ""
	for argument in OS.get_cmdline_args():
		if argument.begins_with("--vectors="):
			folder = argument.trim_prefix("--vectors=")
	check_deltas(read(folder, "deltas"))
	check_frames(read(folder, "frames"))
	check_resume(read(folder, "resume"))
	check_actions()
	check_fast_lane(read(folder, "fast_lane"))
	print("%d checks, %d faults" % [checks, faults])
	quit(1 if faults or not checks else 0)


func read(folder, name):
	var file = File.new()
	file.open("%s/%s.json" % [folder, name], File.READ)
	return parse_json(file.get_as_text())


# JSON texts are compared, because values of Godot 3 are not compared by what they hold.
func check(wanted, found, what):
	checks += 1
	if JSON.print(wanted, "", true) != JSON.print(found, "", true):
		faults += 1
		printerr("%s: %s is not %s" % [what, JSON.print(found), JSON.print(wanted)])


func check_deltas(vectors):
	for vector in vectors.deltas:
		var state = RoomState.new()
		check(vector.new, state._patch(vector.old, vector.delta), vector.name)
		check(false, state.is_lost, vector.name)
	for vector in vectors.states:
		var state = RoomState.new()
		for step in vector.events:
			state.take(step.frame.event, step.frame.data)
			check(step.shared, state.shared, vector.name)
			check(step.private, state.private, vector.name)
			check(int(step.version), state.version, vector.name)
			check(step.is_lost, state.is_lost, vector.name)


func check_frames(vectors):
	for vector in vectors.from_server:
		var cursor = ResumeCursor.new()
		var frame = parse_json(vector.text)
		check(true, ResumeCursor.is_sensible(frame), vector.name)
		cursor.take(frame)
		check(1 if vector.counts else 0, cursor.sequence, vector.name)
	for vector in vectors.ignored:
		var parsed = JSON.parse(vector.text)
		var cursor = ResumeCursor.new()
		if parsed.error == OK and ResumeCursor.is_sensible(parsed.result):
			cursor.take(parsed.result)
		check(0, cursor.sequence, vector.name)
	for vector in vectors.from_clients:
		check_sent(vector)


# Check that a frame of ours says the same as one that the server understands.
func check_sent(vector):
	var wanted = parse_json(vector.text)
	match wanted.type:
		"heartbeat":
			check(wanted, Frames.HEARTBEAT, vector.name)
		"state":
			check(wanted, Frames.WANT_STATE, vector.name)
		"send":
			if not wanted.has("id") and not wanted.has("data_json"):
				var ids = wanted.get("target_ids", [])
				check(wanted, Frames.send(wanted.command, wanted.data, wanted.target, ids), vector.name)
		"action":
			if not wanted.has("request_data_json"):
				var ours = Frames.action(
					wanted.id, wanted.action_type, wanted.get("request_data", {}),
					int(wanted.get("target_id", 0)), wanted.get("again", false)
				)
				if not wanted.has("request_data"):
					ours.erase("request_data")
				check(wanted, ours, vector.name)


func check_resume(vectors):
	for vector in vectors.connections:
		var cursor = ResumeCursor.new()
		for connection in vector.connections:
			check("" if connection.query == null else connection.query, cursor.query(), vector.name)
			for text in connection.frames:
				var frame = parse_json(text)
				if frame.type == "connected":
					cursor.begin(frame.data)
				elif ResumeCursor.is_sensible(frame):
					cursor.take(frame)
			check(int(connection.sequence), cursor.sequence, vector.name)


func check_actions():
	var actions = PendingActions.new()
	var asked = actions.ask("deal", {}, 0, 10.0)
	check(false, actions.frame_of(asked).has("again"), "an action is asked for")
	check(true, actions.frames_again()[0].again, "and again over the next connection")
	check(true, actions.refuse({"id": asked.id, "data": {"message": "no"}}), "it is refused")
	check(false, actions.refuse({"id": asked.id, "data": {}}), "and waits no longer")
	check([], actions.frames_again(), "nothing is asked again")


# The fast lane: bytes are hex digits.


func hex(bytes):
	return null if bytes == null else PoolByteArray(bytes).hex_encode()


func check_fast_lane(vectors):
	for vector in vectors.frames:
		check_fast_frame(vector)
	for vector in vectors.malformed:
		if vector.from == "server":
			check(null, FastFrames.read(FastFrames.from_hex(vector.body)), vector.name)
	for vector in vectors.packets:
		if vector.suite == "chacha20-poly1305":
			check_packet(vector)
	for vector in vectors.windows:
		var window = ReplayWindow.new()
		for i in range(vector.numbers.size()):
			var number = int(vector.numbers[i])
			check(vector.taken[i], window.is_fresh(number), vector.name)
			if window.is_fresh(number):
				window.take(number)
		check(int(vector.lost), window.lost(), vector.name)
	for vector in vectors.streams:
		var end = LaneEnd.new()
		for message in vector.messages:
			check(message.taken, end.is_latest(message), vector.name)
	check_session(vectors.session)


func check_fast_frame(vector):
	var fields = vector.fields
	var bytes = FastFrames.from_hex(vector.bytes)
	match vector.type:
		"ping", "pong":
			var kind = FastFrames.PING if vector.type == "ping" else FastFrames.PONG
			check(vector.bytes, hex(FastFrames.write_stamp(kind, fields.stamp)), vector.name)
			check([{"kind": kind, "stamp": int(fields.stamp)}], FastFrames.read(bytes), vector.name)
		"challenge", "response":
			var kind = FastFrames.CHALLENGE if vector.type == "challenge" else FastFrames.RESPONSE
			check(vector.bytes, hex(FastFrames.write_token(kind, FastFrames.from_hex(fields.token))), vector.name)
			check(fields.token, hex(FastFrames.read(bytes)[0].token), vector.name)
		_:
			if vector.from == "server":
				check_received(vector, bytes)
			else:
				var written = FastFrames.write_message(
					fields.command, fields.data, fields.target, fields.player_ids, fields.stream, fields.sequence
				)
				check(vector.bytes, hex(written), vector.name)


func check_received(vector, bytes):
	var frame = FastFrames.read(bytes)[0]
	for name in ["command", "is_host", "is_server"]:
		check(vector.fields[name], frame[name], vector.name)
	for name in ["sender_id", "stream", "sequence"]:
		check(int(vector.fields[name]), frame[name], vector.name)
	check(vector.fields.data, frame.data_json, vector.name)
	for length in range(1, bytes.size() - 1):
		check(null, FastFrames.read(bytes.subarray(0, length - 1)), vector.name + ", cut off")


func cipher_of(key):
	var cipher = Cipher.new()
	cipher.setup(FastFrames.from_hex(key))
	return cipher


func check_packet(vector):
	var cipher = cipher_of(vector.key)
	var body = FastFrames.from_hex(vector.body)
	var packet = LaneEnd.seal(FastFrames.from_hex(vector.session), int(vector.number), body, cipher)
	check(vector.packet, hex(packet), "a packet sealed")
	check(vector.body, hex(cipher.open(packet, LaneEnd.HEADER_BYTES)), "a packet opened")
	for i in range(packet.size()):
		packet[i] ^= 1
		check(null, cipher.open(packet, LaneEnd.HEADER_BYTES), "a packet with byte %d changed" % i)
		packet[i] ^= 1
	var whole = Platform.no_bytes()
	for i in range(LaneEnd.BODY_BYTES_MAX):
		whole.append(255 - i % 3)
	packet = LaneEnd.seal(FastFrames.from_hex(vector.session), int(vector.number), whole, cipher)
	check(hex(whole), hex(cipher.open(packet, LaneEnd.HEADER_BYTES)), "the largest packet")


# Play the session, whose packets are of another suite, with the same frames in ours.
func check_session(vector):
	var session = FastFrames.from_hex(vector.session)
	var keys = [FastFrames.from_hex(vector.client_key), FastFrames.from_hex(vector.server_key)]
	var end = LaneEnd.new().setup(session, keys[0], keys[1], 30.0)
	var answers = [end.make_ping(1.0)]
	var number = 0
	for packet in vector.packets:
		var body = Platform.no_bytes()
		for frame in packet.frames:
			body.append_array(write_signal(frame))
		if packet.from == "server":
			number += 1
			var made = LaneEnd.seal(session, number, body, cipher_of(vector.server_key))
			end.receive(made, 1.0, answers)
			end.receive(made, 1.0, answers)  # a second time it is dropped
			continue
		check(1, answers.size(), "one packet is sent")
		var sent = hex(cipher_of(vector.client_key).open(answers[0], LaneEnd.HEADER_BYTES))
		check(hex(body), sent.substr(0, 2 * body.size()), "the frames of a session")
		check("", sent.substr(2 * body.size()).replace("0", ""), "and nothing but padding behind them")
		answers.clear()
	check(true, end.is_up(1.0) and not end.is_up(31.5), "the lane is up, until it hears nothing")
	check(2, end.statistics.packets_dropped, "packets that came twice")


func write_signal(frame):
	var kind = ["padding", "ping", "pong", "challenge", "response"].find(frame.type)
	if frame.has("token"):
		return FastFrames.write_token(kind, FastFrames.from_hex(frame.token))
	return FastFrames.write_stamp(kind, frame.stamp)
