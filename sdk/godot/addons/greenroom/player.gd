extends "generated/player_calls.gd"
class_name GreenroomPlayer
# The calls of one player, and the way into a room in real time. GreenroomGame.player makes one.

const GreenroomRoomScript = preload("realtime/room.gd")


# Connect to the room in which the player has a seat, which must be a realtime one. The room that is
# returned is a child of this node; its signals tell what happens. Connect to them at once.
func connect_room(room_id):
	var room = GreenroomRoomScript.new()
	room.setup(self, room_id)
	add_child(room)
	return room
