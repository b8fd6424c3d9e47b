"""Tables for operators: audit log, quarantine, partitions, deletions, and when rows expire."""
