# The state of a room as its behaviour shows it to this member.
# It is changed in place as changes come: duplicate what you want to keep. Numbers are floats.

const Shape = preload("../calls/shape.gd")

# What all members see; null before any has come.
var shared = null
# What this member alone sees, such as a hand of cards; null if nothing.
var private = null
# The server's count; 0 before any has come.
var version = 0
# For the add-on itself: whether a change is missing. The whole must be asked for, and until then nothing changes.
var is_lost = false


# For the add-on itself: apply an event; return whether the state has changed.
func take(event, data):
	if event != "state" and (version == 0 or is_lost):
		return false
	if typeof(data) != TYPE_DICTIONARY:
		is_lost = true
		return false
	return _replace(data) if event == "state" else _advance(data)


func _replace(data):
	if not Shape.is_number(data.get("version")):
		is_lost = true
		return false
	version = Shape.whole(data.version)
	shared = data.get("shared")
	private = data.get("private")
	is_lost = false
	return true


func _advance(data):
	if Shape.whole(data.get("from")) != version or not Shape.is_number(data.get("to")):
		is_lost = true
		return false
	shared = _patch(shared, data.get("shared"))
	private = _patch(private, data.get("private"))
	if is_lost:
		return false
	version = Shape.whole(data.to)
	return true


# Return a value with a delta applied. If the delta does not fit, the state is lost.
func _patch(old, delta):
	if delta == null:
		return old
	if not _is_delta(delta):
		is_lost = true
		return old
	if delta.has("v"):
		return delta.v
	if typeof(old) == TYPE_DICTIONARY:
		_patch_object(old, delta)
	elif typeof(old) == TYPE_ARRAY:
		_patch_array(old, delta)
	else:
		is_lost = true
	return old


# Return whether the parts of a delta are of the right kinds.
static func _is_delta(delta):
	if typeof(delta) != TYPE_DICTIONARY:
		return false
	var has_objects = typeof(delta.get("s", {})) == TYPE_DICTIONARY and typeof(delta.get("c", {})) == TYPE_DICTIONARY
	var has_arrays = typeof(delta.get("d", [])) == TYPE_ARRAY and typeof(delta.get("a", [])) == TYPE_ARRAY
	return has_objects and has_arrays and Shape.is_number(delta.get("n", 0))


func _patch_object(fields, delta):
	var to_set = delta.get("s", {})
	for key in to_set:
		fields[key] = to_set[key]
	var to_change = delta.get("c", {})
	for key in to_change:
		if fields.has(key):
			fields[key] = _patch(fields[key], to_change[key])
		else:
			is_lost = true
	for key in delta.get("d", []):
		if not fields.erase(key):
			is_lost = true


func _patch_array(entries, delta):
	var to_set = delta.get("s", {})
	for key in to_set:
		if _is_position(entries, key):
			entries[int(key)] = to_set[key]
	var to_change = delta.get("c", {})
	for key in to_change:
		if _is_position(entries, key):
			entries[int(key)] = _patch(entries[int(key)], to_change[key])
	var length = int(delta.get("n", entries.size()))
	if length < 0 or length > entries.size():
		is_lost = true
		return
	entries.resize(length)
	for entry in delta.get("a", []):
		entries.append(entry)


# Return whether a key is a position of an array; otherwise the state is lost.
func _is_position(entries, key):
	if str(int(key)) == key and int(key) >= 0 and int(key) < entries.size():
		return true
	is_lost = true
	return false
