"""The logic, written once as ``async def`` over the ports of :mod:`acemq_amqp.core.ports`."""
