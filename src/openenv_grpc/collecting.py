"""Collection of cyclic garbage, put off while a program starts."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def collection_put_off() -> Iterator[None]:
    """Collects no garbage while the block is entered, nor what lives at its end ever after.

    Modules and classes are a few hundred thousand objects, all made to stay. Each collection on the
    way would look at all of them, and so would each full one for as long as the server runs. It
    holds for the whole process, so only programs of ours ask for it.
    """
    if not gc.isenabled():  # by whoever started us, for good
        yield
        return
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        gc.enable()
