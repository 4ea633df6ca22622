"""Packed copies of ensembles, which backends read in place of the arrays of an `Ensemble`.

An ensemble is packed once for each layout, at the first prediction that needs it. The copies are
kept here, not in the ensemble, so that models are pickled, copied and compared without them. An
`Ensemble` never changes, and a new fit makes a new one, so a copy cannot be out of date.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import Any, TypeVar

Packed = TypeVar("Packed")


class PackedEnsembles(dict[tuple[Any, ...], Packed]):
    """Packed ensembles of one backend, each freed with its `Ensemble`.

    Threads can use it together, without a lock that a forked process could find locked: if several
    threads pack an ensemble at the same time, all of them get the copy that was stored first.
    """

    def of(self, owners: tuple[Any, ...], layout: Any, pack: Callable[[], Packed]) -> Packed:
        """The copy with this layout; ``pack()`` if there is none yet.

        Parameters
        ----------
        owners : tuple of object
            The ensemble, and other objects that the copy must not outlive.
        layout : hashable
            What the copy depends on besides its owners, such as the dtype of the rows.
        pack : callable
            Packs the ensemble.
        """
        key = (*map(id, owners), layout)
        found = self.get(key)
        if found is None:
            copy = pack()
            for owner in owners:  # first, so that no interrupt leaves a copy of a freed owner
                weakref.finalize(owner, self.pop, key, None).atexit = False
            found = self.setdefault(key, copy)
        return found
