# The result of a call, or of an action. Look at `is_ok` first.

const Shape = preload("shape.gd")

# Whether the server did it.
var is_ok = false
# The answer, by the names of the API; empty after an error.
var data = {}
# The kind of the error: one of the constants below, "" if there is none.
var kind = ""
# The HTTP status; 0 if there was no answer.
var status = 0
# The server's text, or what else went wrong.
var error = ""
# A name for the server's text, such as "room_full"; "" for a text that is not known here.
var code = ""
# What a developer can do about it; "" where the text says it.
var hint = ""
# Seconds to wait before the next try, after RATE_LIMITED.
var retry_after = 0.0
# After CONNECTION_FAILED: whether the call may have happened.
var was_sent = false

# The server refused the call, and nothing has changed.
const REFUSED = "ApiError"
# A key or token is missing, wrong, or has been replaced: sign in again.
const UNAUTHORIZED = "Unauthorized"
# The player is banned; `data.ban_info` says for how long.
const BANNED = "Banned"
# There is nothing by this id, or no longer.
const NOT_FOUND = "NotFound"
# There were too many calls, and the allowed retries are used up.
const RATE_LIMITED = "RateLimited"
# The server failed; the call may have happened.
const SERVER_FAILED = "ServerError"
# The answer is not one of this API's. Check the address.
const UNEXPECTED = "UnexpectedAnswer"
# There was no answer, or not in time.
const CONNECTION_FAILED = "ConnectionFailed"
# The server did not take an action, and nothing has changed.
const ACTION_REFUSED = "ActionRefused"
# An action was settled, and has failed; `data` is the whole result.
const ACTION_FAILED = "ActionFailed"
# No result of an action came: it may have happened, or happen yet.
const ACTION_LOST = "ActionLost"
# The channel is over.
const CHANNEL_CLOSED = "ChannelClosed"


static func _kind_of(http_status):
	match http_status:
		401:
			return UNAUTHORIZED
		403:
			return BANNED
		404:
			return NOT_FOUND
		429:
			return RATE_LIMITED
	return SERVER_FAILED if http_status >= 500 else REFUSED


# For the add-on itself: fill in a good answer.
func succeed(answer):
	is_ok = true
	status = 200
	data = answer
	return self


# For the add-on itself: fill in an error without an answer.
func fail(its_kind, text, may_have_happened = false):
	kind = its_kind
	error = text
	was_sent = may_have_happened
	return self


# For the add-on itself: fill in a refusal.
func refuse(http_status, answer, codes, header_seconds):
	status = http_status
	if typeof(answer) != TYPE_DICTIONARY or typeof(answer.get("error")) != TYPE_STRING:
		if http_status < 400:
			return fail(UNEXPECTED, "The answer is not Greenroom's: check the address")
		answer = {"error": "HTTP status %d" % http_status}
	kind = _kind_of(http_status)
	error = answer.error
	code = codes.get("%d %s" % [http_status, error], "")
	hint = Shape.text(answer.get("hint"))
	retry_after = Shape.seconds(answer.get("retry_after"), header_seconds)
	if typeof(answer.get("ban_info")) == TYPE_DICTIONARY:
		data = {"ban_info": answer.ban_info}
	return self
