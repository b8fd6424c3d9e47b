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
		return int(value)
	return read(value, shape, shapes) if typeof(value) == TYPE_DICTIONARY else value
