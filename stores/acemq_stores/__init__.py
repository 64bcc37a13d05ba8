"""What patterns keep things in: folders, S3, SQL. Imports ``acemq_amqp``, and never the reverse."""
