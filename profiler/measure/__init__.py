"""One file a pass. Each pass runs alone, in a process of its own, so that no instrument disturbs another."""
