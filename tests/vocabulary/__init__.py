"""Values and decisions: no broker, no waiting."""
