"""Plug-ins that an engine loads by itself must not keep it from starting."""

from __future__ import annotations

import functools
import logging
from importlib import metadata
from typing import Callable

logger = logging.getLogger("sixwarp")


def harmless(package: str, made_for: str) -> Callable[[Callable[[], None]], Callable[[], None]]:
    """Makes a function that registers with an engine log its failure: the engine may have changed its interface.

    Then sixwarp's name is not known to the engine, which says so to those who ask for it.
    """

    def decorate(function: Callable[[], None]) -> Callable[[], None]:
        @functools.wraps(function)
        def register() -> None:
            try:
                function()
            except Exception as error:
                found = f"{package} {_version(package)}"
                logger.warning(
                    "sixwarp's plug-in is made for %s %s and does not fit %s: it is left out (%s: %s)",
                    package, made_for, found, type(error).__name__, error,
                )  # fmt: skip

        return register

    return decorate


def _version(package: str) -> str:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return "of an unknown version"
