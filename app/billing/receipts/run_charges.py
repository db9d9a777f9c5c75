"""RunCharges: what the messages of a run are charged, summed up while they are recorded."""

from app.billing.receipts.records import NewReceipt
from app.usage import NOTHING_CHARGED, ChargedUsage


class RunCharges:
    """The receipts of one attempt; one that is made again is counted once."""

    def __init__(self) -> None:
        self._counted: set[str] = set()
        self.total: ChargedUsage = NOTHING_CHARGED

    def add(self, receipt: NewReceipt) -> None:
        """Count a receipt."""
        if receipt.source_reference not in self._counted:
            self._counted.add(receipt.source_reference)
            self.total = self.total.plus(receipt.usage, receipt.cost_usd)
