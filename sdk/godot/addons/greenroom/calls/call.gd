# A call that runs. Godot 4: `var result = await call.completed`; Godot 3: `yield(call, "completed")`.
# It is emitted in a later frame than the call began, never at once.

signal completed(result)


# Tell who waits.
func finish(result):
	emit_signal("completed", result)
