extends Node
# Calls operations of the API with one set of headers, and repeats them where that is safe.

const Call = preload("call.gd")
const Result = preload("result.gd")
const Shape = preload("shape.gd")
const Platform = preload("../platform/platform.gd")
const Refusals = preload("../generated/refusals.gd")
const Shapes = preload("../generated/shapes.gd")
const Backoff = preload("backoff.gd")

# What the client of a request does once something has been sent.
const SENT = [HTTPClient.STATUS_CONNECTED, HTTPClient.STATUS_REQUESTING, HTTPClient.STATUS_BODY]
const METHODS = {"GET": HTTPClient.METHOD_GET, "POST": HTTPClient.METHOD_POST, "PUT": HTTPClient.METHOD_PUT}

# The server's address, such as https://game.example.
var url = ""
# Names and values of the headers of every call.
var headers = {}
# Seconds that one attempt may take.
var answer_seconds_max = 15
# Attempts, the first included; 1 never repeats.
var attempts_max = 5
# Seconds from the first attempt to the beginning of the last.
var repeat_seconds_max = 30.0
# The attempts under way, by their requests.
var _attempts = {}


# Begin a call; its `completed` gives a result.
func start(method, path, query, body, struct, is_repeatable):
	var attempt = {
		"pending": Call.new(),
		"method": METHODS[method],
		"url": url + path + _query(query),
		"body": "" if body == null else Platform.stringify(body),
		"struct": struct,
		"is_repeatable": is_repeatable,
		"failures": 0,
		"began": Platform.milliseconds(),
	}
	call_deferred("_attempt", attempt)
	return attempt.pending


static func _query(fields):
	var parts = []
	for name in fields:
		if fields[name] != null:
			parts.append("%s=%s" % [name, Platform.escape(str(fields[name]))])
	var query = ""
	for part in parts:
		query += ("&" if query else "?") + part
	return query


func _attempt(attempt):
	var request = HTTPRequest.new()
	add_child(request)
	attempt.was_sent = false
	_attempts[request] = attempt
	request.timeout = answer_seconds_max
	Platform.link(request, "request_completed", self, "_on_answer", [request, attempt])
	var sent = ["Content-Type: application/json"]
	for header in headers:
		sent.append("%s: %s" % [header, headers[header]])
	var error = Platform.begin(request, attempt.url, sent, attempt.method, attempt.body)
	if error != OK:
		_attempts.erase(request)
		request.queue_free()
		_settle(attempt, Result.new().fail(Result.CONNECTION_FAILED, "The request cannot be made: %d" % error))


# Note what is sent. An answer that breaks off ends a request with the same result as no connection.
func _process(_delta):
	for request in _attempts:
		if request.get_http_client_status() in SENT:
			_attempts[request].was_sent = true


func _on_answer(outcome, status, its_headers, bytes, request, attempt):
	_attempts.erase(request)
	request.queue_free()
	var result = Result.new()
	if outcome != HTTPRequest.RESULT_SUCCESS:
		var is_refused = outcome in [HTTPRequest.RESULT_CANT_CONNECT, HTTPRequest.RESULT_CANT_RESOLVE]
		var was_sent = attempt.was_sent or not is_refused
		result.fail(Result.CONNECTION_FAILED, "No answer (result %d of HTTPRequest)" % outcome, was_sent)
	else:
		var answer = Platform.parse(bytes.get_string_from_utf8())
		var is_good = status == 200 and typeof(answer) == TYPE_DICTIONARY and answer.get("success") == true
		if is_good:
			result.succeed(Shape.read(answer, attempt.struct, Shapes.SHAPES))
		else:
			result.refuse(status, answer, Refusals.CODES, _retry_after(its_headers))
	_settle(attempt, result)


static func _retry_after(its_headers):
	for header in its_headers:
		var seconds = header.substr(12).strip_edges()
		if header.to_lower().begins_with("retry-after:") and seconds.is_valid_float():
			return float(seconds)
	return 1.0


# Give the result to who waits, or try once more.
func _settle(attempt, result):
	attempt.failures += 1
	var pause = Backoff.pause(attempt.failures)
	if result.kind == Result.RATE_LIMITED:
		pause += max(result.retry_after, 0.0)
	var seconds = (Platform.milliseconds() - attempt.began) / 1000.0
	var is_late = attempt.failures >= attempts_max or seconds + pause > repeat_seconds_max
	if is_late or not _is_safe(result, attempt.is_repeatable):
		attempt.pending.finish(result)
		return
	Platform.link(get_tree().create_timer(pause), "timeout", self, "_attempt", [attempt])


static func _is_safe(result, is_repeatable):
	match result.kind:
		Result.RATE_LIMITED:
			return true
		Result.CONNECTION_FAILED:
			return is_repeatable or not result.was_sent
		Result.SERVER_FAILED:
			return is_repeatable
	return false
