"""What tests stand on: private RabbitMQ nodes, a proxy that loses things, and free ports."""
