"""The conditions that a run was made under: the machine while it measured, its noise, its speed, what differs."""
