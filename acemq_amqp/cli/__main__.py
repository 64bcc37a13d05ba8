"""``python -m acemq_amqp.cli``: the command ``acemq``, where its script is not on the path."""

from __future__ import annotations

import sys

from acemq_amqp.cli import main

if __name__ == "__main__":
    sys.exit(main())
