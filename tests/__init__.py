"""The tests: those of ``contract`` and ``chaos`` start servers of their own, the rest need none."""
