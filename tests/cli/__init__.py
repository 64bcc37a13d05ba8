"""The command ``acemq``, run against real brokers, databases and stores."""
