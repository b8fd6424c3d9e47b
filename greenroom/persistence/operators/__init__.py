"""Tables for operators: the audit log, the quarantine, deletions, and when rows expire."""
