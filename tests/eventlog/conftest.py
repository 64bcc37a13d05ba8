"""Each case that asks for ``api`` runs four times, as those of the contract do."""

from __future__ import annotations

# pytest finds fixtures by their names in this module
from tests.contract.conftest import api, contract_vhost, flavour, stand  # noqa: F401 - fixtures
from tests.support.bounded import bounding

pytest_collection_modifyitems = bounding(__file__)
