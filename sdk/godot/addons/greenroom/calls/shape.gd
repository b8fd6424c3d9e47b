# Makes whole numbers of JSON integers again, for JSON has no other numbers than floats in Godot.


# Return an answer of the API with the integers that its struct has.
# Documents of the game are left as they are.
static func read(value, struct, shapes):
	var shape = shapes.get(struct, {})
	for name in shape:
		if value.has(name) and value[name] != null:
			value[name] = _read_field(value[name], shape[name], shapes)
	return value


# A shape is "int", the name of a struct, or an array with one of these for the entries of a list.
static func _read_field(value, shape, shapes):
	if typeof(shape) == TYPE_ARRAY:
		var entries = []
		if typeof(value) == TYPE_ARRAY:
			for entry in value:
				entries.append(_read_field(entry, shape[0], shapes))
		return entries
	if shape == "int":
		return whole(value)
	return read(value, shape, shapes) if typeof(value) == TYPE_DICTIONARY else value


# Return a whole number; 0 for anything that is none, and for one that no integer can hold.
static func whole(value):
	if typeof(value) == TYPE_STRING:
		return int(value)
	return int(value) if is_number(value) and abs(value) < 9.2e18 else 0


# Return a number of seconds that a server has named, or the default for anything else.
static func seconds(value, otherwise = 0.0):
	return float(value) if is_number(value) and value >= 0.0 else otherwise


static func text(value):
	return value if typeof(value) == TYPE_STRING else ""


static func is_number(value):
	return typeof(value) == TYPE_INT or typeof(value) == typeof(0.0)
