"""The actor kernel: typed commands, references, turns, mailboxes. It knows no database and no HTTP."""
