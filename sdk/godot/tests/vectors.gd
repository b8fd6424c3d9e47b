# Compares the realtime half with the vectors that all SDKs share. Run by tests/engines:
#     godot3-server --path PROJECT --script vectors.gd --vectors=…/sdk/vectors
extends SceneTree

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
