tool
extends EditorPlugin
# The add-on has nothing for the editor: its scripts are used from the game's own.
