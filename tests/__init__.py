"""The tests: ``vocabulary`` and ``core`` need no server, ``contract`` and ``chaos`` start their own."""
