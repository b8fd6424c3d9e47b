"""The actor kernel: commands, references, turns, mailboxes. It knows no database and no HTTP."""
