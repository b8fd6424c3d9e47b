# The actions of one channel that have no result yet, in the order of their calls.

const Call = preload("../calls/call.gd")
const Result = preload("../calls/result.gd")
const Frames = preload("frames.gd")
const Shape = preload("../calls/shape.gd")

# Actions that may wait for their results. Beyond it they are refused here.
const WAITING_MAX = 1024

var _prefix = _random_text()  # no other run of the game has these ids
var _count = 0
var _waiting = {}


# Return a random text. It needs a source of its own: Godot 3 begins each run with the same numbers.
static func _random_text():
	var chance = RandomNumberGenerator.new()
	chance.randomize()
	return "%08x%08x" % [chance.randi(), chance.randi()]


# Return whether as many wait as may.
func is_full():
	return _waiting.size() >= WAITING_MAX


# Note an action; return the frame that asks for it, and the call that gives its result.
func ask(action_type, request_data, target_id, ends_at):
	_count += 1
	var id = "%s.%d" % [_prefix, _count]
	var action = {
		"id": id,
		"type": action_type,
		"data": request_data,
		"target_id": target_id,
		"ends_at": ends_at,
		"connections": 0,
		"pending": Call.new(),
	}
	_waiting[id] = action
	return action


# Return the frame that asks for an action over a connection.
func frame_of(action):
	action.connections += 1
	return Frames.action(action.id, action.type, action.data, action.target_id, action.connections > 1)


# Return the frames that ask again over a new connection; the server takes no action twice.
func frames_again():
	var frames = []
	for action in _waiting.values():
		frames.append(frame_of(action))
	return frames


# Give a result to the action that it belongs to, if it still waits.
func take(frame):
	var result = Result.new()
	result.succeed(frame)
	if frame.get("status") == "failed":
		result.is_ok = false
		result.fail(Result.ACTION_FAILED, str(frame.get("response_data")))
	_end(frame.get("id"), result)


# Return whether a complaint is about an action; if so, end it.
func refuse(frame):
	var id = frame.get("id")
	if not _waiting.has(id):
		return false
	var about = frame.data
	var is_sent_again = _waiting[id].connections > 1  # the first time it may have been taken
	var kind = Result.ACTION_LOST if is_sent_again else Result.ACTION_REFUSED
	var result = Result.new().fail(kind, Shape.text(about.get("message")), is_sent_again)
	result.retry_after = Shape.seconds(about.get("retry_after"))
	_end(id, result)
	return true


# End those that have waited for too long.
func end_late(now):
	for action in _waiting.values():
		if now >= action.ends_at:
			_end(action.id, Result.new().fail(Result.ACTION_LOST, "No result has come in time", true))


# End all of them: the channel is over.
func end_all(reason):
	for action in _waiting.values():
		_end(action.id, Result.new().fail(Result.CHANNEL_CLOSED, reason, true))


func _end(id, result):
	if not _waiting.has(id):
		return
	var action = _waiting[id]
	_waiting.erase(id)
	action.pending.finish(result)
