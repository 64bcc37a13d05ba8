"""Numbers that windows add up, exactly: the order and the batches they come in change nothing.

A sum is kept in three parts: the ints, the Decimals, and the floats as numbers that do not
overlap (Shewchuk), whose sum is that of the floats without any rounding. It is rounded once, when
it is told. So sessions may merge and events be folded in any order, and the result is the same to
the last bit.
"""

from __future__ import annotations

from decimal import Context, Decimal, Inexact
from fractions import Fraction
from typing import Any, Final, NamedTuple, TypeAlias

Number: TypeAlias = int | float | Decimal

#: Far enough from what a float holds that no sum of numbers within can leave it.
_LIMIT: Final = 1e300
_LEAST: Final = -_LIMIT
#: Decimals within the limit and of at most so many places add up without rounding.
_PLACES: Final = 300
_EXACT: Final = Context(prec=1000, traps=[Inexact])
_TOLD: Final = Context(prec=34)


class Sum(NamedTuple):
    """A sum so far. It is not changed: adding gives another."""

    whole: int = 0
    decimal: Decimal | None = None
    parts: tuple[float, ...] = ()

    def plus(self, value: Number) -> Sum:
        """With one more number, which was found to be a number before."""
        whole, decimal, parts = self
        if isinstance(value, int):
            return Sum(whole + value, decimal, parts)
        if isinstance(value, float):
            return Sum(whole, decimal, _grown(parts, value))
        return Sum(whole, value if decimal is None else _EXACT.add(decimal, value), parts)

    def joined(self, other: Sum) -> Sum:
        """With another sum."""
        made = self if other.decimal is None else self.plus(other.decimal)
        for part in other.parts:
            made = made.plus(part)
        return made.plus(other.whole)

    def told(self) -> Number:
        """The sum, rounded once. A float among the numbers makes it a float, or else a Decimal."""
        if self.parts:
            return float(self.exactly())
        if self.decimal is not None:
            return _EXACT.add(self.decimal, self.whole)
        return self.whole

    def mean(self, count: int) -> Number:
        """The sum divided; Decimals to 34 digits, everything else as a float."""
        if self.decimal is not None and not self.parts:
            return _TOLD.divide(_EXACT.add(self.decimal, self.whole), count)
        return float(self.exactly() / count)

    def exactly(self) -> Fraction:
        """The sum, not rounded."""
        return sum(map(Fraction, self.parts), Fraction(self.whole) + Fraction(self.decimal or 0))

    def written(self) -> Any:
        """As JSON has it."""
        return [self.whole, written(self.decimal), list(self.parts)]

    @classmethod
    def read(cls, kept: Any) -> Sum:
        """From what :meth:`written` gave."""
        whole, decimal, parts = kept
        return cls(whole, read(decimal), tuple(parts))


class Unfit(ValueError):
    """Why something cannot be added up or compared."""


def number(value: Any) -> Number:
    """A number as it can be kept: one of a subclass (an IntEnum, say) as the plain one.

    :raises Unfit: no number, not finite, too large, or of too many places
    """
    kind = type(value)
    if kind is int or kind is float:
        # False for NaN and the infinities too.
        if _LEAST < value < _LIMIT:
            # its type was compared just now, which mypy does not follow
            return value  # type: ignore[no-any-return]
    elif kind is not bool:
        if isinstance(value, Decimal):
            return _decimal(value)
        for plain in (int, float):
            if isinstance(value, plain):
                return number(plain(value))
    raise Unfit(_fault(value))


def _decimal(value: Decimal) -> Decimal:
    if not value.is_finite() or not _LEAST < value < _LIMIT:
        raise Unfit(_fault(value))
    if int(value.as_tuple().exponent) < -_PLACES:
        raise Unfit(f"a Decimal of more than {_PLACES} places")
    return Decimal(value)


def _fault(value: Any) -> str:
    kind = type(value).__name__
    if isinstance(value, bool) or not isinstance(value, int | float | Decimal):
        return f"of the type {kind}, which is no number"
    if isinstance(value, int):
        return f"of {value.bit_length()} bits, which is not between -1e300 and 1e300"
    return f"{value:.3g}, which is not between -1e300 and 1e300"


def before(one: Number, other: Number) -> bool:
    """Whether a number comes before another; of equal ones of several types, always the same."""
    if one == other:
        return _RANK[type(one)] < _RANK[type(other)]
    return one < other


def plain_number(value: Number) -> Number | str:
    """As a payload has it: a Decimal is given as its text, as not every codec has Decimals."""
    return str(value) if isinstance(value, Decimal) else value


def written(value: Number | None) -> Any:
    """As JSON has it."""
    return {"decimal": str(value)} if isinstance(value, Decimal) else value


def read(kept: Any) -> Any:
    """From what :func:`written` gave."""
    return Decimal(kept["decimal"]) if isinstance(kept, dict) else kept


def _grown(parts: tuple[float, ...], value: float) -> tuple[float, ...]:
    if not parts:
        return (value,)
    kept = []
    for part in parts:
        if abs(value) < abs(part):
            value, part = part, value
        high = value + part
        low = part - (high - value)
        if low:
            kept.append(low)
        value = high
    kept.append(value)
    return tuple(kept)


_RANK: Final[dict[type, int]] = {int: 0, Decimal: 1, float: 2}
